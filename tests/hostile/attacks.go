package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/internal/glob"
	"github.com/sievekv/sievekv/tests/process"
	"github.com/sievekv/sievekv/tests/wire"
)

// attack is a kind of hostile client. Run is called for a connection, one after the other, and returns when
// that has ended.
type attack struct {
	name  string
	knows bool // the password
	run   func(a *attacker)
}

// attacker is one hostile client.
type attacker struct {
	ctx    context.Context
	random *rand.Rand
	conn   net.Conn
}

// crowd is all hostile clients, in a process of their own.
type crowd struct {
	cmd *exec.Cmd
	in  io.Closer // they go on until this is closed
	out bytes.Buffer
}

// startCrowd lets the hostile clients loose.
func startCrowd(server *process.Server, s scene) (*crowd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// They stand for clients on other machines: what they do is to take the server's time, not its processors. Those that
	// do little themselves keep their pace.
	nice := "19"
	if s.eager {
		nice = "0"
	}
	c := &crowd{cmd: exec.Command("nice", "-n", nice, program, "--at", server.Addr, "--metrics-at", server.Metrics, "--connections", strconv.Itoa(s.connections), "--only", s.only,
		"--seed", strconv.FormatUint(s.seed, 10), "--tls="+strconv.FormatBool(s.tls))}
	c.cmd.Stdout, c.cmd.Stderr = &c.out, os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return c, c.cmd.Start()
}

// end ends them, and returns how many connections there were of each kind.
func (c *crowd) end() (connects map[string]int64, err error) {
	_ = c.in.Close() // they may have ended by themselves, which Wait tells
	if err := c.cmd.Wait(); err != nil {
		return nil, fmt.Errorf("the process of the attackers: %w", err)
	}
	return connects, json.Unmarshal(c.out.Bytes(), &connects)
}

// attackAt is the process of the hostile clients. They go on until standard input ends.
func attackAt(addr, metrics string, s scene) error {
	kinds, err := choose(s.only)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // an error is an end, too
		cancel()
	}()
	connects := make([]atomic.Int64, len(kinds))
	var group sync.WaitGroup
	for i := range s.connections {
		kind, count := kinds[i%len(kinds)], &connects[i%len(kinds)]
		random := rand.New(rand.NewPCG(s.seed, uint64(i)))
		addr := addr
		if kind.onMetrics() {
			addr = metrics
		}
		group.Go(func() {
			for ctx.Err() == nil {
				if kind.isHello() {
					select {
					case <-hellos:
					case <-ctx.Done():
						return
					}
				}
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					sleep(ctx, 50*time.Millisecond) // no port or no place left
					continue
				}
				count.Add(1)
				attackOnce(ctx, kind, conn, random)
				sleep(ctx, 10*time.Millisecond)
			}
		})
	}
	group.Wait()
	counts := make(map[string]int64)
	for i := range kinds {
		counts[kinds[i].name] = connects[i].Load()
	}
	return json.NewEncoder(os.Stdout).Encode(counts)
}

func attackOnce(ctx context.Context, kind attack, conn net.Conn, random *rand.Rand) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // it waits in no call longer than that
	defer stop()
	defer func() { _ = conn.Close() }() // perhaps once more
	a := &attacker{ctx, random, conn}
	if kind.knows && !a.send(wire.Command("AUTH", password)) {
		return
	}
	kind.run(a)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// send sends text, and reports whether the server still takes it.
func (a *attacker) send(text string) bool {
	_, err := io.WriteString(a.conn, text)
	return err == nil
}

// wait waits until the server closes the connection, and drops what it sends.
func (a *attacker) wait() { _, _ = io.Copy(io.Discard, a.conn) }

// endless sends what make returns, again and again, and drops the replies.
func (a *attacker) endless(text func() string) {
	ended := make(chan struct{})
	go func() {
		a.wait()
		close(ended)
	}()
	for a.send(text()) {
	}
	_ = a.conn.Close() // the server may have closed it
	<-ended
}

// once returns a text that is made once.
func once(text string) func() string { return func() string { return text } }

// many is a command with n words of a kind behind its own.
func many(command string, n int, word string) string {
	words := strings.Fields(command)
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words)+n)
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	b.WriteString(strings.Repeat(fmt.Sprintf("$%d\r\n%s\r\n", len(word), word), n))
	return b.String()
}

// large are texts that several attackers send: memory of this side is not looked at, and is not to run out.
var large = struct {
	bulk, words, keys, names string
}{
	bulk:  wire.Command("SET", "large", strings.Repeat("x", 8*mib-4096)), // about as much as a commit takes
	words: many("BF.MADD large:filter", 500_000, "a"),                    // about as many as a server with 64 MiB for clients reads
	keys:  many("MGET", 500_000, ""),
	names: wire.Command("CLIENT", "SETNAME", strings.Repeat("n", 4096)) + wire.Command("CLIENT", "SETINFO", "LIB-NAME", strings.Repeat("l", 4096)) +
		wire.Command("CLIENT", "SETINFO", "LIB-VER", strings.Repeat("v", 4096)),
}

var attacks = []attack{
	{"silent", false, (*attacker).wait},
	{"half byte by byte", false, func(a *attacker) { a.slowly("*2\r\n$4\r\nAUTH\r\n$16000\r\n" + strings.Repeat("a", 16000)) }},
	{"half byte by byte logged in", true, func(a *attacker) { a.slowly("*2\r\n$3\r\nGET\r\n$30000000\r\n" + strings.Repeat("a", 1000)) }},
	{"announced and not sent", true, func(a *attacker) {
		one := []string{"*1\r\n$536870912\r\n", "*1\r\n$33554432\r\n", "*1048576\r\n", "*1048576\r\n$33554432\r\n", "*2147483647\r\n"}
		if a.send(one[a.random.IntN(len(one))]) {
			a.wait()
		}
	}},
	{"announced by strangers", false, func(a *attacker) {
		one := []string{"*1\r\n$536870912\r\n", "*1\r\n$16384\r\n", "*10\r\n", "*1048576\r\n"}
		if a.send(one[a.random.IntN(len(one))]) {
			a.wait()
		}
	}},
	{"large words", true, func(a *attacker) { a.endless(once(large.bulk)) }},
	{"half of large words", true, func(a *attacker) {
		if a.send("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n$33554432\r\n" + large.bulk) {
			a.wait()
		}
	}},
	{"replies not read", true, func(a *attacker) {
		for a.send(strings.Repeat(wire.Command("GET", "middling"), 1000)) {
		}
	}},
	{"large replies not read", true, func(a *attacker) {
		for a.send(strings.Repeat(wire.Command("GET", "big"), 100)) {
		}
	}},
	{"replies read slowly", true, func(a *attacker) {
		if !a.send(strings.Repeat(wire.Command("GET", "middling"), 1000)) {
			return
		}
		in := bufio.NewReaderSize(a.conn, 16)
		for a.ctx.Err() == nil {
			if _, err := in.ReadByte(); err != nil {
				return
			}
			sleep(a.ctx, 5*time.Millisecond)
		}
	}},
	{"MULTI without end", true, func(a *attacker) {
		if a.send(wire.Command("MULTI")) {
			a.endless(once(strings.Repeat(wire.Command("SET", "k", "v"), 1000)))
		}
	}},
	{"MULTI of large words", true, func(a *attacker) {
		if a.send(wire.Command("MULTI")) {
			a.endless(once(wire.Command("SET", "k", strings.Repeat("v", 60_000))))
		}
	}},
	{"WATCH without end", true, func(a *attacker) {
		a.endless(func() string {
			var b strings.Builder
			for range 1000 {
				b.WriteString(wire.Command("WATCH", fmt.Sprintf("%x", a.random.Uint64())))
			}
			return b.String()
		})
	}},
	{"WATCH and EXEC", true, func(a *attacker) {
		a.endless(func() string {
			var b strings.Builder
			for range 1000 {
				b.WriteString(wire.Command("WATCH", fmt.Sprintf("%x", a.random.Uint64())) + wire.Command("EXEC"))
			}
			return b.String()
		})
	}},
	{"wrong passwords", false, func(a *attacker) {
		a.endless(func() string { return wire.Command("AUTH", fmt.Sprint(a.random.Uint64())) + wire.Command("RESET") })
	}},
	// One password a connection, as fast as they are answered.
	{"guesses", false, func(a *attacker) {
		if a.send(wire.Command("HELLO", "3", "AUTH", "default", fmt.Sprint(a.random.Uint64()))) {
			_, _ = a.conn.Read(make([]byte, 1))
		}
	}},
	{"half words of strangers", false, func(a *attacker) {
		if a.send("*10\r\n" + strings.Repeat("$400\r\n"+strings.Repeat("a", 400)+"\r\n", 9) + "$400\r\n") {
			a.wait()
		}
	}},
	{"handshakes", false, func(a *attacker) {
		// The certificate does not matter to an attacker that wants to keep the server at work.
		_ = tls.Client(a.conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(a.ctx)
	}},
	{"malformed", false, func(a *attacker) {
		if a.send(malformedCommand(a.random)) {
			a.wait()
		}
	}},
	{"TLS", false, func(a *attacker) {
		if a.send("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x2a", 500)) {
			a.wait()
		}
	}},
	{"HTTP", false, func(a *attacker) {
		if a.send("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nSET k v\r\n") {
			a.wait()
		}
	}},
	{"long lines", true, func(a *attacker) { a.endless(once("GET " + strings.Repeat("k", 60_000) + "\r\n")) }},
	{"lines without end", true, func(a *attacker) { a.endless(once(strings.Repeat("k", 60_000))) }},
	{"many words", true, func(a *attacker) { a.endless(once(large.words)) }},
	{"many keys", true, func(a *attacker) { a.endless(once(large.keys)) }},
	{"many unknown words", true, func(a *attacker) { a.endless(once(strings.Replace(large.keys, "MGET", "NOPE", 1))) }},
	{"large keys many times", true, func(a *attacker) { a.endless(once(many("MGET", 1000, "big"))) }},
	{"large keys in a transaction", true, func(a *attacker) {
		a.endless(once(wire.Command("MULTI") + strings.Repeat(wire.Command("GET", "big"), 200) + wire.Command("EXEC")))
	}},
	{"long names", true, func(a *attacker) {
		if a.send(large.names) {
			a.endless(once(strings.Repeat(wire.Command("CLIENT", "LIST"), 10)))
		}
	}},
	{"all of COMMAND", true, func(a *attacker) { a.endless(once(strings.Repeat(wire.Command("COMMAND", "DOCS"), 10))) }},
	{"comes and goes", false, func(*attacker) {}},
}

// onMetrics reports whether the kind attacks the port for metrics.
func (k attack) onMetrics() bool { return strings.HasPrefix(k.name, "metrics ") }

// isHello reports whether the kind connects a thousand times a second, of all connections together.
func (k attack) isHello() bool { return strings.HasSuffix(k.name, "hellos") }

// hellos is their pace.
var hellos = time.Tick(time.Millisecond)

// hostilePatterns match slowly where a matcher goes back and forth, or looks at sets one by one. They are as long as may be.
var hostilePatterns = []string{
	strings.Repeat("a*", glob.MaxLen/2-1) + "b",
	strings.Repeat("*a", glob.MaxLen/2-1) + "?b",
	strings.Repeat("*?", glob.MaxLen/2-1) + "b",
	strings.Repeat("[a-z]*", glob.MaxLen/6-1) + "b",
	strings.Repeat("*[^b]", glob.MaxLen/5-1) + "b",
	"*" + strings.Repeat("[abcdefghijklmnop]", glob.MaxLen/18-1) + "b",
}

func (a *attacker) pattern() string { return hostilePatterns[a.random.IntN(len(hostilePatterns))] }

// scan is a command that looks at keys for as long as one may.
func (a *attacker) scan() string {
	if a.random.IntN(2) == 0 {
		return wire.Command("KEYS", a.pattern())
	}
	return wire.Command("SCAN", "0", "MATCH", a.pattern(), "COUNT", "1000")
}

func (a *attacker) scans() string { return a.scan() + a.scan() + a.scan() + a.scan() }

const metricsRequest = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n"

// special are kinds of attacks for scenes of their own.
var special = []attack{
	{"patterns", true, func(a *attacker) { a.endless(a.scans) }},
	{"patterns too long", true, func(a *attacker) {
		a.endless(once(wire.Command("SCAN", "0", "MATCH", strings.Repeat("a*", glob.MaxLen)) + wire.Command("KEYS", strings.Repeat("[a-z]", 10_000))))
	}},
	{"patterns in a transaction", true, func(a *attacker) {
		a.endless(func() string { return wire.Command("MULTI") + a.scans() + wire.Command("EXEC") })
	}},
	{"patterns and writes in a transaction", true, func(a *attacker) {
		a.endless(func() string {
			return wire.Command("MULTI") + wire.Command("SET", "hostile", "v") + a.scan() + wire.Command("EXEC")
		})
	}},
	// It goes away at once, or when it has been served for a while.
	{"patterns and gone", true, func(a *attacker) {
		if a.send(wire.Command("MULTI") + a.scans() + wire.Command("EXEC") + a.scans()) {
			sleep(a.ctx, time.Duration(a.random.IntN(200))*time.Millisecond)
		}
	}},
	{"logins in a transaction", true, func(a *attacker) {
		a.endless(once(wire.Command("MULTI") + wire.Command("SET", "hostile", "v") + strings.Repeat(wire.Command("AUTH", "wrong"), 15) + wire.Command("EXEC")))
	}},
	{"long reads in a transaction", true, func(a *attacker) {
		a.endless(once(wire.Command("MULTI") + wire.Command("SET", "hostile", "v") + strings.Repeat(wire.Command("BITCOUNT", "bits"), 2000) + wire.Command("EXEC")))
	}},
	{"one bitmap many times", true, func(a *attacker) { a.endless(once(many("BITOP OR hostile:bits", 5000, "bits"))) }},
	{"many bitmaps and gone", true, func(a *attacker) {
		if a.send(many("SIEVE.BITCOUNTOP ONE bits", 66_000, "bits") + strings.Repeat(wire.Command("BITCOUNT", "bits"), 1000)) {
			sleep(a.ctx, time.Duration(a.random.IntN(200))*time.Millisecond)
		}
	}},
	{"small transactions", true, func(a *attacker) {
		a.endless(once(wire.Command("MULTI") + wire.Command("SET", "hostile", "v") + wire.Command("EXEC")))
	}},
	{"dumps", true, func(a *attacker) { a.endless(once(strings.Repeat(wire.Command("BF.SCANDUMP", "dumped", "1"), 10))) }},
	{"dumps not read", true, func(a *attacker) {
		if a.send(wire.Command("BF.SCANDUMP", []string{"dumped", "dumped:compatible"}[a.random.IntN(2)], "1")) {
			sleep(a.ctx, time.Second)
		}
	}},
	{"one command described many times", true, func(a *attacker) { a.endless(once(many("COMMAND INFO", 200_000, "acl"))) }},
	{"statistics many times", true, func(a *attacker) { a.endless(once(many("SIEVE.STATS", 1000, "dumped"))) }},
	{"counts", true, func(a *attacker) { a.endless(once(strings.Repeat(wire.Command("BITCOUNT", "bits"), 10))) }},
	{"one count and gone", true, func(a *attacker) {
		if a.send(wire.Command("BITCOUNT", "bits")) {
			_, _ = a.conn.Read(make([]byte, 1))
		}
	}},
	{"hellos", false, (*attacker).hello},
	{"metrics hellos", false, (*attacker).hello},
	{"metrics silent", false, (*attacker).wait},
	{"metrics half a request", false, func(a *attacker) { a.slowly(metricsRequest + "X-Long: " + strings.Repeat("a", 10_000)) }},
	{"metrics wrong passwords", false, func(a *attacker) {
		a.endless(func() string {
			return metricsRequest + fmt.Sprintf("Authorization: Bearer %x\r\n\r\n", a.random.Uint64())
		})
	}},
	{"metrics requests", false, func(a *attacker) {
		a.endless(once(strings.Repeat("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 100)))
	}},
	{"metrics long headers", false, func(a *attacker) { a.endless(once("X: " + strings.Repeat("a", 60_000) + "\r\n")) }},
}

// cannedHello returns the first bytes that a client of TLS sends.
var cannedHello = sync.OnceValue(func() []byte {
	ours, theirs := net.Pipe()
	go func() {
		_ = tls.Client(theirs, &tls.Config{InsecureSkipVerify: true}).Handshake() // which ends with the pipe
	}()
	hello := make([]byte, 4<<10)
	n, _ := ours.Read(hello)
	_ = ours.Close() // the hello is there
	return hello[:n]
})

// hello makes the server sign, with no work of its own: it sends a canned hello, and is gone when it has the answer, or
// does not wait for it any more.
func (a *attacker) hello() {
	if a.send(string(cannedHello())) && a.conn.SetReadDeadline(time.Now().Add(5*time.Second)) == nil {
		_, _ = a.conn.Read(make([]byte, 1))
	}
}

// slowly sends text a byte at a time.
func (a *attacker) slowly(text string) {
	for i := range len(text) {
		if !a.send(text[i : i+1]) {
			return
		}
		sleep(a.ctx, 10*time.Millisecond)
	}
	a.wait()
}
