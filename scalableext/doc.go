// Package scalableext has what the filter extensions share: handles, and growth by a chain of layers. Each layer is a
// filter of its own; the newest takes new items.
//
// # Terminology
//
//   - layer: one filter of fixed size; RedisBloom says sub-filter.
//   - capacity: the number of distinct items that a filter holds at its error rate.
//   - expansion: the factor between the capacities of a layer and the next; 0 for a filter that does not grow and always
//     has one layer.
//
// # How it works
//
// A chain is generic over its layers. It knows their order and the parameters that all of them share. These are
// stored before the extension's own parameters.
package scalableext
