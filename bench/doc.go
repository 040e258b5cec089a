// Bench measures sievekv beside other libraries and programs, in the same run, and prints a table for each topic. It is
// a module of its own, so that programs that use sievekv do not get what it compares with.
//
//	go -C bench run . [--quick|--full] [--topic T] [--write]
//
// What is compared is measured in turn, several times, and a table has medians. With --write the tables also go to
// docs/BENCHMARKS.md, with plots. Programs that are not installed, such as redis-server, are left out.
//
// # The files
//
// Each topic has a file of its name. main.go lists the topics. bench.go runs them, run.go measures sides in turn, table.go
// has rows and what they must reach, page.go and plot.go make the page, machine.go describes the machine. process.go runs
// programs, stores.go opens stores and Pebble, client.go is the client of both servers.
package main
