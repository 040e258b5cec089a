// Serverkill kills a server with kill -9 while clients write to it, starts it again on the
// same store, and looks whether everything that was acknowledged is there.
//
//	go run ./tests/serverkill --cycles 100
//
// The clients are go-redis; the store's level of durability is always. It prints, last, a line
// for each figure; the exit code is 1 unless nothing was lost and nothing torn.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	if dir := os.Getenv(serveVariable); dir != "" {
		if err := serve(dir); err != nil {
			fmt.Fprintln(os.Stderr, "serverkill: server:", err)
			os.Exit(1)
		}
		return
	}
	cycles := flag.Int("cycles", 100, "how often the server is killed")
	seed := flag.Uint64("seed", 1, "seed of what the clients do and when the server is killed")
	flag.Parse()
	lost, err := run(context.Background(), *cycles, *seed, true)
	if err != nil {
		fmt.Fprintln(os.Stderr, "serverkill:", err)
		os.Exit(2)
	}
	if lost > 0 {
		os.Exit(1)
	}
}

// run kills a server so often, and returns how much was lost or torn.
func run(ctx context.Context, cycles int, seed uint64, progress bool) (lost int, err error) {
	dir, err := os.MkdirTemp("", "serverkill")
	if err != nil {
		return 0, err
	}
	defer func() {
		if removed := os.RemoveAll(dir); err == nil {
			err = removed
		}
	}()
	redis.SetLogger(silent{})
	random := rand.New(rand.NewPCG(seed, 0))
	clients := make([]*client, 8)
	for i := range clients {
		clients[i] = newClient(i, rand.New(rand.NewPCG(seed, uint64(i)+1)))
	}
	acknowledged := 0
	var findings []string
	for cycle := range cycles {
		s, err := start(ctx, dir)
		if err != nil {
			return 0, err
		}
		for _, c := range clients {
			found, err := c.verify(ctx, s.addr)
			if err != nil {
				return 0, fmt.Errorf("cycle %d: %w", cycle, err)
			}
			findings = append(findings, found...)
		}
		done := make(chan error, len(clients))
		for _, c := range clients {
			go func() { done <- c.write(ctx, s.addr) }()
		}
		time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
		if err := s.kill(); err != nil {
			return 0, err
		}
		for range clients {
			if err := <-done; err != nil {
				return 0, fmt.Errorf("cycle %d: %w", cycle, err)
			}
		}
		acknowledged = 0
		for _, c := range clients {
			acknowledged += c.acknowledged
		}
		if progress && (cycle+1)%10 == 0 {
			fmt.Printf("after %d cycles: %d writes acknowledged, %d lost or torn\n", cycle+1, acknowledged, len(findings))
		}
	}
	s, err := start(ctx, dir)
	if err != nil {
		return 0, err
	}
	for _, c := range clients {
		found, err := c.verify(ctx, s.addr)
		if err != nil {
			return 0, err
		}
		findings = append(findings, found...)
	}
	for _, f := range findings[:min(len(findings), 20)] {
		fmt.Println(f)
	}
	if progress {
		fmt.Printf("kill -9 cycles %d\nacknowledged writes %d\nlost or torn %d\n", cycles, acknowledged, len(findings))
	}
	return len(findings), s.kill()
}
