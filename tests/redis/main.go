// Redis compares the commands on strings and keys, and transactions, with a real Redis: it runs random sequences of
// commands on both and prints every sequence whose replies differ, shortened to what it takes.
//
//	go run ./tests/redis --sequences 100000
//	go run ./tests/redis --wire --sequences 100000
//	go run ./tests/redis --users 100000
//
// It starts redis-server, which has to be installed, with a store of its own. Replies are compared as redis-cli shows
// them, with --wire over sockets, byte for byte, in both protocols; times to live to within two seconds. With --users
// N, it gives random users to both, and compares which of N random commands they may run. The exit code is 1 if there
// are differences.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

func main() {
	sequences := flag.Int("sequences", 10_000, "how many sequences of commands to run")
	length := flag.Int("length", 20, "how many commands a sequence has")
	seed := flag.Uint64("seed", 1, "seed of the random sequences")
	show := flag.Int("show", 20, "how many differing sequences to print")
	overWire := flag.Bool("wire", false, "compare the bytes that servers send, in RESP2 and RESP3")
	users := flag.Int("users", 0, "compare which of so many random commands random users may run")
	recording := flag.Bool("record", false, "record the replies to the commands in tests/redis/testdata in place of comparing")
	flag.Parse()
	if *recording {
		const dir = "tests/redis/testdata/"
		err := errors.Join(record(dir+"commands.txt", dir+"replies.txt"), recordWire(dir+"wire.txt", dir+"wire-replies.txt"))
		if err != nil {
			fmt.Fprintln(os.Stderr, "redis:", err)
			os.Exit(2)
		}
		return
	}
	var differing int
	var err error
	if *users > 0 {
		if differing, err = compareUsers(*users, *seed, *show); err != nil {
			fmt.Fprintln(os.Stderr, "redis:", err)
			os.Exit(2)
		}
		fmt.Printf("commands %d\ndiffering %d\n", *users, differing)
		if differing > 0 {
			os.Exit(1)
		}
		return
	}
	if *overWire {
		differing, err = compareWire(*sequences, *length, *seed, *show)
	} else {
		differing, err = compare(context.Background(), *sequences, *length, *seed, *show)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "redis:", err)
		os.Exit(2)
	}
	fmt.Printf("sequences %d\ncommands %d\ndiffering sequences %d\n", *sequences, *sequences**length, differing)
	if differing > 0 {
		os.Exit(1)
	}
}

// fresh is after how many sequences both sides start with an empty store.
const fresh = 2000

func compare(ctx context.Context, sequences, length int, seed uint64, show int) (differing int, err error) {
	real, err := startRedis()
	if err != nil {
		return 0, err
	}
	defer real.stop()
	random := rand.New(rand.NewPCG(seed, 0))
	var ours *store
	for n := range sequences {
		if n%fresh == 0 {
			if ours, err = reopen(ours); err != nil {
				return differing, err
			}
			if _, err := real.do([]string{"FLUSHALL"}); err != nil {
				return differing, err
			}
		}
		g := generator{random: random, prefix: "s" + strconv.Itoa(n) + ":"}
		sequence := make([][]string, length)
		for i := range sequence {
			sequence[i] = g.command()
		}
		at, err := differsAgain(ctx, real, ours, &g, sequence)
		if err != nil {
			return differing, err
		}
		if at < 0 {
			continue
		}
		differing++
		if differing <= show {
			if err := explain(ctx, real, ours, &g, sequence[:at+1]); err != nil {
				return differing, err
			}
		}
	}
	return differing, ours.db.Close()
}

// difference runs a sequence on both sides and returns the place of the first
// command whose replies differ, -1 for none.
func difference(ctx context.Context, real *realRedis, ours *store, sequence [][]string) (int, error) {
	// What a sequence before has left open is ended first.
	want, err := real.do(append([][]string{{"DISCARD"}, {"UNWATCH"}}, sequence...)...)
	if err != nil {
		return 0, err
	}
	ours.do(ctx, []string{"DISCARD"})
	ours.do(ctx, []string{"UNWATCH"})
	var queued [][]string
	for i, words := range sequence {
		got, want := ours.do(ctx, words), want[i+2]
		switch {
		case !same(words, queued, got, want):
			return i, nil
		case strings.EqualFold(words[0], "MULTI"):
			if !want.IsError() {
				queued = nil
			}
		case want.String() == "QUEUED":
			queued = append(queued, words)
		}
	}
	return -1, nil
}

// differsAgain is difference, which has to come up in three runs: two times to live
// are compared by the milliseconds they were set at, and a difference of these is none.
func differsAgain(ctx context.Context, real *realRedis, ours *store, g *generator, sequence [][]string) (at int, err error) {
	for range 3 {
		if at, err = difference(ctx, real, ours, g.renamed(sequence)); at < 0 || err != nil {
			break
		}
	}
	return at, err
}

// explain takes out of a sequence what the difference at its end does not need, and prints the rest with the replies.
func explain(ctx context.Context, real *realRedis, ours *store, g *generator, sequence [][]string) error {
	for i := len(sequence) - 2; i >= 0; i-- {
		shorter := slices.Delete(slices.Clone(sequence), i, i+1)
		at, err := differsAgain(ctx, real, ours, g, shorter)
		if err != nil {
			return err
		}
		if at == len(shorter)-1 {
			sequence = shorter
		}
	}
	sequence = append([][]string{{"DISCARD"}, {"UNWATCH"}}, g.renamed(sequence)...)
	want, err := real.do(sequence...)
	if err != nil {
		return err
	}
	for i, words := range sequence {
		got := ours.do(ctx, words)
		fmt.Printf("%q\n  here:  %s\n  Redis: %s\n", words, got, want[i])
	}
	fmt.Println()
	return nil
}

// tolerances are by how much the replies of commands may differ, in their unit.
var tolerances = map[string]int64{"TTL": 2, "EXPIRETIME": 2, "PTTL": 2000, "PEXPIRETIME": 2000}

// comparesTimes reports whether a command compares a time to live with one of before. The times are close by if both
// were given as the same number; which of them is later then depends on how long the commands between them took.
func comparesTimes(words []string) bool {
	if name := strings.ToUpper(words[0]); name != "EXPIRE" && name != "PEXPIRE" {
		return false
	}
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, "GT") || strings.EqualFold(w, "LT") })
}

// same compares replies as text; times with some tolerance, and keys in any order.
// Queued are the commands whose replies EXEC has.
func same(words []string, queued [][]string, got, want reply.Reply) bool {
	got = got.RESP2()
	if comparesTimes(words) && got.Kind() == want.Kind() && !want.IsError() {
		return true
	}
	if strings.EqualFold(words[0], "EXEC") && len(want.Elems()) == len(queued) && len(got.Elems()) == len(queued) {
		for i, words := range queued {
			if !same(words, nil, got.Elems()[i], want.Elems()[i]) {
				return false
			}
		}
		return true
	}
	if got.Kind() == reply.KindInt && want.Kind() == reply.KindInt {
		tolerance := tolerances[strings.ToUpper(words[0])]
		d := got.Int() - want.Int()
		return -tolerance <= d && d <= tolerance && (got.Int() < 0) == (want.Int() < 0)
	}
	if strings.ToUpper(words[0]) == "KEYS" && !want.IsError() {
		return slices.Equal(sorted(got), sorted(want))
	}
	if strings.ToUpper(words[0]) == "COPY" && string(got.Bytes()) == "ERR DB index is out of range" {
		return true // Redis has 16 databases
	}
	a, b := string(reply.AppendText(nil, got)), string(reply.AppendText(nil, want))
	return a == strings.ReplaceAll(b, `"set"`, `"MBbloom--"`) || a == strings.TrimSuffix(b, "set\n")+"MBbloom--\n" && b == "set\n"
}

func sorted(r reply.Reply) []string {
	var list []string
	for _, e := range r.Elems() {
		list = append(list, string(e.Bytes()))
	}
	slices.Sort(list)
	return list
}

// store is this side.
type store struct {
	db      *sievekv.DB
	session *module.Session
}

func reopen(old *store) (*store, error) {
	if old != nil {
		if err := old.db.Close(); err != nil {
			return nil, err
		}
	}
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Durability: kv.NoSync, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	return &store{db, module.NewSession(db.Store())}, nil
}

func (s *store) do(ctx context.Context, words []string) reply.Reply {
	if words[0] == "SADD" {
		words = append([]string{"BF.ADD"}, words[1:]...) // the one type that is no string
	}
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	return s.session.Do(ctx, args)
}
