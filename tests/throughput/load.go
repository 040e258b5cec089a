package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/internal/resp"
)

// load is a command with arguments that differ from one to the next.
type load struct {
	name   string
	module bool // Redis has no such command by itself
	items  int  // each command counts as this number
	words  func(n uint64) [][]byte
}

// madd is how many items a BF.MADD has.
const madd = 100

// distinct is how many different keys and items there are.
const distinct = 1_000_000

func word(prefix string, n uint64) []byte {
	return strconv.AppendUint([]byte(prefix), n*0x9E3779B97F4A7C15%distinct, 10)
}

// loads are in this order, so that what is asked for is there.
var loads = []load{
	{"BF.ADD", true, 1, func(n uint64) [][]byte { return [][]byte{[]byte("BF.ADD"), []byte("bf"), word("item:", n)} }},
	{"BF.EXISTS", true, 1, func(n uint64) [][]byte { return [][]byte{[]byte("BF.EXISTS"), []byte("bf"), word("item:", n)} }},
	{"BF.MADD 100", true, madd, func(n uint64) [][]byte {
		words := [][]byte{[]byte("BF.MADD"), []byte("bm")}
		for i := range uint64(madd) {
			words = append(words, word("item:", n*madd+i))
		}
		return words
	}},
	{"CF.ADD", true, 1, func(n uint64) [][]byte { return [][]byte{[]byte("CF.ADD"), []byte("cf"), word("item:", n)} }},
	{"SET", false, 1, func(n uint64) [][]byte { return [][]byte{[]byte("SET"), word("key:", n), []byte("value")} }},
	{"GET", false, 1, func(n uint64) [][]byte { return [][]byte{[]byte("GET"), word("key:", n)} }},
}

// measure has connections send pipelines of a load, and returns how many commands, or items, were answered a second.
func measure(addr string, l load, connections, pipeline int, duration time.Duration) (float64, error) {
	var counting, stop atomic.Bool
	var counted, next atomic.Uint64
	errs := make(chan error, connections)
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			errs <- client(addr, l, pipeline, &next, &stop, func() {
				if counting.Load() {
					counted.Add(uint64(l.items))
				}
			})
		})
	}
	time.Sleep(duration / 10)
	counting.Store(true)
	begin := time.Now()
	time.Sleep(duration)
	n, took := counted.Load(), time.Since(begin)
	stop.Store(true)
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return float64(n) / took.Seconds(), nil
}

// client sends pipelines on a connection of its own until stop.
func client(addr string, l load, pipeline int, next *atomic.Uint64, stop *atomic.Bool, answered func()) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // nothing is lost
	in := resp.NewReader(c)
	var out []byte
	for !stop.Load() {
		out = out[:0]
		first := next.Add(uint64(pipeline)) - uint64(pipeline)
		for i := range uint64(pipeline) {
			out = resp.AppendCommand(out, l.words(first+i))
		}
		if _, err := c.Write(out); err != nil {
			return err
		}
		for range pipeline {
			r, err := in.Read()
			if err != nil {
				return fmt.Errorf("reply of %s: %w", l.name, err)
			}
			if r.IsError() {
				return errors.New(string(r.Bytes()))
			}
			answered()
		}
	}
	return nil
}
