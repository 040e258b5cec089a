// Package server serves a store over the Redis protocol, so that clients made for Redis with RedisBloom work
// unchanged: RESP2 and RESP3, pipelines, MULTI and WATCH, AUTH.
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
//   - connection: one client. Its own goroutine reads its commands, runs them in order, and writes the replies.
//   - pipeline: commands that a client sends without waiting for replies.
//   - batch: the commands whose replies are written to the socket at once: a pipeline, or a part of a long one.
//   - settling: waiting until everything that a batch wrote, and everything that its replies rest on, is on stable
//     storage.
//   - stranger: a connection whose client has not authenticated itself, or has not finished the TLS handshake.
//   - held: the memory of a connection that grows with what the client sends and asks for.
//   - turn: the right of a busy connection to run commands for a while, see admission.
//
// # How it works
//
// Package resp finds commands in the bytes received and writes replies; module.Session runs commands. This package
// does the rest: server.go accepts connections, conn.go runs one, module.go has the commands about connections and
// the server, limits.go and admission.go say how much a client may use, strangers.go bounds clients that have not
// logged in, stats.go counts, metrics.go gives the counts to Prometheus.
//
// # Durability
//
// The server replies to a write when the write is as durable as the store's level requires. At level Always it runs the
// commands of a batch one after the other, and then settles them by one sync, which it shares with all other
// connections that wait for one. Only then does it send replies of the batch. If the sync fails, the reply to each
// write of the batch is the failure, because the outcome of the write is unknown.
//
// # Limits
//
// No client, with or without the password, can use more memory, connections or time than the Options and settings
// allow: see limits.go. A command that panics ends the process: the memory that it leaves behind cannot be trusted,
// and a store that is opened again has everything that was acknowledged.
package server
