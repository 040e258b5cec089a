package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/tests/process"
)

// goodAddress is where good clients come from, which no attacker does.
var goodAddress = net.IPv4(127, 0, 0, 2)

// scenes are what a server has to stand beside the mix of all kinds.
var scenes = []scene{
	// Strangers want more descriptors than there are, while the store needs some for logs and tables.
	{name: "descriptors", only: "silent,comes and goes,metrics silent", descriptors: 128, metrics: true, bulk: mib},
	{name: "memory", only: "half words of strangers,announced by strangers,half byte by byte", bulk: 40 << 10},
	{name: "handshakes", only: "handshakes,TLS,silent", tls: true, bulk: 40 << 10},
	{name: "hellos", only: "hellos", tls: true, eager: true},
	{name: "guessing", only: "guesses,wrong passwords", bulk: 40 << 10},
	{name: "patterns", only: "patterns,patterns too long,patterns in a transaction,patterns and writes in a transaction,patterns and gone", patterns: true},
	{name: "transactions", only: "logins in a transaction,long reads in a transaction", bits: true},
	{name: "combinations", only: "one bitmap many times,many bitmaps and gone,small transactions", bits: true},
	{name: "counts", only: "counts,one count and gone", bits: true},
	{name: "replies", only: "dumps,dumps not read,one command described many times,statistics many times", filters: true},
	{name: "metrics handshakes", only: "metrics hellos", metrics: true, metricsTLS: true, eager: true},
	{name: "metrics", only: "metrics silent,metrics half a request,metrics wrong passwords,metrics requests,metrics long headers", metrics: true, bulk: 40 << 10},
}

// chooseScenes returns the scenes of the names, all for "all".
func chooseScenes(names string) ([]scene, error) {
	if names == "all" {
		return scenes, nil
	}
	var chosen []scene
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(scenes, func(s scene) bool { return s.name == name })
		if i < 0 {
			var all []string
			for _, s := range scenes {
				all = append(all, s.name)
			}
			return nil, fmt.Errorf("--scene %s: there is no such scene; there are %s, and all", name, strings.Join(all, ", "))
		}
		chosen = append(chosen, scenes[i])
	}
	return chosen, nil
}

// start starts the scene's server.
func (s *scene) start(program *process.Program, dir string, flags []string) (*process.Server, error) {
	if s.descriptors > 0 {
		return program.StartLimited(s.descriptors, dir, flags...)
	}
	return program.Start(dir, flags...)
}

// preparePatterns makes keys for which patterns take long.
func (g *goodClient) preparePatterns() error {
	for i := range 5 {
		if err := g.expect("+OK", "SET", fmt.Sprint(i)+strings.Repeat("a", kv.MaxKeyLen-1), "v"); err != nil {
			return err
		}
	}
	return nil
}

// prepareBits makes a bitmap of 4 MiB.
func (g *goodClient) prepareBits() error {
	part := strings.Repeat("U", mib)
	for i := range 4 {
		end := (i + 1) * mib
		if err := g.expect(fmt.Sprint(":", end), "SETRANGE", "bits", fmt.Sprint(end-mib), part); err != nil {
			return err
		}
	}
	return nil
}

// prepareFilters makes filters whose dumps are large, and are read without any memory of the filters.
func (g *goodClient) prepareFilters() error {
	for _, words := range [][]string{
		{"BF.RESERVE", "dumped", "0.01", "20000000"},
		{"CONFIG", "SET", "bf-layout", "compatible"},
		{"BF.RESERVE", "dumped:compatible", "0.01", "20000000", "NONSCALING"},
		{"CONFIG", "SET", "bf-layout", "native"},
	} {
		if err := g.expect("+OK", words...); err != nil {
			return err
		}
	}
	return nil
}

// background is a good client that does something again and again, beside the one whose times are taken.
type background struct {
	stop, ended chan struct{}
	times       []time.Duration // with what follows: to be read when ended is closed
	failed      int
	err         error // the last
}

func startBackground(pause time.Duration, do func() error) *background {
	b := &background{stop: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(b.ended)
		for {
			began := time.Now()
			switch err := do(); {
			case errors.Is(err, context.Canceled): // by end
			case err != nil:
				b.failed++
				b.err = err
			default:
				b.times = append(b.times, time.Since(began))
			}
			select {
			case <-b.stop:
				return
			case <-time.After(pause):
			}
		}
	}()
	return b
}

// end ends it. What abort ends meanwhile counts as nothing.
func (b *background) end(abort func()) {
	close(b.stop)
	abort()
	<-b.ended
}

func (b *background) String() string {
	return fmt.Sprintf("p50 %v, p99 %v of %d, and %d that failed", percentile(b.times, 50), percentile(b.times, 99), len(b.times), b.failed)
}

// bulk gives commands that take some memory: SET of a value, MGET of four, and BF.MADD of 3000 items.
type bulk struct {
	*goodClient
	size, n int
}

// round is one of each. It is an error if one is refused.
func (b *bulk) round() error {
	value := strings.Repeat(strconv.Itoa(b.n%10), b.size)
	if err := b.expect("+OK", "SET", fmt.Sprint("bulk:", b.n%8), value); err != nil {
		return err
	}
	small := strings.Repeat(strconv.Itoa(b.n%10), 10<<10)
	if err := b.expect("+OK", "MSET", "small:0", small, "small:1", small, "small:2", small, "small:3", small); err != nil {
		return err
	}
	if err := b.expect(fmt.Sprintf("[4*%q]", small), "MGET", "small:0", "small:1", "small:2", "small:3"); err != nil {
		return err
	}
	items := []string{"BF.MADD", "bulk:filter"}
	for i := range 3000 {
		items = append(items, fmt.Sprint("item:", (3000*b.n+i)%300_000))
	}
	got, err := b.Do(items...)
	if err == nil && !strings.HasPrefix(got, "[") {
		err = fmt.Errorf("BF.MADD of 3000 items: got %.200s", got)
	}
	b.n++
	return err
}

// scrape asks for the metrics, as Prometheus does.
func scrape(ctx context.Context, client *http.Client, scheme, addr string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+addr+"/metrics", nil)
	if err != nil {
		return err
	}
	request.SetBasicAuth("prometheus", password)
	r, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }() // read to its end
	text, err := io.ReadAll(r.Body)
	if err == nil && (r.StatusCode != http.StatusOK || !strings.Contains(string(text), "sievekv_up 1\n")) {
		err = fmt.Errorf("%s: %.200s", r.Status, text)
	}
	return err
}

// beside is what good clients do beside the one whose times are taken.
type beside struct {
	bulk, scrapes *background // nil for none
	cancel        context.CancelFunc
	client        *goodClient // of bulk
}

func (s *scene) startBeside(server *process.Server) (*beside, error) {
	b := &beside{}
	if s.bulk > 0 {
		var err error
		if b.client, err = newGoodClient(server.Addr, s.tls); err != nil {
			return nil, err
		}
		work := &bulk{goodClient: b.client, size: s.bulk}
		b.bulk = startBackground(50*time.Millisecond, work.round)
	}
	var ctx context.Context
	ctx, b.cancel = context.WithCancel(context.Background())
	if s.metrics {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: goodAddress}}
		client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		scheme := "http"
		if s.metricsTLS {
			scheme = "https"
		}
		b.scrapes = startBackground(200*time.Millisecond, func() error { return scrape(ctx, client, scheme, server.Metrics) })
	}
	return b, nil
}

// end ends them. It is an error if a command was refused; a scrape may fail, as strangers can take all places for metrics.
func (b *beside) end() error {
	var err error
	if b.bulk != nil {
		b.bulk.end(func() {})
		err = b.bulk.err
		_ = b.client.Close() // its replies are there
	}
	if b.scrapes != nil {
		b.scrapes.end(b.cancel)
	}
	b.cancel()
	if err != nil {
		return fmt.Errorf("a good client with larger commands: %w", err)
	}
	return nil
}

// isWell looks whether the store takes writes and reads.
func (g *goodClient) isWell() error {
	if _, err := g.work(0); err != nil {
		return fmt.Errorf("the good client, after the attack: %w", err)
	}
	return nil
}

// endAmidst ends a server by SIGTERM while it is attacked, and the good client works.
func (s *scene) endAmidst(server *process.Server, g *goodClient) (took time.Duration, err error) {
	crowd, err := startCrowd(server, *s)
	if err != nil {
		return 0, err
	}
	working := make(chan struct{})
	go func() {
		defer close(working)
		const untilItEnds = time.Hour
		_, _ = g.work(untilItEnds) // its connection ends
	}()
	time.Sleep(min(s.duration/4, time.Second))
	began := time.Now()
	err = server.Stop()
	took = time.Since(began)
	const gaveUp = 6 // it had no more time for commands, or the disk: nothing that was acknowledged is lost by that
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == gaveUp {
		fmt.Println("the server ended without waiting for all commands")
		err = nil
	}
	<-working
	_, ended := crowd.end()
	return took, errors.Join(err, ended)
}

// remembers looks whether all is there that another client was told of, one or no command after that.
func (g *goodClient) remembers(other *goodClient) error {
	count, err := g.Do("GET", "good:count")
	if err != nil {
		return err
	}
	if want := other.n; count != fmt.Sprintf("%q", strconv.Itoa(want)) && count != fmt.Sprintf("%q", strconv.Itoa(want-1)) {
		return fmt.Errorf("good:count is %s, want %d or %d", count, want-1, want)
	}
	for n := max(other.n-900, 1); n < other.n; n++ {
		item := fmt.Sprint("item:", n)
		got, err := g.Do("BF.EXISTS", "good:filter", item)
		if err != nil {
			return err
		}
		value, err := g.Do("GET", fmt.Sprint("good:", n%1000))
		if err != nil {
			return err
		}
		if got != ":1" || value != fmt.Sprintf("%q", item) {
			return fmt.Errorf("item %d of %d: BF.EXISTS answers %s, GET %s", n, other.n, got, value)
		}
	}
	return nil
}
