package server_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// Replies come in the order of the commands, whatever clients send at once.
func TestPipeline_order(t *testing.T) {
	w := serve(t, nil)
	l := listenTCP(t)
	w.listen(l)
	const commands = 20_000
	for name, c := range map[string]*client{"pipe": w.client(), "TCP": w.dial(l)} {
		t.Run(name, func(t *testing.T) {
			var sending sync.WaitGroup
			sending.Go(func() {
				var b strings.Builder
				for i := range commands {
					fmt.Fprintf(&b, "*2\r\n$4\r\nECHO\r\n$%d\r\n%d\r\n", len(fmt.Sprint(i)), i)
				}
				// In pieces that end anywhere.
				random := rand.New(rand.NewPCG(1, 2))
				for rest := b.String(); rest != ""; {
					n := min(1+random.IntN(30_000), len(rest))
					if err := c.Send(rest[:n]); err != nil {
						t.Error(err)
						return
					}
					rest = rest[n:]
				}
			})
			for i := range commands {
				c.want(fmt.Sprintf(`"%d"`, i))
			}
			sending.Wait()
		})
	}
}

// Each reply has its own string, though replies that were sent lend their memory to the next.
func TestPipeline_strings(t *testing.T) {
	c := serve(t, nil).client()
	long := strings.Repeat("l", 5000)
	c.send(commandOf("MSET", "a", "first", "b", "2nd", "empty", "", "long", long))
	c.want("+OK")
	c.send(commandOf("GET", "a") + commandOf("GET", "b") + commandOf("GET", "long") + commandOf("GET", "none") +
		commandOf("GET", "empty") + commandOf("GET", "a") + commandOf("ECHO", "e") + commandOf("GET", "b"))
	c.want(`"first"`, `"2nd"`, `"`+long+`"`, "$-1", `""`, `"first"`, `"e"`, `"2nd"`)
	c.send(commandOf("MULTI") + commandOf("GET", "a") + commandOf("SET", "a", "new") + commandOf("GET", "a") + commandOf("GET", "b") + commandOf("EXEC"))
	c.want("+OK", "+QUEUED", "+QUEUED", "+QUEUED", "+QUEUED", `..."first"...OK..."new"..."2nd"...`)
	c.send(commandOf("GET", "a"))
	c.want(`"new"`)
}

func TestInline(t *testing.T) {
	c := serve(t, nil).client()
	c.send("PING\r\n")
	c.want("+PONG")
	c.send("PING\nping hello\r\n  ECHO   \"a b\\x00\\n\"  \r\nECHO 'it''s'x\r\n")
	c.want("+PONG", `"hello"`, `"a b\x00\n"`, "-ERR Protocol error: unbalanced quotes in request")
	c.ended()
}

// Inline commands, blank lines, empty commands, and commands as clients send them may follow one another.
func TestInline_mixed(t *testing.T) {
	c := serve(t, nil).client()
	c.send("\r\n\n   \r\n*0\r\n*-1\r\nSET k v\r\n" + commandOf("GET", "k") + "*-7\r\nGET k\n\r\n" + commandOf("PING"))
	c.want("+OK", `"v"`, `"v"`, "+PONG")
	c.send(commandOf("") + commandOf("", "a") + `"" ""` + "\n" + commandOf("NOSUCH", "a\r\nb", strings.Repeat("x", 200)))
	c.want("-ERR unknown command '', with args beginning with: ",
		"-ERR unknown command '', with args beginning with: 'a' ",
		"-ERR unknown command '', with args beginning with: '' ",
		"-ERR unknown command 'NOSUCH', with args beginning with: 'a  b' '"+strings.Repeat("x", 121)+"' ")
}

// Commands that arrive byte by byte are the same commands.
func TestPipeline_bytes(t *testing.T) {
	c := serve(t, nil).client()
	for _, b := range []byte(commandOf("SET", "k", "a\r\nb")) {
		c.send(string(b))
	}
	c.want("+OK")
	for _, b := range []byte("GET k\r\n") {
		c.send(string(b))
	}
	c.want(`"a\r\nb"`)
}

// syncs returns how often the log has been synced.
func (w *world) syncs() uint64 {
	w.t.Helper()
	m, err := w.db.Store().Metrics()
	if err != nil {
		w.t.Fatal(err)
	}
	return m.Syncs
}

// The writes of a pipeline share a sync.
func TestPipeline_oneSync(t *testing.T) {
	w := serve(t, nil)
	c := w.client()
	c.answers("SET warm up => +OK\nBF.ADD f known => :1\nBF.ADD f known => :0")
	tests := []struct {
		name  string
		lines []string
		syncs uint64
	}{
		{"one write", []string{"SET k v"}, 1},
		{"writes", numbered("SET k%d v", 200), 1},
		{"writes of filters", append(numbered("BF.ADD f %d", 50), numbered("CF.ADD c %d", 50)...), 1},
		{"a write before reads", append([]string{"SET k v"}, numbered("GET k%d", 50)...), 1},
		{"a write after reads", append(numbered("GET k%d", 50), "SET k v"), 1},
		{"transactions", []string{"MULTI", "SET a 1", "BF.ADD f t1", "EXEC", "MULTI", "INCR a", "EXEC"}, 1},
		{"a transaction after a read", []string{"GET a", "MULTI", "INCR a", "EXEC"}, 1},
		{"reads", numbered("GET k%d", 200), 0},
		{"a transaction of reads", []string{"MULTI", "GET a", "EXEC"}, 0},
		{"what is known", []string{"BF.ADD f known", "BF.ADD f known", "SETNX k v", "DEL nosuch"}, 0},
		{"no commands of the store", []string{"PING", "CLIENT ID", "SELECT 0", "NOSUCH"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := w.syncs()
			c.send(pipeline(tt.lines...))
			for range tt.lines {
				c.want("...")
			}
			if n := w.syncs() - before; n != tt.syncs {
				t.Errorf("%d syncs, want %d", n, tt.syncs)
			}
		})
	}
}

// The replies to a long pipeline are sent in pieces, each after its own sync.
func TestPipeline_pieces(t *testing.T) {
	const commands, perPiece = 200, 20
	w := serve(t, server.Options{}.WithTimes(long, long, long).WithBatch(perPiece*len("+OK\r\n")))
	c := w.client()
	before := w.syncs()
	c.send(pipeline(numbered("SET k%d v", commands)...))
	for range commands {
		c.want("+OK")
	}
	if n := w.syncs() - before; n != commands/perPiece {
		t.Errorf("%d syncs for %d pieces", n, commands/perPiece)
	}
}

func TestPipeline_levels(t *testing.T) {
	for _, level := range []kv.Durability{kv.EverySec, kv.NoSync} {
		t.Run(level.String(), func(t *testing.T) {
			w := serveStore(t, kv.Options{InMemory: true, Durability: level}, nil)
			c := w.client()
			before := w.syncs()
			c.send(pipeline(numbered("SET k%d v", 100)...))
			for range 100 {
				c.want("+OK")
			}
			c.answers("SET k v => +OK")
			if n := w.syncs() - before; level == kv.NoSync && n > 0 || n > 10 {
				t.Errorf("%d syncs", n)
			}
		})
	}
}

// onDisk are the options of a store on a file system in memory.
func onDisk(fs vfs.FS) kv.Options {
	return kv.Options{FS: fs, BallastSize: -1, MinFreeSpace: -1, Seed: 1}
}

// After a crash everything answered is there, even if nothing unsynced survives.
func TestPipeline_crash(t *testing.T) {
	fs := kvtest.NewDisk()
	w := serveStore(t, onDisk(fs), nil)
	c := w.client()
	script := append(numbered("SET s%d v", 20), numbered("BF.ADD bf %d", 20)...)
	script = append(script, "MULTI", "SET t 1", "CF.ADD cf x", "EXEC", "GET s0")
	for round := range 5 {
		c.send(strings.ReplaceAll(pipeline(script...), "$2\r\ns", "$2\r\n"+string(rune('a'+round))))
		for range script {
			c.want("...")
		}
		db, err := sievekv.Open("store", &sievekv.Options{FS: fs.CrashClone(vfs.CrashCloneCfg{}), BallastSize: -1, MinFreeSpace: -1, MustExist: true})
		if err != nil {
			t.Fatal(err)
		}
		session := module.NewSession(db.Store())
		do := func(words ...string) string {
			args := make([][]byte, len(words))
			for i := range words {
				args[i] = []byte(words[i])
			}
			return session.Do(t.Context(), args).String()
		}
		for i := range 10 {
			if got := do("GET", fmt.Sprintf("%c%d", 'a'+round, i)); got != `"v"` {
				t.Errorf("round %d: after a crash key %d is %s", round, i, got)
			}
		}
		for i := range 20 {
			if got := do("BF.EXISTS", "bf", fmt.Sprint(i)); got != "(integer) 1" {
				t.Errorf("round %d: after a crash item %d is %s", round, i, got)
			}
		}
		if got := do("CF.COUNT", "cf", "x"); got != fmt.Sprintf("(integer) %d", round+1) {
			t.Errorf("round %d: after a crash there are %s of what a transaction added", round, got)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// failing returns a file system whose syncs of the log fail once the switch is on.
func failing() (fs vfs.FS, broken *atomic.Bool) {
	broken = &atomic.Bool{}
	return &faultfs.FS{FS: vfs.NewMem(), Before: func(s faultfs.Site, name string) error {
		if broken.Load() && s.Op == "sync" && strings.HasSuffix(name, ".log") {
			return errors.New("the disk is broken")
		}
		return nil
	}}, broken
}

// If the sync of a pipeline fails, each of its writes gets that error, and each read what it has read.
func TestPipeline_failingSync(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			fs, broken := failing()
			w := serveStore(t, onDisk(fs), nil)
			c := w.client()
			c.answers(fmt.Sprintf("HELLO %d => %s\nSET k v => +OK\nBF.ADD f a => ...", protocol, greeting(protocol)))
			yes, no := ":1", ":0"
			if protocol == 3 {
				yes, no = "#t", "#f"
			}
			broken.Store(true)
			c.send(pipeline("GET k", "SET k w", "GET k", "PING", "BF.ADD f b", "BF.MADD f c d", "BF.EXISTS f a", "BF.MEXISTS f b nosuch",
				"INCR n", "DEL nosuch", "NOSUCH", "ECHO x", "MULTI", "SET k x", "GET k", "EXEC", "STRLEN k"))
			failed := "-MISCONF store has failed, ..."
			c.want(`"v"`, failed, `"w"`, "+PONG", failed, failed, yes, "["+yes+" "+no+"]",
				failed, failed, "-ERR unknown command 'NOSUCH', ...", `"x"`, "+OK", "+QUEUED", "+QUEUED", failed, ":1")
			// From here on commands on the store fail, but the connection lives.
			c.answers("GET k => " + failed + "\nSET k y => " + failed + "\nPING => +PONG\nCLIENT ID => :1")
			if got := c.info("persistence", "aof_last_write_status"); got != "err" {
				t.Errorf("INFO has aof_last_write_status %s, want err", got)
			}
			if got := c.info("store", "failed"); !strings.Contains(got, "the disk is broken") {
				t.Errorf("INFO has that the store failed for %q", got)
			}
			if got, want := c.info("errorstats", "errorstat_MISCONF"), "count=8"; !strings.HasPrefix(got, want) {
				t.Errorf("INFO counts %s errors, want %s", got, want)
			}
			c.send(pipeline("GET k", "BF.EXISTS f a", "SET k z", "PING"))
			c.want(failed, failed, failed, "+PONG")
		})
	}
}

// The same for a single command.
func TestFailingSync(t *testing.T) {
	for _, command := range []string{"SET k w", "BF.ADD f b", "BF.ADD f a", "MSET a 1 b 2"} {
		fs, broken := failing()
		w := serveStore(t, onDisk(fs), nil)
		c := w.client()
		c.answers("SET k v => +OK\nBF.ADD f a => :1\nBF.ADD f a => :0")
		broken.Store(true)
		// This answer rests on nothing that must be synced.
		want := "-MISCONF store has failed, ..."
		if command == "BF.ADD f a" {
			want = ":0"
		}
		if got := c.do(command); !like(got, want) {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
}

// Nothing of a pipeline is sent before its writes are on stable storage.
func TestPipeline_waitsForSync(t *testing.T) {
	var held atomic.Bool
	reached, release := make(chan struct{}), make(chan struct{})
	w := serveStore(t, onDisk(&faultfs.FS{FS: vfs.NewMem(), Before: func(s faultfs.Site, name string) error {
		if s.Op == "sync" && strings.HasSuffix(name, ".log") && held.CompareAndSwap(true, false) {
			close(reached)
			<-release
		}
		return nil
	}}), nil)
	c, other := w.client(), w.client()
	other.answers("SET before x => +OK")
	held.Store(true)
	c.send(pipeline("PING", "SET k v", "GET k"))
	<-reached
	// Another connection may see the write already, and does not wait.
	other.answers(`GET k => "v"`)
	replies := make(chan string)
	go func() {
		first, _ := c.Reply() // an error shows as "", which is not expected
		replies <- first
	}()
	select {
	case first := <-replies:
		t.Errorf("%s was sent before the sync", first)
	default:
	}
	close(release)
	if first := <-replies; first != "+PONG" {
		t.Errorf("the first reply is %s", first)
	}
	c.want("+OK", `"v"`)
}

// A transaction belongs to a connection.
func TestMulti(t *testing.T) {
	w := serve(t, nil)
	a, b := w.client(), w.client()
	a.answers(`
EXEC => -ERR EXEC without MULTI
DISCARD => -ERR DISCARD without MULTI
MULTI => +OK
MULTI => -ERR MULTI calls can not be nested
WATCH k => -ERR WATCH inside MULTI is not allowed
SET k a => +QUEUED
GET k => +QUEUED
PING => +QUEUED
CLIENT ID => +QUEUED
`)
	b.answers(`
GET k => $-1
EXEC => -ERR EXEC without MULTI
MULTI => +OK
SET k b => +QUEUED
EXEC => [+OK]
`)
	a.answers(`
EXEC => [+OK "a" +PONG :1]
EXEC => -ERR EXEC without MULTI
MULTI => +OK
SET k c => +QUEUED
DISCARD => +OK
GET k => "a"
MULTI => +OK
EXEC => []
MULTI => +OK
NOSUCH => -ERR unknown command 'NOSUCH', ...
SET k d => +QUEUED
EXEC => -EXECABORT Transaction discarded because of previous errors.
MULTI => +OK
SET k => -ERR wrong number of arguments for 'set' command
EXEC => -EXECABORT Transaction discarded because of previous errors.
MULTI => +OK
CLIENT NOSUCH => -ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.
EXEC => -EXECABORT Transaction discarded because of previous errors.
MULTI => +OK
INCR k => +QUEUED
SET n 1 => +QUEUED
EXEC => [-ERR value is not an integer or out of range +OK]
GET k => "a"
`)
}

func TestMulti_RESP3(t *testing.T) {
	w := serve(t, nil)
	a, b := w.client(), w.client()
	a.answers(`
HELLO 3 => {...}
MULTI => +OK
GET nosuch => +QUEUED
BF.ADD f x => +QUEUED
EXEC => [_ #t]
WATCH k => +OK
`)
	b.answers("SET k v => +OK")
	a.answers(`
MULTI => +OK
GET k => +QUEUED
EXEC => _
`)
}

func TestWatch(t *testing.T) {
	w := serve(t, nil)
	a, b := w.client(), w.client()
	const try = "\nMULTI => +OK\nSET won a => +QUEUED\nEXEC => "
	for name, tt := range map[string]struct {
		first, other, exec string
	}{
		"nothing happens":     {"WATCH k", "GET k", "[+OK]"},
		"changed":             {"WATCH k", "SET k 1", "*-1"},
		"changed back":        {"WATCH k", "SET k v", "*-1"},
		"removed":             {"WATCH k", "DEL k", "*-1"},
		"made":                {"WATCH new", "SET new 1", "*-1"},
		"another":             {"WATCH k", "SET other 1", "[+OK]"},
		"a filter":            {"WATCH f", "BF.ADD f new", "*-1"},
		"a filter, known":     {"WATCH f", "BF.ADD f x", "[+OK]"},
		"one of several":      {"WATCH k l m f", "SET m 1", "*-1"},
		"twice":               {"WATCH k k", "SET k 1", "*-1"},
		"all":                 {"WATCH k", "FLUSHALL", "*-1"},
		"in a transaction":    {"WATCH k", "MULTI; SET k 2; EXEC", "*-1"},
		"given up":            {"WATCH k; UNWATCH", "SET k 1", "[+OK]"},
		"given up by EXEC":    {"WATCH k; MULTI; EXEC", "SET k 1", "[+OK]"},
		"given up by DISCARD": {"WATCH k; MULTI; DISCARD", "SET k 1", "[+OK]"},
		"given up by RESET":   {"WATCH k; RESET", "SET k 1", "[+OK]"},
		"not by EXEC alone":   {"WATCH k; EXEC", "SET k 1", "*-1"},
	} {
		t.Run(name, func(t *testing.T) {
			a.answers("FLUSHALL => +OK\nSET k v => +OK\nBF.ADD f x => :1")
			a.send(pipeline(strings.Split(tt.first, "; ")...))
			for range strings.Split(tt.first, "; ") {
				a.want("...")
			}
			b.send(pipeline(strings.Split(tt.other, "; ")...))
			for range strings.Split(tt.other, "; ") {
				b.want("...")
			}
			a.answers(try + tt.exec)
		})
	}
}

// A connection that ends within MULTI does nothing, and its keys stop being watched.
func TestMulti_connectionEnds(t *testing.T) {
	w := serve(t, nil)
	for _, end := range []func(c *client){
		func(c *client) { _ = c.Close() },
		func(c *client) { c.send("*3\r\n$3\r\nSET"); _ = c.Close() },
		func(c *client) { c.send("*x\r\n"); c.want("-ERR Protocol error: ..."); c.ended() },
		func(c *client) { c.answers("QUIT => +OK"); c.ended() },
	} {
		c := w.client()
		c.answers("WATCH k => +OK\nMULTI => +OK\nSET k v => +QUEUED\nBF.ADD f x => +QUEUED")
		end(c)
		eventually(t, "the connection is gone", func() bool { return w.server.Held() == 0 })
		after := w.client()
		after.answers("EXISTS k f => :0")
		_ = after.Close()
		eventually(t, "the connection is gone", func() bool { return w.server.Held() == 0 })
	}
}
