// Replay has a store of filters of every type used by random commands, and records what its log gets. It makes a backup
// on the way, replays all later records into that, and compares the two stores key by key.
//
//	go run ./tests/replay --commands 100000
//
// It prints how many keys were compared and how many differ. The exit code is 1 if any does.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	commands := flag.Int("commands", 100_000, "how many commands there are")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the commands; what runs beside them differs all the same")
	flag.Parse()
	if flag.NArg() > 0 || *commands < 100 {
		fmt.Fprintf(os.Stderr, "replay: unexpected argument %q, or --commands %d is below 100\n", flag.Args(), *commands)
		os.Exit(2)
	}
	fmt.Println("seed", *seed)
	found, err := replay(*commands, *seed, func(int) bool { return false })
	if err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(2)
	}
	fmt.Print(found)
	if found.Differ > 0 {
		os.Exit(1)
	}
}
