// Package wire carries the messages of raft, and snapshots, between the members of a group. Raft bears messages that
// are lost, doubled or late, so the package promises little: every message that arrives was sent by a member of the
// group to this member, and messages of one connection arrive in order.
//
// # How it works
//
// A member dials each of the others, and sends messages on that connection only: one connection a direction. A snapshot has a
// connection of its own, so that it holds up no message, and so have probes, by which members learn of each other's clocks. All is
// sent in frames (frame.go).
//
// Between machines connections are TLS, and each side checks the other's certificate against the group's CA. Without
// TLS, both ends must be loopback addresses. Then the dialer says hello: its group, its own id, and the id of the
// member that it wants. The other side answers whether it agrees, and why not. A member that is refused logs the
// reason, too.
//
// # Slow and dead members, and strangers
//
// Each member has a queue of its own, bounded in bytes. Messages that do not fit are dropped, and Unreachable is told.
// If a connection fails, waiting messages are dropped, and the member is dialed again after a pause that grows to a
// second. Both sides of a connection send pings, and cut it if nothing comes for Options.Silence. So a partition that
// ends is noticed soon, whatever TCP makes of it.
//
// Before a connection has said hello, it may send one frame of 1 KiB, and has Options.Silence for that and for TLS.
// There are at most 64 such connections: one more ends the oldest. A member has at most one connection of each kind: a
// new one ends the old one. Buffers grow with the bytes that arrive, not with announced lengths.
package wire
