// Package scalableext is what the filter extensions share: handles, and growth by a chain of
// layers, each a filter of its own, of which the newest takes new items.
//
// Terminology
//
//   - layer: one filter of fixed size; RedisBloom says sub-filter.
//   - capacity: the distinct items a filter holds at the error rate asked for.
//   - expansion: the factor between the capacities of a layer and the next; 0
//     for a filter that does not grow, which has one layer for ever.
//
// A chain is generic over its layers: it knows their order and the parameters
// common to all, which are stored in front of the extension's own.
package scalableext
