// Package cluster has what clients of Redis Cluster's protocol are told about a group of equal stores: the slot of a key,
// and the replies that show the group as a cluster with one shard.
//
// # Terminology
//
//   - group: stores on several machines that have the same content. A member is one of them.
//   - leader: the member that takes writes. Redis calls it master, and the others replicas or slaves.
//   - learner: a member that is being filled, and does not vote yet.
//   - term: a number that is higher for each later leader. Redis calls it epoch.
//   - index: the number of a message of the group's log. A member applies messages in the order of their indexes.
//   - slot: one of 16,384 parts of the keyspace, chosen by a checksum of the key. A group has all of them.
//
// # How it works
//
// Group is what a server needs to know of its group. A Status is a group at one moment, and the functions here make
// replies of it alone: they do no I/O, and can be tested without a group. Formats are as in Redis 7.4 and 8, byte for
// byte; facts that Redis shows and a group does not have, such as the number of messages on its bus, are left out or 0.
package cluster
