//go:build !race

// To compile go-redis with the race detector would take longer than the tests of this package.

package server_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
)

// A program serves the store that it uses itself: clients find what the program adds.
func Example() {
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Modules: module.New(server.Module())})
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.New(db.Store(), nil)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Serve(l) }()

	seen := db.Bloom("seen")
	if err := seen.Reserve(sievekv.Capacity(1000, 0.01), nil); err != nil {
		log.Fatal(err)
	}
	if _, err := seen.AddString("https://example.org/"); err != nil {
		log.Fatal(err)
	}

	// A client, here by hand; any Redis library does the same.
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	command := [][]byte{[]byte("BF.EXISTS"), []byte("seen"), []byte("https://example.org/")}
	if _, err := client.Write(resp.AppendCommand(nil, command)); err != nil {
		log.Fatal(err)
	}
	answer, err := resp.NewReader(client).Read()
	fmt.Println(answer, err)

	fmt.Println(s.Shutdown(context.Background()))
	fmt.Println(<-ended)
	fmt.Println(db.Close())
	// Output:
	// (integer) 1 <nil>
	// <nil>
	// server: closed
	// <nil>
}

// A Redis client with RedisBloom's commands.
func ExampleServer() {
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Modules: module.New(server.Module())})
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.New(db.Store(), nil)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free; kvshell serve has 6380
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Serve(l) }()
	ctx, addr := context.Background(), l.Addr().String()

	err = func() error {
		c := redis.NewClient(&redis.Options{Addr: addr}) // github.com/redis/go-redis/v9
		defer c.Close()
		if err := c.BFReserve(ctx, "seen", 0.001, 1_000_000).Err(); err != nil {
			return err
		}
		isNew, err := c.BFAdd(ctx, "seen", "https://example.org/").Result()
		fmt.Println(isNew)
		return err
	}()
	fmt.Println(err)

	fmt.Println(s.Shutdown(ctx))
	fmt.Println(<-ended)
	fmt.Println(db.Close())
	// Output:
	// true
	// <nil>
	// <nil>
	// server: closed
	// <nil>
}

// A transaction that is undone as a whole when one of its commands fails, here for lack of room.
func ExampleServer_rollback() {
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Modules: module.New(server.Module())})
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.New(db.Store(), nil)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free; kvshell serve has 6380
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Serve(l) }()
	ctx, addr := context.Background(), l.Addr().String()

	err = func() error {
		c := redis.NewClient(&redis.Options{Addr: addr}) // github.com/redis/go-redis/v9
		defer c.Close()
		full := &redis.BFReserveOptions{Capacity: 1, Error: 0.01, NonScaling: true}
		if err := c.BFReserveWithArgs(ctx, "seen", full).Err(); err != nil {
			return err
		}
		row := "a row"
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Do(ctx, "SIEVE.ONERROR", "ROLLBACK")
			p.Set(ctx, "order:17", row, 0)
			p.BFMAdd(ctx, "seen", "order:17", "order:18")
			return nil
		})
		fmt.Println(c.Exists(ctx, "order:17").Val())
		return err
	}()
	fmt.Println(err)

	fmt.Println(s.Shutdown(ctx))
	fmt.Println(<-ended)
	fmt.Println(db.Close())
	// Output:
	// 0
	// EXECABORT Transaction discarded because of: ERR non scaling filter is full
	// <nil>
	// server: closed
	// <nil>
}
