package server_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/module"
)

// largest has for each command the words for which its reply is largest. Words in parentheses are repeated as often as
// the server allows. Lines with | are several commands; the test looks at the last.
const largest = `
	ACL CAT | ACL CAT dangerous | ACL DELUSER (nobody) | ACL DRYRUN long SET far v | ACL GENPASS 4096 | ACL GETUSER long | ACL HELP
	ACL LIST | ACL LOAD | ACL LOG 100000 | ACL SAVE | ACL SETUSER default (+get) | ACL USERS | ACL WHOAMI | ACL
	APPEND mid v | AUTH wrong
	BF.ADD f a | BF.CARD f | BF.DEBUG layers | BF.EXISTS f a | BF.INFO layers | BF.INFO window SLICES | BF.INSERT f ITEMS (a)
	BF.LOADCHUNK f 1 a | BF.MADD f (a) | BF.MERGE small (small) | BF.MEXISTS f (a) | BF.RESERVE new 0.01 1000 | BF.SCANDUMP f 1
	BF.SCANDUMP flat 1 | BF.SCANDUMP layers 0
	BITCOUNT big | BITFIELD bits (SET u8 0 1) | BITFIELD_RO bits (GET u8 0) | BITOP OR bits (bits) | BITPOS bits 1
	CBF.ADD cbf a | CBF.CARD cbf | CBF.COUNT cbf a | CBF.DEBUG cbf | CBF.DEL cbf a | CBF.EXISTS cbf a | CBF.INFO cbf
	CBF.INSERT cbf ITEMS (a) | CBF.MADD cbf (a) | CBF.MDEL cbf (a) | CBF.MERGE smallcbf (smallcbf) | CBF.MEXISTS cbf (a) | CBF.RESERVE new 0.01 1000
	CF.ADD cf a | CF.ADDNX cf a | CF.COMPACT cf | CF.COUNT cf a | CF.DEBUG cf | CF.DEL cf a | CF.EXISTS cf a | CF.INFO cf
	CF.INSERT cf ITEMS (a) | CF.INSERTNX cf ITEMS (a) | CF.LOADCHUNK cf 1 a | CF.MEXISTS cf (a) | CF.RESERVE new 1000 | CF.SCANDUMP cf 1
	CF.SCANDUMP flatcf 1
	CLIENT GETNAME | CLIENT HELP | CLIENT ID | CLIENT INFO | CLIENT KILL ID 1000000 | CLIENT LIST | CLIENT NO-EVICT ON
	CLIENT NO-TOUCH ON | CLIENT SETINFO LIB-NAME name | CLIENT SETNAME name | CLIENT CACHING YES | CLIENT TRACKING OFF
	CLIENT TRACKINGINFO | CLIENT
	COMMAND | COMMAND COUNT | COMMAND DOCS (acl) | COMMAND DOCS | COMMAND GETKEYS MGET (large) | COMMAND GETKEYSANDFLAGS MGET (a)
	COMMAND HELP | COMMAND INFO (acl) | COMMAND INFO | COMMAND LIST
	CONFIG GET (*) | CONFIG HELP | CONFIG RESETSTAT | CONFIG REWRITE | CONFIG SET timeout 0 | CONFIG
	COPY big copy | DBSIZE | DECR n | DECRBY n 1 | DEL (a) | DISCARD | ECHO large | EXISTS (a) | EXPIRE n 1000 | EXPIREAT n 9999999999
	EXPIRETIME n | GET big | GETBIT bits 1 | GETDEL big | GETEX big PERSIST | GETRANGE big 0 -1 | GETRANGE mid 0 -1 | GETSET big v | HELLO 3
	INCR n | INCRBY n 1 | INCRBYFLOAT n 1 | INFO (all) | KEYS * | MEMORY USAGE f | MEMORY HELP | MEMORY | MGET (mid) | MGET (nosuch)
	MODULE LIST | MODULE HELP | MODULE | MSET (n 1) | MSETNX (n 1) | OBJECT ENCODING n | OBJECT FREQ n | OBJECT IDLETIME n
	OBJECT REFCOUNT n | OBJECT HELP | OBJECT | PERSIST n | PEXPIRE n 1000000 | PEXPIREAT n 9999999999999 | PEXPIRETIME n | PING large
	PSETEX n 1000000 1 | PTTL n | RANDOMKEY | RENAME n n | RENAMENX n n | SCAN 0 COUNT 100000 | SELECT 0 | SET big v GET | SETBIT bits 1 1
	SETEX n 1000 1 | SETNX n 1 | SETRANGE big 0 v | SIEVE.BITCOUNTOP OR (bits) | SIEVE.CHECK | SIEVE.COMPACT | SIEVE.ONERROR DEFAULT
	SIEVE.BACKUP backup | SIEVE.STATS (layers) | SIEVE.STATS LIMIT 100000 | SIEVE.STATS | SIEVE.STREAK bits 1
	SLOWLOG GET -1 | SLOWLOG HELP | SLOWLOG LEN | SLOWLOG RESET | SLOWLOG | STRLEN big | TIME | TOUCH (a) | TTL n | TYPE n | UNLINK (a)
	WAIT 0 0 | WATCH (a) | UNWATCH | MULTI | FLUSHDB nothing | FLUSHALL nothing
	MULTI ; GET big ; EXEC | MULTI ; COMMAND INFO (acl) ; EXEC | MULTI ; SIEVE.STATS (layers) ; EXEC | MULTI ; BF.SCANDUMP f 1 ; EXEC
	MONITOR | QUIT | RESET | SHUTDOWN`

// unchecked are commands whose memory is for the store's work, or that end the connection.
var unchecked = []string{"SIEVE.CHECK", "SIEVE.COMPACT", "SIEVE.BACKUP", "SHUTDOWN"}

// worst is a line of largest.
type worst struct {
	before []string // commands
	words  []string
	again  []string // words that are repeated
	after  []string // commands
}

// worstCommands returns the lines of largest.
func worstCommands() (list []worst) {
	for line := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSpace(largest), "\n", "|"), "|") {
		var one worst
		commands := strings.Split(line, ";")
		for i, command := range commands {
			command, again, _ := strings.Cut(strings.TrimSpace(command), "(")
			again = strings.TrimSuffix(again, ")")
			switch {
			case i == len(commands)/2:
				one.words, one.again = strings.Fields(command), strings.Fields(again)
			case i < len(commands)/2:
				one.before = append(one.before, command)
			default:
				one.after = append(one.after, command)
			}
		}
		list = append(list, one)
	}
	return list
}

// pipelined returns the commands as a client sends them, with the words repeated up to the given number of words.
func (one *worst) pipelined(most int) string {
	words := slices.Clone(one.words)
	if n := len(one.again); n > 0 {
		words = append(words, slices.Repeat(one.again, (most-len(words))/n)...)
	}
	return pipeline(one.before...) + commandOf(words...) + pipeline(one.after...)
}

func (one *worst) replies() int { return len(one.before) + 1 + len(one.after) }

// reply sends the commands, and returns the length of the last reply, and whether it is an error. An end of the connection
// is no reply.
func (c *client) reply(one *worst, most int) (n int, failed bool) {
	c.t.Helper()
	go func() { _ = c.Send(one.pipelined(most)) }()
	for range one.replies() {
		shown, raw, err := c.ReplyBytes()
		if err != nil {
			return 0, true
		}
		n, failed = len(raw), strings.HasPrefix(shown, "-")
	}
	return n, failed
}

// full returns a server with keys, users and logs for which replies are large.
func full(t *testing.T) *world {
	t.Helper()
	w := serve(t, nil)
	w.set("slowlog-max-len", "10000", "acllog-max-len", "10000", "slowlog-log-slower-than", "0")
	c := w.client()
	send := func(commands ...string) {
		t.Helper()
		go func() { _ = c.Send(strings.Join(commands, "")) }()
		for range commands {
			if got, err := c.Reply(); err != nil || strings.HasPrefix(got, "-") && !strings.HasPrefix(got, "-NOPERM") {
				t.Fatal(got, err)
			}
		}
	}
	for line := range strings.Lines(`
		BF.RESERVE f 0.01 4000000
		CF.RESERVE cf 2000000
		CBF.RESERVE cbf 0.01 1000000
		CONFIG SET bf-layout compatible cf-layout compatible
		BF.RESERVE flat 0.01 4000000 NONSCALING
		CF.RESERVE flatcf 4194304
		CF.ADD flatcf a
		CONFIG SET bf-layout native cf-layout native
		BF.RESERVE window 0.01 1000 WINDOW 1000 SLICES 32
		BF.ADD window a
		BF.RESERVE small 0.01 100
		CBF.RESERVE smallcbf 0.01 100
		SET n 1
		SETBIT bits 7 1
		ACL SETUSER long on nopass ~none +get`) {
		if line = strings.TrimSpace(line); line != "" {
			send(pipeline(line))
		}
	}
	send(commandOf("SET", "big", strings.Repeat("b", 150<<10)), commandOf("SET", "mid", strings.Repeat("m", 31<<10)))
	send(layersDump(500)...)
	var some []string
	for i := range 500 {
		some = append(some, commandOf("SET", fmt.Sprintf("%0200d", i), "v"), commandOf("BF.RESERVE", fmt.Sprintf("f%d", i), "0.01", "10"),
			commandOf("ACL", "SETUSER", fmt.Sprintf("%0100d", i), "on", "nopass", "~k", "+get", "+set"))
	}
	send(some...)
	words := slices.Repeat([]string{strings.Repeat("w", 100)}, 40)
	send(slices.Repeat([]string{commandOf(append([]string{"EXISTS"}, words...)...)}, 2000)...)
	send(pipeline("AUTH long x"))
	var denied []string
	for i := range 1000 {
		denied = append(denied, commandOf("GET", fmt.Sprintf("%0100d", i)))
	}
	send(denied...)
	_ = c.Close()
	eventually(t, "it is gone", func() bool { return w.server.Connections() == 0 })
	return w
}

// layersDump returns the commands that load a compatible Bloom filter of n layers.
func layersDump(n int) (commands []string) {
	le := binary.LittleEndian
	h := le.AppendUint64(nil, 0)
	for _, v := range []uint32{uint32(n), 5, 1} {
		h = le.AppendUint32(h, v)
	}
	const perItem = 9.585058377367439
	for range n {
		for _, v := range []uint64{8, 64, 0, math.Float64bits(0.01), math.Float64bits(perItem)} {
			h = le.AppendUint64(h, v)
		}
		h = append(le.AppendUint64(le.AppendUint32(h, 7), 1), 0)
	}
	commands = append(commands, commandOf("BF.LOADCHUNK", "layers", "1", string(h)))
	for i := range n {
		commands = append(commands, commandOf("BF.LOADCHUNK", "layers", strconv.Itoa(1+8*(i+1)), "12345678"))
	}
	return commands
}

// A reply is counted before it is made: if there is no memory for it, no command takes much before it says so.
func TestReplies_refused(t *testing.T) {
	const (
		words = 200
		reply = 32<<10 + 256 // a connection may always hold this number of bytes
		taken = 512 << 10
	)
	w := full(t)
	lines := worstCommands()
	names := map[string]bool{}
	for i := range lines {
		one := &lines[i]
		for _, command := range append(append(one.before, one.after...), strings.Join(one.words, " ")) {
			word, rest, _ := strings.Cut(strings.TrimSpace(command), " ")
			sub, _, _ := strings.Cut(rest, " ")
			names[word], names[word+"|"+sub] = true, true
		}
		cmd := module.Of(w.db.Store()).Command([]byte(one.words[0]))
		if cmd == nil {
			t.Fatalf("there is no command %s", one.words[0])
		}
		c := w.client()
		if cmd.Flags&module.Write == 0 && cmd.Name != "SLOWLOG" {
			c.reply(one, words) // which reads what it needs
		}
		give := w.server.Hold(1 << 30)
		got, n := uint64(0), 0
		for range 5 { // work of the store in the background takes memory, too, but not each time
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			n, _ = c.reply(one, words)
			runtime.ReadMemStats(&after)
			if got = after.TotalAlloc - before.TotalAlloc; got <= taken || cmd.Flags&module.Write != 0 {
				break
			}
		}
		give()
		_ = c.Close()
		if slices.Contains(unchecked, one.words[0]) {
			continue
		}
		if cmd.Flags&module.Write != 0 { // it may have begun work of the store
			got = 0
		}
		if got > taken || n > reply {
			t.Errorf("%v (%v): took %d bytes, and %d of a reply", one.words, one.again, got, n)
		}
	}
	for _, cmd := range module.Of(w.db.Store()).Commands() {
		if !names[cmd.Name] {
			t.Errorf("largest has no line of %s", cmd.Name)
		}
		for _, sub := range cmd.Subcommands {
			if !names[text.FoldString(sub.Name)] {
				t.Errorf("largest has no line of %s", sub.Name)
			}
		}
	}
}

// Clients that do not read their replies hold no more than maxmemory-clients and 32 KiB each, whatever they ask for.
func TestReplies_unread(t *testing.T) {
	const (
		clients = 100
		words   = 500
		budget  = 1 << 20
		allowed = budget + clients*32<<10
		other   = 8 << 20 // what counts nowhere: the memory of goroutines, pipes and of what the store reads
	)
	w := full(t)
	w.set("maxmemory-clients", strconv.Itoa(budget))
	lines := worstCommands()
	for i := range lines {
		one := &lines[i]
		if slices.Contains(unchecked, one.words[0]) {
			continue
		}
		if len(one.again) == 0 {
			if module.Of(w.db.Store()).Command([]byte(one.words[0])).Flags&module.Write != 0 {
				continue
			}
			reader := w.client()
			n, failed := reader.reply(one, words)
			_ = reader.Close()
			if n < 8<<10 && !failed {
				continue
			}
		}
		before := heap()
		var crowd []*client
		for range clients {
			c := w.client()
			crowd = append(crowd, c)
			go func() { _ = c.Send(one.pipelined(words)) }()
		}
		for _, c := range crowd {
			_, _ = c.Read(make([]byte, 1)) // the replies are made, or the connection has ended
		}
		held, took := w.server.Held(), heap()-before
		if held > allowed || took > allowed+other {
			t.Errorf("%v (%v): %d bytes are counted, at most %d, and %d taken", one.words, one.again, held, allowed, took)
		}
		for _, c := range crowd {
			_ = c.Close()
		}
		eventually(t, "they are gone", func() bool { return w.server.Connections() == 0 })
	}
}

// heap returns the bytes of what lives.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
