package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv"
)

const bitmapsAbout = `Bitmaps of ten million users, in which half of the bits are set, or one in a thousand. BITOP
combines seven of them and stores the result, for one client, over the loopback interface; the servers run as in "server".
Each has stored 200 MB of results before, so that it works in memory that it has used before, as a server does that runs for long.
"bytes" is what MEMORY USAGE answers for one bitmap: bytes on disk from sievekv, of memory from redis-server. SETBIT and GETBIT are
one call each in Go, of a random bit of the first bitmap, by one goroutine, not synced.`

const bitmapUsers = 10 * million

// bitmaps compares bitmaps with redis-server's, and single bits with Pebble.
func bitmaps(b *bench) error {
	if err := b.bitOps(); err != nil {
		return err
	}
	return b.singleBits()
}

// bitOps compares BITOP on both servers.
func (b *bench) bitOps() error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		b.note("redis-server is not installed: it is left out.")
		return nil
	}
	kvshell, err := b.kvshell()
	if err != nil {
		return err
	}
	ours, err := b.startOurs(kvshell, "everysec")
	if err != nil {
		return err
	}
	defer ours.stop()
	redis, err := b.startRedis(path)
	if err != nil {
		return err
	}
	defer redis.stop()
	clients := make([]*caller, 2)
	for i, p := range []*process{ours, redis} {
		conn, err := net.Dial("tcp", p.addr)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }() // nothing is lost
		clients[i] = &caller{conn: conn, in: bufio.NewReader(conn)}
	}
	for _, kind := range []struct {
		name  string
		one   int // one bit of this number is set
		ratio float64
	}{{"half of the bits set", 2, 1}, {"one bit in 1,000 set", 1000, 0.2}} {
		b.progress("filling bitmaps, %s", kind.name)
		names := []string{"seven", "bitmaps", "of", "so", "many", "active", "users"}
		for i, name := range names {
			bits := randomBits(uint64(i), kind.one)
			for _, c := range clients {
				// BITOP makes of the string what it makes of bits that are set one by one.
				if err := errors.Join(c.do("SET", "whole", bits), c.do("BITOP", "OR", name, "whole")); err != nil {
					return err
				}
			}
		}
		for range 160 {
			for _, c := range clients {
				if err := c.do(append([]string{"BITOP", "OR", "result"}, names...)...); err != nil {
					return err
				}
			}
		}
		for _, op := range []string{"AND", "OR"} {
			run := func(c *caller) func() (float64, error) {
				return func() (float64, error) {
					begin := time.Now()
					err := c.do(append([]string{"BITOP", op, "result"}, names...)...)
					return float64(time.Since(begin).Microseconds()) / 1000, err
				}
			}
			figures, err := b.interleave(pick(b, 7, 41, 81), side{"sievekv", run(clients[0])}, side{"redis-server", run(clients[1])})
			if err != nil {
				return err
			}
			b.row(row{
				what: "BITOP " + op + " of seven, " + kind.name, unit: "ms", ours: figures[0], peer: "redis-server", theirs: figures[1], must: ratioAtMost(kind.ratio),
			})
		}
		var bytes [2]series
		for i, c := range clients {
			if err := c.do("MEMORY", "USAGE", names[0]); err != nil {
				return err
			}
			bytes[i] = series{float64(c.number)}
		}
		r := row{what: "bytes of one, " + kind.name, unit: "bytes", ours: bytes[0], peer: "redis-server", theirs: bytes[1]}
		if kind.one > 2 {
			r.must = ratioAtMost(0.1)
		}
		b.row(r)
	}
	return nil
}

// singleBits measures Set and Test of single bits.
func (b *bench) singleBits() error {
	s, err := b.openStore(nil)
	if err != nil {
		return err
	}
	defer s.end()
	raw, err := b.openPebble(pebbleOptions())
	if err != nil {
		return err
	}
	defer raw.end()
	if err := s.Set("dense", []byte(randomBits(0, 2))); err != nil {
		return err
	}
	bitmap, dense := s.Bitmap("bits"), s.Bitmap("dense")
	if _, err := bitmap.Set(bitmapUsers - 1); err != nil {
		return err
	}
	if err := dense.Store(b.ctx, sievekv.BitOr, dense); err != nil { // as bits that are set one by one are stored
		return err
	}
	x := uint64(1)
	var buf [16]byte
	figures, err := b.interleave(pick(b, 5, 21, 41),
		side{"SETBIT", nsEach(50_000, func(uint64) error { _, err := bitmap.Set(uint32(next(&x, bitmapUsers))); return err })},
		side{"Pebble", nsEach(50_000, func(i uint64) error { return raw.Set(key16(&buf, i), buf[:8], pebble.NoSync) })},
		side{"GETBIT", nsEach(500_000, func(uint64) error { _, err := dense.Test(uint32(next(&x, bitmapUsers))); return err })})
	if err != nil {
		return err
	}
	b.row(row{what: "SETBIT", unit: "ns", ours: figures[0], peer: "Pebble Set of 24 bytes", theirs: figures[1], must: ratioAtMost(1.3)})
	b.row(row{what: "GETBIT", unit: "ns", ours: figures[2], must: figureAtMost(30)})
	return nil
}

// randomBits returns a bitmap in which one bit of the given number is set.
func randomBits(seed uint64, one int) string {
	random := rand.New(rand.NewPCG(seed, 0))
	bits := make([]byte, bitmapUsers/8)
	if one == 2 {
		for i := 0; i < len(bits); i += 8 {
			binary.LittleEndian.PutUint64(bits[i:], random.Uint64())
		}
		return string(bits)
	}
	for range bitmapUsers / one {
		n := random.IntN(bitmapUsers)
		bits[n/8] |= 1 << (n % 8)
	}
	return string(bits)
}

// caller sends one command at a time.
type caller struct {
	conn   net.Conn
	in     *bufio.Reader
	number int64 // the last reply, if it was one
}

func (c *caller) do(words ...string) error {
	if _, err := c.conn.Write(appendWords(nil, len(words), words...)); err != nil {
		return err
	}
	line, err := c.in.ReadString('\n')
	if err != nil {
		return err
	}
	if line[0] == '-' {
		return fmt.Errorf("%s: %s", words[0], line)
	}
	c.number, _ = strconv.ParseInt(line[1:len(line)-2], 10, 64) // 0 for OK
	return nil
}
