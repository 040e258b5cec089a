// Package rounds runs a group of processes, kvshell serve --cluster, does bad things to it, and looks whether it keeps what it promises.
//
// Between the members stands a proxy of the test, which cuts links and delays them (network.go). Clients write strings, increment
// counters, add to a filter and run transactions, at the level always, and note what they know of each outcome: acknowledged, refused or
// unknown (clients.go). Others read on any member what was acknowledged last. Each round does one bad thing (fault.go). Then the group
// has to get well, the clients have to go on, and each member must have what was acknowledged, and nothing of what was refused
// (check.go). At the end the members' stores are compared.
//
// For a power failure, for a disk that is slow or full, and for a wrong clock, a member is served by the test's own program, on a disk
// in memory that knows what was synced of it (disk.go, serve.go, disks.go, clocks.go). What a power failure has left of it goes into the
// member's directory, and kvshell goes on with that.
//
// Which bad thing comes next, to whom, and for how long, follows from a seed. What the processes make of it does not.
package rounds
