package kv_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// randomCommand returns a command on few keys of all types, with values of all sizes.
func randomCommand(random *rand.Rand) string {
	key := func() string { return fmt.Sprint("k", random.IntN(6)) }
	value := func() string {
		switch random.IntN(12) {
		case 0:
			return strings.Repeat("v", 1000+random.IntN(100)) // about as much as can be pending
		case 1:
			return strings.Repeat("w", 40_000)
		case 2, 3, 4:
			return strconv.Itoa(random.IntN(1000))
		}
		return strings.Repeat("x", 1+random.IntN(30))
	}
	switch random.IntN(34) {
	case 0:
		return "SET " + key() + " " + value() + " NX"
	case 1:
		return "SET " + key() + " " + value() + " XX"
	case 2:
		return "SET " + key() + " " + value() + " EX 1000"
	case 3:
		return "SET " + key() + " " + value() + " KEEPTTL"
	case 4:
		return "SET " + key() + " " + value() + " PXAT 1"
	case 5:
		return "SET " + key() + " " + value() + " NX XX"
	case 6, 7:
		return "INCR " + key()
	case 8:
		return "GETSET " + key() + " " + value()
	case 9:
		return "APPEND " + key() + " " + value()
	case 10, 11:
		return "DEL " + key()
	case 12:
		return "RENAME " + key() + " " + key()
	case 13:
		return "COPY " + key() + " " + key() + " REPLACE"
	case 14:
		return "PERSIST " + key()
	case 15:
		return "PEXPIREAT " + key() + " 1"
	case 16:
		return "EXPIRE " + key() + " 1000"
	case 17:
		return "MSET " + key() + " " + value() + " " + key() + " " + value()
	case 18:
		return "BF.ADD " + key() + " " + value()
	case 19:
		return "SETBIT " + key() + " 70000 1"
	case 20:
		return "MGET " + key() + " " + key() + " " + key()
	case 21:
		return "EXISTS " + key() + " " + key()
	case 22:
		return "DBSIZE"
	case 23:
		return "SCAN 0 COUNT 100"
	case 24:
		return "TYPE " + key()
	case 25:
		return "STRLEN " + key()
	case 26:
		return "GETDEL " + key()
	case 27, 28:
		return "GET " + key()
	}
	return "SET " + key() + " " + value()
}

// A store that gathers strings answers as one does that does not, and has the same keys when it is opened again.
func TestGather_stringsLikeDirect(t *testing.T) {
	for _, cached := range []int64{-1, 64 << 10, 1 << 20} {
		t.Run(fmt.Sprint("cache of ", cached), func(t *testing.T) {
			random := rand.New(rand.NewPCG(31, uint64(cached)))
			options := func(fs vfs.FS) *kv.Options {
				return &kv.Options{FS: fs, Durability: kv.NoSync, Seed: 5, StringCacheSize: cached, MemTableSize: 256 << 10}
			}
			disk := kvtest.NewDisk()
			s := openGathering(t, kv.Gathering(options(disk)), newStops())
			direct := openGathering(t, kv.Direct(options(kvtest.NewDisk())), newStops())
			sessions := []*module.Session{module.NewSession(s.DB), module.NewSession(direct.DB)}
			run := func(line string) {
				t.Helper()
				var answers []string
				for _, session := range sessions {
					var words [][]byte
					for word := range strings.FieldsSeq(line) {
						words = append(words, []byte(word))
					}
					answer := session.Do(t.Context(), words).String()
					if strings.HasPrefix(line, "SCAN") { // each store has an order of its own
						keys := slices.DeleteFunc(strings.Fields(answer), func(word string) bool { return !strings.HasPrefix(word, `"k`) })
						slices.Sort(keys)
						answer = strings.Join(keys, " ")
					}
					answers = append(answers, answer)
				}
				if answers[0] != answers[1] {
					t.Fatalf("%.80s: %.80s, without gathering %.80s", line, answers[0], answers[1])
				}
			}
			gathered := false
			for range 6000 {
				level := kv.NoSync
				switch random.IntN(60) {
				case 0:
					level = kv.Always
				case 1:
					level = kv.EverySec
				case 2:
					s.Drain()
				case 3:
					run("FLUSHALL")
				case 4:
					for _, line := range []string{"MULTI", randomCommand(random), randomCommand(random), "EXEC"} {
						run(line)
					}
				}
				for _, session := range sessions {
					session.Durability = level
				}
				run(randomCommand(random))
				gathered = gathered || s.Gathered() > 3
			}
			if !gathered {
				t.Error("no strings were gathered")
			}
			s.wantConsistent()
			direct.wantConsistent()
			run("DBSIZE")
			s.must(s.Sync())
			left := openGathering(t, options(disk.CrashClone(vfs.CrashCloneCfg{})), newStops())
			left.wantConsistent()
			sessions[0] = module.NewSession(left.DB)
			for i := range 6 {
				run(fmt.Sprint("GET k", i))
				run(fmt.Sprint("TYPE k", i))
			}
			run("DBSIZE")
		})
	}
}

// A crash loses the last of the strings that are gathered, and no string before one that it leaves. What a commit
// under Always follows, it does not lose.
func TestGather_stringsCrash(t *testing.T) {
	random := rand.New(rand.NewPCG(33, 34))
	for round := range 20 {
		s := openGatheredCrash(t)
		const each = 30
		put := func(from int, level kv.Durability) {
			t.Helper()
			for i := from; i < from+each; i++ {
				_, err := s.Set(level, fmt.Append(nil, "k", i), fmt.Append(nil, i), kv.SetOptions{})
				s.must(err)
			}
		}
		put(0, kv.NoSync)
		s.wantGathered(each)
		durable := each + 1
		if round%2 == 0 {
			_, err := s.Set(kv.Always, []byte("k30"), []byte("30"), kv.SetOptions{})
			s.must(err)
		} else {
			put(each, kv.NoSync)
			durable = 2 * each
			s.must(s.Sync())
		}
		s.wantGathered(0)
		put(2*each, kv.EverySec)
		if random.IntN(2) == 0 {
			s.Drain()
		}
		put(3*each, kv.NoSync)
		left := openStore(t, &kv.Options{FS: s.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: random})})
		n := 0
		for i := range 4 * each {
			value, err := left.Get(fmt.Append(nil, "k", i))
			if errors.Is(err, kv.ErrNotFound) {
				if i < durable {
					t.Errorf("a crash lost k%d", i)
				}
				continue
			}
			if left.must(err); i >= 2*each && n < durable || string(value) != fmt.Sprint(i) {
				t.Errorf("after a crash k%d is %q, and %d keys before it are there", i, value, n)
			}
			n++
		}
		if size, err := left.Size(); err != nil || size != uint64(n) {
			t.Errorf("after a crash %d keys are counted, %d are there: %v", size, n, err)
		}
		left.wantConsistent()
	}
}

// Whatever commands there were, a crash leaves what was there after one of them: no earlier one than the last that was
// synced.
func TestGather_stringsPrefix(t *testing.T) {
	random := rand.New(rand.NewPCG(35, 36))
	var keys []string
	for i := range 6 {
		keys = append(keys, fmt.Sprint("k", i))
	}
	lost := 0
	for range 2 {
		s := openGatheredCrash(t)
		session := module.NewSession(s.DB)
		states, synced := [][]string{nil}, 0 // what was there after each command
		for range 200 {
			words := strings.Fields(randomCommand(random))
			if random.IntN(100) == 0 {
				words = []string{"FLUSHALL"}
			}
			session.Durability = kv.NoSync
			if random.IntN(30) == 0 {
				session.Durability = kv.Always
			}
			var bytes [][]byte
			for _, word := range words {
				bytes = append(bytes, []byte(word))
			}
			answer := session.Do(t.Context(), bytes)
			states = append(states, s.contentsOf(s.Read, keys...))
			if session.Durability == kv.Always && !answer.IsError() && !slices.Equal(states[len(states)-1], states[len(states)-2]) {
				synced = len(states) - 1
			}
			if random.IntN(20) == 0 {
				s.Drain()
			}
			if random.IntN(15) > 0 {
				continue
			}
			left := openStore(t, &kv.Options{FS: s.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: random})})
			found, n := left.contentsOf(left.Read, keys...), len(states)-1
			for n >= synced && !slices.Equal(found, states[n]) {
				n--
			}
			if n < synced {
				t.Fatalf("a crash left %.300q, which was not there after the last of the commands that was synced, nor later", found)
			}
			lost += len(states) - 1 - n
			left.wantConsistent()
			left.must(left.Close())
		}
	}
	if lost == 0 {
		t.Error("no crash lost a command: nothing was pending")
	}
}

// A string that has no room among those that are pending is committed by itself. The cache of strings knows as much
// as before.
func TestGather_stringsNoRoom(t *testing.T) {
	o := kv.Gathering(inMemory())
	o.MemTableSize, o.StringCacheSize = 256<<10, 4<<20
	s := openGathering(t, o, newStops())
	s.put("first", "v")
	draining, taken := s.holdDrain()
	const keys = 400
	putting := s.begin(func() error {
		for i := range keys {
			if err := setString(s, fmt.Sprint("k", i), fmt.Sprint(i)); err != nil {
				return err
			}
		}
		return nil
	})
	until(func() bool { return s.Gathered() > 100 })
	for range 10_000 {
		runtime.Gosched()
	}
	if n := s.Gathered(); n >= keys {
		t.Errorf("%d strings are gathered: there was room for all", n)
	}
	taken.release()
	draining.wait()
	putting.wait()
	if n := s.hits(func() {
		for i := range keys {
			s.wantValue(fmt.Sprint("k", i), fmt.Sprint(i))
		}
		for i := range keys {
			s.wantMissing(fmt.Sprint("missing", i))
		}
	}); n != 2*keys {
		t.Errorf("%d lookups asked the cache alone, want %d", n, 2*keys)
	}
	s.wantConsistent()
}

// A watch knows of a string that is pending.
func TestGather_stringsWatched(t *testing.T) {
	s := openGathered(t)
	watch := s.NewWatch()
	defer watch.Stop()
	s.must(watch.Add([]byte("k")))
	s.must(setString(s, "k", "v"))
	s.wantGathered(1)
	s.must(s.Read(func(r kv.Reader) error {
		changed, err := watch.Changed(r)
		if err == nil && !changed {
			t.Error("a watch does not know of a string that is gathered")
		}
		return err
	}))
}

// Strings that are not short, or expire, and strings in place of those that do, are not gathered.
func TestGather_stringsNotSmall(t *testing.T) {
	s := openGathered(t)
	at := s.Now() + 1e9
	for _, tt := range []struct {
		name, key string
		value     int
		options   kv.SetOptions
		gathered  bool
	}{
		{"short", "a", 100, kv.SetOptions{}, true},
		{"almost the longest", "b", 1<<10 - 24, kv.SetOptions{}, true},
		{"longer", "c", 1 << 10, kv.SetOptions{}, false},
		{"expires", "d", 1, kv.SetOptions{Expiry: at}, false},
		{"replaces one that expires", "d", 1, kv.SetOptions{}, false},
		{"replaces one that does not", "d", 1, kv.SetOptions{}, true},
		{"replaces a long one", "c", 1, kv.SetOptions{}, true},
	} {
		s.Drain()
		_, err := s.Set(kv.NoSync, []byte(tt.key), make([]byte, tt.value), tt.options)
		s.must(err)
		if n := s.Gathered(); (n == 1) != tt.gathered {
			t.Errorf("%s: %d commits are gathered", tt.name, n)
		}
	}
	newFilter(t, s.DB, "f")
	s.Drain()
	s.must(setString(s, "f", "in place of a filter"))
	s.wantGathered(0)
	s.wantConsistent()
}
