// Hostile attacks a server with many connections at once, each of a client that means no good, and prints the most
// resident memory that the server had, beside what it is to have at most: the size of its cache and 256 MiB. Beside
// it are the times that a good client's commands take, alone and meanwhile, and those that new clients need to
// connect and to log in, one after the other, from an address that no attacker has (Linux has all of 127.0.0.0/8).
//
//	go run ./tests/hostile --connections 1000 --duration 1m
//	go run ./tests/hostile --connections 2200 --only "half words of strangers"
//	go run ./tests/hostile --only guesses,"wrong passwords"
//	go run ./tests/hostile --tls
//	go run ./tests/hostile --scene all --duration 30s
//	go run ./tests/hostile --malformed 10000000
//
// Besides the mix of all kinds there are scenes, --scene NAME,NAME or all, each with a few kinds, a server of its own,
// and figures of its own: descriptors (the server may have 128), memory (of strangers), handshakes (of TLS), hellos (of
// TLS, a thousand a second, from one address), metrics handshakes (likewise), guessing (of passwords), patterns (of
// users, also in transactions), transactions (that wait, or read for long), combinations (of bitmaps, by clients that
// go away, beside transactions), counts (of large bitmaps), replies (dumps of filters and descriptions of commands;
// nobody reads some of them) and metrics (the port for these). In some another good client gives larger commands, and
// none of them may be refused.
//
// When an attack has ended the store has to take writes and reads. Then the server is attacked again, and ended by SIGTERM
// meanwhile: it has to end within its 10 seconds for clients and 5 more, and all that was acknowledged has to be there.
//
// The server is kvshell serve, in a process of its own, with a password that most kinds of attackers know. The
// attackers are in a process of their own, too, so that the good client does not wait for its turn among them. With
// --malformed N, a server within this process gets N malformed commands: it must not panic, and nothing of them may
// stay, neither memory nor goroutines. The exit code is 1 if the server has taken more than it is to, or has not
// answered the good client. It needs Linux.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	names := flag.String("scene", "", "scenes in place of the mix, separated by commas; all for each of them")
	flag.StringVar(&s.metricsAt, "metrics-at", "", "attack the metrics at this address; used with --at")
	at := flag.String("at", "", "attack the server at this address, until standard input ends, and print how many connections there were; used for a process of its own")
	flag.Parse()
	if s.tls && s.only == "" {
		s.only = "handshakes,TLS,silent"
	}
	var err error
	switch {
	case *at != "":
		err = attackAt(*at, s.metricsAt, s)
	case *malformed > 0:
		fmt.Println("seed", s.seed)
		err = runMalformed(*malformed, s.seed, os.Stdout)
	default:
		fmt.Println("seed", s.seed)
		err = attackAll(*names, s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

// attackAll attacks a server as s says, or servers as the scenes of the names do.
func attackAll(names string, s scene) (err error) {
	list := []scene{s}
	if names != "" {
		if s.only != "" {
			return errors.New("--scene and --only: a scene has kinds of its own, give only one")
		}
		if list, err = chooseScenes(names); err != nil {
			return err
		}
	}
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
	var errs []error
	for _, one := range list {
		one.connections, one.duration, one.settings, one.seed = s.connections, s.duration, s.settings, s.seed
		if one.name != "" {
			fmt.Printf("\n=== %s\n", one.name)
		}
		errs = append(errs, attackAndPrint(program, filepath.Join(dir, one.name), one))
	}
	return errors.Join(errs...)
}

func attackAndPrint(program *process.Program, dir string, s scene) error {
	err := os.MkdirAll(dir, 0o700)
	if err != nil {
		return err
	}
	r, err := attackServer(program, dir, s)
	if err == nil {
		r.print()
		if err = r.verdict(); err == nil && r.ended > mostToEnd {
			err = fmt.Errorf("the server took %v to end, more than %v", r.ended, mostToEnd)
		}
	}
	if err != nil && s.name != "" {
		err = fmt.Errorf("scene %s: %w", s.name, err)
	}
	return err
}

// mostToEnd is what a server may take to end after SIGTERM: its time for clients, and 5 seconds.
const mostToEnd = 15 * time.Second

// choose returns the attacks of the names, all if there is none.
func choose(names string) ([]attack, error) {
	if names == "" {
		return attacks, nil
	}
	var chosen []attack
	kinds := slices.Concat(attacks, special)
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(kinds, func(a attack) bool { return a.name == name })
		if i < 0 {
			var all []string
			for _, a := range kinds {
				all = append(all, a.name)
			}
			return nil, fmt.Errorf("--only %s: there is no such kind; there are %s", name, strings.Join(all, ", "))
		}
		chosen = append(chosen, kinds[i])
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

	name        string // "" for none of scenes
	eager       bool   // the attackers have the priority of others
	descriptors int    // that the server may have, 0 for all there are
	bulk        int    // bytes of values that another good client writes, 0 for no such client
	patterns    bool   // there are keys for which patterns take long
	bits        bool   // there is a bitmap that takes long to read
	filters     bool   // there are filters with large dumps
	metrics     bool   // the server answers for metrics, and a good client asks for them
	metricsAt   string // where
	metricsTLS  bool   // they have TLS
}

// report is what came of it.
type report struct {
	highWater, limit int64
	alone, during    []time.Duration // of the good client's commands
	logins           []time.Duration // of new clients during the attack
	failedLogins     int             // of theirs
	connects         map[string]int64
	info             map[string]string // during the attack
	descriptors      int               // that the server had open
	beside           *beside
	took             time.Duration // by the attack
	ended            time.Duration // what the server took to end
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
	cert, key, err := writeCertificate(dir)
	if err != nil {
		return nil, err
	}
	if s.tls {
		flags = append(flags, "--tls-cert", cert, "--tls-key", key)
	}
	if s.metricsTLS {
		flags = append(flags, "--metrics-tls-cert", cert, "--metrics-tls-key", key)
	}
	for pair := range strings.SplitSeq(s.settings, ",") {
		if pair != "" {
			flags = append(flags, "--set", pair)
		}
	}
	if s.metrics {
		flags = append(flags, "--metrics-addr", "127.0.0.1:0", "--metrics-password-file", file)
	}
	store := filepath.Join(dir, "store")
	server, err := s.start(program, store, flags)
	if err != nil {
		return nil, err
	}
	defer func() {
		if server != nil {
			err = errors.Join(err, server.Stop())
		}
	}()
	good, err := newGoodClient(server.Addr, s.tls)
	if err != nil {
		return nil, err
	}
	defer func() { _ = good.Close() }() // its replies are there
	if err := good.prepare(); err != nil {
		return nil, err
	}
	if s.patterns {
		if err := good.preparePatterns(); err != nil {
			return nil, err
		}
	}
	if s.bits {
		if err := good.prepareBits(); err != nil {
			return nil, err
		}
	}
	if s.filters {
		if err := good.prepareFilters(); err != nil {
			return nil, err
		}
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
	if r.beside, err = s.startBeside(server); err != nil {
		return nil, err
	}
	began := time.Now()
	crowd, err := startCrowd(server, s)
	if err != nil {
		return nil, errors.Join(err, r.beside.end())
	}
	newcomers := startNewcomers(server.Addr, s.tls)
	r.during, err = good.work(s.duration)
	r.logins, r.failedLogins = newcomers.end()
	if err == nil {
		r.info, err = good.info()
	}
	r.took = time.Since(began)
	if err = errors.Join(err, r.beside.end()); err != nil {
		err = fmt.Errorf("the good client, during the attack: %w\n%s", err, server.Output())
	}
	var counted, ended error
	r.descriptors, counted = server.Descriptors()
	r.connects, ended = crowd.end()
	if err := errors.Join(err, counted, ended, good.isWell()); err != nil {
		return nil, err
	}
	if r.highWater, err = server.HighWater(); err != nil {
		return nil, err
	}
	first := server
	server = nil
	if r.ended, err = s.endAmidst(first, good); err != nil {
		return nil, err
	}
	if server, err = s.start(program, store, flags); err != nil {
		return nil, err
	}
	after, err := newGoodClient(server.Addr, s.tls)
	if err != nil {
		return nil, err
	}
	defer func() { _ = after.Close() }() // its replies are there
	return r, after.remembers(good)
}

func (r *report) print() {
	for _, a := range slices.Concat(attacks, special) {
		if n, ok := r.connects[a.name]; ok {
			fmt.Printf("%-36s %8d connections\n", a.name, n)
		}
	}
	for _, name := range []string{"total_connections_received", "rejected_connections", "limited_connections", "closed_strangers", "failed_handshakes", "protocol_errors",
		"acl_access_denied_auth", "mem_clients_strangers"} {
		fmt.Printf("%-30s %s\n", name, r.info[name])
	}
	for _, name := range []string{"cmdstat_scan", "cmdstat_keys", "cmdstat_exec"} {
		if r.info[name] != "" {
			fmt.Printf("%-30s %s\n", name, r.info[name])
		}
	}
	if wrong, err := strconv.Atoi(r.info["acl_access_denied_auth"]); err == nil {
		fmt.Printf("wrong passwords a second:      %.0f\n", float64(wrong)/r.took.Seconds())
	}
	fmt.Printf("descriptors open:              %d\n", r.descriptors)
	if r.beside.bulk != nil {
		fmt.Printf("larger commands:    %v\n", r.beside.bulk)
	}
	if r.beside.scrapes != nil {
		fmt.Printf("metrics during:     %v\n", r.beside.scrapes)
	}
	fmt.Printf("ended by SIGTERM under attack in %v\n", r.ended.Round(time.Millisecond))
	fmt.Printf("good client alone:  p50 %v, p99 %v, longest %v of %d commands\n", percentile(r.alone, 50), percentile(r.alone, 99), percentile(r.alone, 100), len(r.alone))
	fmt.Printf("good client during: p50 %v, p99 %v, longest %v of %d commands\n", percentile(r.during, 50), percentile(r.during, 99), percentile(r.during, 100), len(r.during))
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

// percentile returns a percentile of times, which it sorts.
func percentile(times []time.Duration, p int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(len(times)*p/100, len(times)-1)]
}
