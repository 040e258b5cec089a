// Package server serves a store over the protocol of Redis, so that clients made for Redis
// with RedisBloom work unchanged: RESP2 and RESP3, pipelines, MULTI and WATCH, AUTH.
//
//	db, err := sievekv.Open("data", &sievekv.Options{Modules: module.New(server.Module())})
//	...
//	s, err := server.New(db.Store(), nil)
//	...
//	l, err := net.Listen("tcp", "127.0.0.1:6380")
//	...
//	err = s.Serve(l) // until Shutdown
//
// # Terminology
//
//   - connection: one client. A goroutine of its own reads its commands, runs them and writes
//     the replies, in order.
//   - pipeline: the commands that a client had sent by the time the server read.
//   - batch: what is answered by one write to the socket: a pipeline, or a part of a long one.
//   - settling: waiting until what a batch wrote, and what its answers were based on, is on
//     stable storage.
//   - held: the memory of a connection that grows with what it sends or is to be sent.
//
// # How it works
//
// Package resp finds commands in the bytes received and writes replies; module.Session runs
// commands. What is left is here: server.go accepts connections, conn.go runs one, module.go
// has the table of the commands that are about connections and the server, which Module adds
// to a store's, limits.go says how much a client may take, stats.go counts, metrics.go shows
// the counts to Prometheus.
//
// # Durability
//
// A reply to a write is sent when the write is as durable as the store's level asks for. Under
// Always the commands of a batch are applied one after the other, and then settled by one
// sync, shared with all other connections that wait for one. Only then is anything of the
// batch sent. If that sync fails, each write of the batch is answered with the failure, as
// its outcome is unknown.
//
// # Limits
//
// Nobody, with or without the password, may take more memory, connections or time than the
// Options and settings allow: see limits.go. A command that panics ends the process: what it left
// behind in memory could not be trusted, and a store that is opened again has all that was
// acknowledged.
package server
