package server_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
)

// EXEC goes on after an error, or undoes all, as the transaction, the connection or the setting says.
func TestExec_onError(t *testing.T) {
	const (
		begin  = "MULTI => +OK\n"
		queues = "SET k v => +QUEUED\nBF.MADD full a b c => +QUEUED\nINCR n => +QUEUED\n"
		goesOn = queues + "EXEC => [+OK [:1 -ERR non scaling filter is full] :1]\nGET k => \"v\"\nDEL k n full => :3\n"
		undoes = queues + "EXEC => -EXECABORT Transaction discarded because of: ERR non scaling filter is full\n" +
			"EXISTS k n => :0\nBF.EXISTS full a => :0\nDEL full => :1\n"
	)
	for name, script := range map[string]string{
		"default":     begin + goesOn,
		"setting":     "CONFIG SET exec-on-error rollback => +OK\nCONFIG GET exec-on-error => [\"exec-on-error\" \"rollback\"]\n" + begin + undoes,
		"connection":  "SIEVE.ONERROR rollback => +OK\n" + begin + undoes + make1 + begin + undoes,
		"RESET":       "SIEVE.ONERROR rollback => +OK\nRESET => +RESET\n" + begin + goesOn,
		"back":        "SIEVE.ONERROR rollback => +OK\nSIEVE.ONERROR DEFAULT => +OK\n" + begin + goesOn,
		"continue":    "CONFIG SET exec-on-error rollback => +OK\nSIEVE.ONERROR continue => +OK\n" + begin + goesOn,
		"transaction": begin + "SIEVE.ONERROR rollback => +QUEUED\n" + undoes + make1 + begin + goesOn,
		"one of two":  "SIEVE.ONERROR rollback => +OK\n" + begin + "SIEVE.ONERROR CONTINUE => +QUEUED\n" + strings.Replace(goesOn, "[+OK [", "[+OK +OK [", 1) + make1 + begin + undoes,
		"no error":    begin + "SIEVE.ONERROR rollback => +QUEUED\nSET k v => +QUEUED\nMGET k no => +QUEUED\nEXEC => [+OK +OK [\"v\" $-1]]\nGET k => \"v\"",
		"a wrong word": "SIEVE.ONERROR x => -ERR 'x': must be CONTINUE, ROLLBACK or DEFAULT\n" + begin +
			"SIEVE.ONERROR x => -ERR 'x': must be...\nSET k v => +QUEUED\nEXEC => -EXECABORT Transaction discarded because of previous errors.\nEXISTS k => :0",
		"a number": "CF.RESERVE c 4 BUCKETSIZE 1 EXPANSION 0 => +OK\n" + begin + "SIEVE.ONERROR rollback => +QUEUED\nSET k v => +QUEUED\nCF.INSERT c ITEMS a a a => +QUEUED\n" +
			"EXEC => -EXECABORT Transaction discarded because of: Filter is full\nEXISTS k => :0\nCF.COUNT c a => :0",
		"only reads": "SET s v => +OK\n" + begin + "SIEVE.ONERROR rollback => +QUEUED\nBF.INFO s => +QUEUED\nEXEC => -EXECABORT Transaction discarded because of: WRONGTYPE...",
		"all keys": "SET s v => +OK\n" + begin + "SIEVE.ONERROR rollback => +QUEUED\nFLUSHALL => +QUEUED\nINCR t => +QUEUED\nRENAME no x => +QUEUED\n" +
			"EXEC => -EXECABORT Transaction discarded because of: ERR no such key\nGET s => \"v\"\nEXISTS t => :0",
		"a setting": begin + "SIEVE.ONERROR rollback => +QUEUED\nSET k v => +QUEUED\nCONFIG SET timeout 7 => +QUEUED\n" +
			"EXEC => -EXECABORT Transaction discarded because of: ERR 'config|set' cannot be undone\nEXISTS k => :0\nCONFIG GET timeout => [\"timeout\" \"0\"]",
	} {
		t.Run(name, func(t *testing.T) { serve(t, nil).client().answers(make1 + script) })
	}
}

// make1 makes the filter that is full with one item.
const make1 = "BF.RESERVE full 0.01 1 NONSCALING => +OK\n"

// seen returns what a client can see of the keys of TestExec_undone.
func seen(c *client) string {
	var all []string
	for _, command := range []string{
		"MGET s0 s1 s2", "BF.MEXISTS b i0 i1 i2 i3 i4 i5 i6 i7 i8 i9", "BF.INFO b", "CF.INFO c", "CBF.INFO d", "BF.INFO g", "CF.MEXISTS c i0 i1 i2 i3 i4 i5 i6 i7 i8 i9",
		"PEXPIRETIME s0", "TYPE s0", "TYPE b", "TYPE c", "DBSIZE", "CBF.COUNT d i0", "CBF.COUNT d i1", "BITCOUNT bits", "CF.COUNT c i0", "BF.MEXISTS g i0 i1 i2 i3 i4 i5 i6 i7 i8 i9",
	} {
		all = append(all, c.do(command))
	}
	return strings.Join(all, "\n")
}

// Random transactions leave nothing behind when they are undone, neither for other clients nor after a crash, and do
// what they do on another server otherwise.
func TestExec_undone(t *testing.T) {
	fs := kvtest.NewDisk()
	w, model := serveStore(t, onDisk(fs), nil), serve(t, nil)
	a, other, m := w.client(), w.client(), model.client()
	for _, c := range []*client{a, m} {
		c.answers("CONFIG SET growth-log-bytes 0 => +OK") // what is done in the background is done at different times
	}
	random := rand.New(rand.NewPCG(1, 2))
	commands := []string{
		"SET s%d v%d", "INCR s%d", "DEL s%d b", "BF.RESERVE b 0.01 3 NONSCALING", "BF.MADD b i%d i%d", "CF.RESERVE c 8 BUCKETSIZE 1 EXPANSION 0", "CF.INSERT c ITEMS i%d i%d i%d",
		"CF.DEL c i%d", "CBF.ADD d i%d", "CBF.DEL d i%d", "RENAME c b", "COPY b c REPLACE", "BF.INSERT g CAPACITY 2 ITEMS i%d i%d i%d", "SETBIT bits %d00000 1", "FLUSHALL", "APPEND s%d x",
		"BF.ADD s%d i1", "SET s%d 1 PX 1000000",
	}
	undone, done := 0, 0
	for round := range 150 {
		before := seen(other)
		script := []string{"MULTI", "SIEVE.ONERROR ROLLBACK"}
		for range 1 + random.IntN(5) {
			command := commands[random.IntN(len(commands))]
			for strings.Contains(command, "%d") {
				command = strings.Replace(command, "%d", fmt.Sprint(random.IntN(10)%(1+9*random.IntN(2))), 1)
			}
			script = append(script, command)
		}
		for _, command := range script {
			a.do(command)
		}
		if r := a.do("EXEC"); strings.HasPrefix(r, "-EXECABORT") {
			undone++
			if after := seen(other); after != before {
				t.Fatalf("round %d: %q answered %s and left\n%s\nwant\n%s", round, script, r, after, before)
			}
		} else {
			done++
			for i, command := range script {
				if i != 1 { // the model is told nothing of errors
					m.do(command)
				}
			}
			m.do("EXEC")
		}
		if got, want := withoutTimes(seen(other)), withoutTimes(seen(m)); got != want {
			t.Fatalf("round %d: after %q there is\n%s\nwant\n%s", round, script, got, want)
		}
		if round%30 == 29 {
			crashed := serveStore(t, kv.Options{FS: fs.CrashClone(vfs.CrashCloneCfg{}), BallastSize: -1, MinFreeSpace: -1, Seed: 1}, nil)
			if got, want := withoutTimes(seen(crashed.client())), withoutTimes(seen(other)); got != want {
				t.Fatalf("round %d: after a crash there is\n%s\nwant\n%s", round, got, want)
			}
		}
	}
	if undone < 20 || done < 20 {
		t.Errorf("%d transactions were undone, and %d done: the test tests too little", undone, done)
	}
}

// withoutTimes leaves out how long s0 lives.
func withoutTimes(seen string) string {
	lines := strings.Split(seen, "\n")
	for i, line := range lines {
		if len(line) > 4 && line[0] == ':' {
			lines[i] = "some time"
		}
	}
	return strings.Join(lines, "\n")
}
