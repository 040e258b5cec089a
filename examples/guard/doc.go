// Guard is an HTTP service of users in SQLite, with package guard before the database, and a load generator that shows what
// the guard does.
//
//	go -C examples/guard run . [--quick] [--write]
//
// runs the load against the service without the guard and with it, and prints tables: how many queries reach the database,
// and how long requests take. With --write the tables also go to docs/GUARD.md, with a plot.
//
//	go -C examples/guard run . --serve 127.0.0.1:8080 --dir ./users
//
// serves. It is a module of its own, so that programs that use sievekv do not get SQLite.
//
// # The files
//
// service.go has the service: how rows are read, written and removed by a guard, and an order that is placed once.
// database.go is the database. scenes.go are the failures, load.go makes the load, page.go the tables and the plot. Package
// rediscache keeps the entries of a guard in Redis.
package main
