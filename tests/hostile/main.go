// Hostile attacks a server with many connections at once, each of a client that means no good, and prints
// the most resident memory that the server had, beside what it is to have at most: the size of its cache
// and 256 MiB. Beside it are the times that a good client's commands take, alone and meanwhile, and those that
// new clients need to connect and to log in, one after the other, from an address that no attacker has (Linux has
// all of 127.0.0.0/8).
//
//	go run ./tests/hostile --connections 1000 --duration 1m
//	go run ./tests/hostile --connections 2200 --only "half words of strangers"
//	go run ./tests/hostile --only guesses,"wrong passwords"
//	go run ./tests/hostile --tls
//	go run ./tests/hostile --malformed 10000000
//
// The server is kvshell serve, in a process of its own, with a password that most kinds of
// attackers know. The attackers are in a process of their own, too, so that the good client does not wait for
// its turn among them. With --malformed, so many malformed commands are given to a server within this process: it
// must not panic, and nothing of them may stay, neither memory nor goroutines. The exit code is 1 if the
// server has taken more than it is to, or has not answered the good client. It needs Linux.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sievekv/sievekv/tests/process"
)

func main() {
	var s scene
	flag.IntVar(&s.connections, "connections", 1000, "how many hostile connections there are at a time")
	flag.DurationVar(&s.duration, "duration", time.Minute, "how long the attack lasts")
	flag.StringVar(&s.only, "only", "", "kinds of attacks, separated by commas; all if none is given")
	flag.StringVar(&s.settings, "set", "", "settings of the server, NAME=VALUE separated by commas")
	flag.BoolVar(&s.tls, "tls", false, "the server and the good client speak TLS; of the attackers handshakes does, and is the only kind unless others are given")
	flag.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "seed of what is random")
	malformed := flag.Int("malformed", 0, "give a server so many malformed commands in place of the attack")
	at := flag.String("at", "", "attack the server at this address, until standard input ends, and print how many connections there were; used for a process of its own")
	flag.Parse()
	if s.tls && s.only == "" {
		s.only = "handshakes,TLS,silent"
	}
	var err error
	switch {
	case *at != "":
		err = attackAt(*at, s)
	case *malformed > 0:
		fmt.Println("seed", s.seed)
		err = runMalformed(*malformed, s.seed, os.Stdout)
	default:
		fmt.Println("seed", s.seed)
		err = attackAll(s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

func attackAll(s scene) (err error) {
	if _, err := choose(s.only); err != nil {
		return err
	}
	program, err := process.Build()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, program.Remove()) }()
	dir, err := os.MkdirTemp("", "hostile")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r, err := attackServer(program, dir, s)
	if err != nil {
		return err
	}
	r.print()
	return r.verdict()
}

// choose returns the attacks of the names, all if there is none.
func choose(names string) ([]attack, error) {
	if names == "" {
		return attacks, nil
	}
	var chosen []attack
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(attacks, func(a attack) bool { return a.name == name })
		if i < 0 {
			var all []string
			for _, a := range attacks {
				all = append(all, a.name)
			}
			return nil, fmt.Errorf("--only %s: there is no such kind; there are %s", name, strings.Join(all, ", "))
		}
		chosen = append(chosen, attacks[i])
	}
	return chosen, nil
}

// scene is what is done to a server.
type scene struct {
	only        string // kinds, as --only has them
	connections int
	duration    time.Duration
	settings    string // of the server, as --set has them
	seed        uint64
	tls         bool
}

// report is what came of it.
type report struct {
	highWater, limit int64
	alone, during    []time.Duration // of the good client's commands
	logins           []time.Duration // of new clients during the attack
	failedLogins     int             // of theirs
	connects         map[string]int64
	info             map[string]string
}

const (
	mib       = 1 << 20
	cacheSize = 32 * mib
	password  = "correct horse battery staple"
)

// attackServer starts a server with a store in dir, and has it attacked.
func attackServer(program *process.Program, dir string, s scene) (r *report, err error) {
	file := filepath.Join(dir, "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		return nil, err
	}
	flags := []string{"--cache", fmt.Sprint(cacheSize), "--requirepass-file", file}
	if s.tls {
		cert, key, err := writeCertificate(dir)
		if err != nil {
			return nil, err
		}
		flags = append(flags, "--tls-cert", cert, "--tls-key", key)
	}
	for pair := range strings.SplitSeq(s.settings, ",") {
		if pair != "" {
			flags = append(flags, "--set", pair)
		}
	}
	server, err := program.Start(filepath.Join(dir, "store"), flags...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	good, err := newGoodClient(server.Addr, s.tls)
	if err != nil {
		return nil, err
	}
	defer func() { _ = good.Close() }() // its replies are there
	if err := good.prepare(); err != nil {
		return nil, err
	}
	r = &report{limit: cacheSize + 256*mib}
	if r.alone, err = good.work(s.duration / 4); err != nil {
		return nil, fmt.Errorf("the good client, before the attack: %w", err)
	}
	before, err := server.HighWater()
	if err != nil {
		return nil, err
	}
	fmt.Printf("resident before the attack: %d MiB\n", before/mib)
	crowd, err := startCrowd(server.Addr, s)
	if err != nil {
		return nil, err
	}
	newcomers := startNewcomers(server.Addr, s.tls)
	r.during, err = good.work(s.duration)
	r.logins, r.failedLogins = newcomers.end()
	if err != nil {
		err = fmt.Errorf("the good client, during the attack: %w\n%s", err, server.Output())
	}
	var ended error
	r.connects, ended = crowd.end()
	if err := errors.Join(err, ended); err != nil {
		return nil, err
	}
	if r.info, err = good.info(); err != nil {
		return nil, err
	}
	r.highWater, err = server.HighWater()
	return r, err
}

func (r *report) print() {
	for _, a := range attacks {
		if n, ok := r.connects[a.name]; ok {
			fmt.Printf("%-20s %8d connections\n", a.name, n)
		}
	}
	for _, name := range []string{"total_connections_received", "rejected_connections", "limited_connections", "closed_strangers", "failed_handshakes", "protocol_errors",
		"acl_access_denied_auth", "mem_clients_strangers"} {
		fmt.Printf("%-30s %s\n", name, r.info[name])
	}
	fmt.Printf("good client alone:  p50 %v, p99 %v of %d commands\n", percentile(r.alone, 50), percentile(r.alone, 99), len(r.alone))
	fmt.Printf("good client during: p50 %v, p99 %v of %d commands\n", percentile(r.during, 50), percentile(r.during, 99), len(r.during))
	fmt.Printf("logins during:      p50 %v, p99 %v of %d, and %d that failed\n", percentile(r.logins, 50), percentile(r.logins, 99), len(r.logins), r.failedLogins)
	fmt.Printf("resident memory: %d MiB, at most %d MiB (a cache of %d MiB and 256 MiB)\n", r.highWater/mib, r.limit/mib, cacheSize/mib)
}

func (r *report) verdict() error {
	if len(r.logins) == 0 {
		return fmt.Errorf("nobody could log in during the attack, in %d attempts", r.failedLogins)
	}
	if r.highWater > r.limit {
		return fmt.Errorf("the server had %d bytes of resident memory, more than %d", r.highWater, r.limit)
	}
	return nil
}

// percentile returns that of some times, which it sorts.
func percentile(times []time.Duration, p int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(len(times)*p/100, len(times)-1)]
}
