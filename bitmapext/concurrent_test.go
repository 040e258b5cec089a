package bitmapext_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bitmapext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// far is the number of a bit in another block, of another layer, than bit 0.
const far = 8 * 8192

// setBits makes a commit for each bit.
func setBits(t *testing.T, db *kv.DB, key string, on bool, numbers ...uint64) {
	t.Helper()
	for _, n := range numbers {
		err := db.Write(kv.NoSync, [][]byte{[]byte(key)}, func(w *kv.Writer) error {
			_, err := bitmapext.SetBit(t.Context(), w, []byte(key), n, on)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// meanwhile makes a change again and again until the test ends.
func meanwhile(t *testing.T, change func()) {
	stop := make(chan struct{})
	var changes sync.WaitGroup
	changes.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				change()
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		changes.Wait()
	})
}

// A lookup that reads several blocks sees them as of one commit, though single bits change meanwhile.
func TestLook_bitsMeanwhile(t *testing.T) {
	db := open(t, vfs.NewMem())
	setBits(t, db, "k", true, far)
	times, first, second := 0, uint64(0), uint64(0)
	err := db.Read(func(r kv.Reader) error {
		return bitmapext.Look(r, []byte("k"), func(s *bitmapext.String) (err error) {
			if first, err = s.Count(0, 1); err != nil {
				return err
			}
			if times++; times == 1 { // one of the two bits at least is always set
				setBits(t, db, "k", true, 0)
				setBits(t, db, "k", false, far)
			}
			second, err = s.Count(far, far+1)
			return err
		})
	})
	if err != nil || first+second != 1 || times < 2 {
		t.Errorf("bit 0 is %d and bit %d is %d, read %d times: %v", first, far, second, times, err)
	}
}

// A lookup sees the length of one commit.
func TestLook_lengthMeanwhile(t *testing.T) {
	db := open(t, vfs.NewMem())
	setBits(t, db, "k", true, far)
	times, first, second := 0, uint64(0), uint64(0)
	err := db.Read(func(r kv.Reader) error {
		return bitmapext.Look(r, []byte("k"), func(s *bitmapext.String) error {
			first = s.Len()
			if times++; times == 1 {
				setBits(t, db, "k", false, 2*far)
			}
			second = s.Len()
			return nil
		})
	})
	if err != nil || first != second || first != 2*far/8+1 {
		t.Errorf("length %d, then %d: %v", first, second, err)
	}
}

// A lookup whose string is replaced meanwhile is repeated.
func TestLook_replacedMeanwhile(t *testing.T) {
	db := open(t, vfs.NewMem())
	setBits(t, db, "k", true, 0, far)
	times, n := 0, uint64(0)
	err := db.Read(func(r kv.Reader) error {
		return bitmapext.Look(r, []byte("k"), func(s *bitmapext.String) (err error) {
			if times++; times == 1 {
				if _, err := db.Delete(kv.NoSync, []byte("k")); err != nil {
					t.Error(err)
				}
				setBits(t, db, "k", true, 1, 2, far)
			}
			n, err = s.Count(0, far+1)
			return err
		})
	})
	if err != nil || n != 3 || times < 2 {
		t.Errorf("%d bits, read %d times: %v", n, times, err)
	}
}

// Every command, and every call of the store, sees the strings as of one commit while others change one bit at a time.
func TestCommands_bitsMeanwhile(t *testing.T) {
	db := open(t, vfs.NewMem())
	setBits(t, db, "k", true, 0, far)
	setBits(t, db, "other", true, 0, far)
	meanwhile(t, func() { // k has one of two bits at least, and all of the other's
		for _, n := range []uint64{far, 0} {
			setBits(t, db, "other", false, n)
			setBits(t, db, "k", false, n)
			setBits(t, db, "k", true, n)
			setBits(t, db, "other", true, n)
		}
	})
	s := module.NewSession(db)
	rounds := 30
	if raceEnabled {
		rounds = 3
	}
	for range rounds {
		some := func(value []byte) bool { return len(bytes.Trim(value, "\x00")) > 0 }
		if r := s.Do(t.Context(), words("BITCOUNT k")); r.Int() < 1 {
			t.Fatalf("BITCOUNT answers %v", r)
		}
		if r := s.Do(t.Context(), words("BITPOS k 1")); r.Int() < 0 {
			t.Fatalf("BITPOS answers %v", r)
		}
		if r := s.Do(t.Context(), words("GET k")); !some(r.Bytes()) {
			t.Fatal("GET answers with bits of several commits")
		}
		if r := s.Do(t.Context(), words("GETRANGE k 0 -1")); !some(r.Bytes()) {
			t.Fatal("GETRANGE answers with bits of several commits")
		}
		if r := s.Do(t.Context(), words(fmt.Sprint("BITFIELD_RO k GET u1 0 GET u1 ", far))); r.Elems()[0].Int()+r.Elems()[1].Int() < 1 {
			t.Fatalf("BITFIELD_RO answers %v", r)
		}
		if r := s.Do(t.Context(), words("SIEVE.BITCOUNTOP DIFF other k")); r.Int() != 0 || r.IsError() {
			t.Fatalf("SIEVE.BITCOUNTOP answers %v", r)
		}
		value, err := db.Get([]byte("k"))
		if err != nil || !some(value) {
			t.Fatal("Get returns bits of several commits", err)
		}
		values, err := db.MGet([]byte("k"), []byte("other"))
		if err != nil || !covers(values[0], values[1]) {
			t.Fatal("MGet returns bits of several commits", err)
		}
		if r := s.Do(t.Context(), words("MGET k other")); !covers(r.Elems()[0].Bytes(), r.Elems()[1].Bytes()) {
			t.Fatal("MGET answers with bits of several commits")
		}
	}
}

// SIEVE.BITCOUNTOP sees all of its keys as of one commit. The missing keys in the middle make it take longer.
func TestBitCountOp_bitsMeanwhile(t *testing.T) {
	db := open(t, vfs.NewMem())
	meanwhile(t, func() { // last has the bit whenever first has it
		setBits(t, db, "last", true, 0)
		setBits(t, db, "first", true, 0)
		setBits(t, db, "first", false, 0)
		setBits(t, db, "last", false, 0)
	})
	s := module.NewSession(db)
	line := words("SIEVE.BITCOUNTOP DIFF first " + strings.Repeat("missing ", 300) + "last")
	for range 200 {
		if r := s.Do(t.Context(), line); r.Int() != 0 || r.IsError() {
			t.Fatalf("SIEVE.BITCOUNTOP answers %v", r)
		}
	}
}

// A lookup of many blocks that is repeated keeps no commit waiting: it ends in a snapshot. Commits to other keys do not repeat it.
func TestLook_longAndRepeated(t *testing.T) {
	o := options(vfs.NewMem())
	o.CacheSize = 64 << 20 // the string stays open
	db, err := kv.Open("bitmaps", o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	const blocks = 600
	for blk := range uint64(blocks) {
		setBits(t, db, "k", true, blk*far)
	}
	for key, c := range map[string]struct {
		times    int
		snapshot bool
	}{"k": {3, true}, "other": {1, false}} {
		times, snapshot := 0, false
		err := db.Read(func(r kv.Reader) error {
			times, snapshot = times+1, !r.Remembers()
			return bitmapext.Look(r, []byte("k"), func(s *bitmapext.String) error {
				for blk := range uint64(blocks) {
					if on, err := s.Count(blk*far, blk*far+1); on != 1 || err != nil {
						t.Fatal(on, err)
					}
				}
				if !snapshot {
					setBits(t, db, key, true, uint64(times)) // in the first block
				}
				return nil
			})
		})
		if err != nil || times != c.times || snapshot != c.snapshot {
			t.Errorf("with commits to %q a lookup ran %d times, the last one in a snapshot: %t; %v", key, times, snapshot, err)
		}
	}
}

// A combination is of one commit, so a lookup that may see several is refused, and DB.Read runs it again.
func TestCountOf_live(t *testing.T) {
	db := open(t, vfs.NewMem())
	setBits(t, db, "k", true, 0, far)
	times, fixed := 0, false
	var n uint64
	err := db.Read(func(r kv.Reader) (err error) {
		times, fixed = times+1, !r.Remembers()
		n, err = bitmapext.CountOf(t.Context(), r, bitmapext.Or, []byte("k"))
		return err
	})
	if err != nil || n != 2 || times != 2 || !fixed {
		t.Errorf("%d bits, read %d times, as of one commit %v: %v", n, times, fixed, err)
	}
}

// covers reports whether a has all bits of b.
func covers(a, b []byte) bool {
	for i := range b {
		if b[i]&^a[i] != 0 {
			return false
		}
	}
	return true
}

// Lookups and snapshots beside commits that change bytes in several blocks, the form of a string, its length, and what
// is under its key, see each commit whole. The cache is so small that blocks and strings are evicted all the time.
func TestStrings_whole(t *testing.T) {
	o := options(vfs.NewMem())
	o.CacheSize, o.MemTableSize = 64<<10, 256<<10
	db, err := kv.Open("bitmaps", o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rounds := 300
	if raceEnabled {
		rounds = 60
	}
	// After each commit, all bytes of the string are equal, and every key has the same string.
	keys := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
	write := func(random *rand.Rand) error {
		n := []int{1, 100, 1024, 1025, 8192, 8193, 20_000}[random.IntN(7)]
		value := bytes.Repeat([]byte{byte(random.Uint32())}, n)
		how := random.IntN(3)
		return db.Write(kv.NoSync, keys, func(w *kv.Writer) error {
			for _, key := range keys {
				old, err := w.Get(key)
				if err != nil {
					return err
				}
				switch {
				case how == 0 || len(old) > n:
					_, err = w.Set(key, value, kv.SetOptions{})
				case how == 1:
					_, err = bitmapext.SetRange(t.Context(), w, key, 0, value)
				default:
					if _, err = bitmapext.SetRange(t.Context(), w, key, 0, value[:len(old)]); err == nil {
						_, err = bitmapext.Append(t.Context(), w, key, value[len(old):])
					}
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := write(rand.New(rand.NewPCG(0, 0))); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	reader := func(look func(random *rand.Rand) error) {
		for seed := range uint64(1) {
			readers.Go(func() {
				random := rand.New(rand.NewPCG(seed, 1))
				for {
					select {
					case <-stop:
						return
					default:
						if err := look(random); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
	}
	even := func(value []byte) bool { return len(value) > 0 && len(bytes.Trim(value, string(value[:1]))) == 0 }
	whole := func(values ...[]byte) error {
		for _, value := range values {
			if len(value) == 0 || bytes.Count(value, value[:1]) != len(value) || !bytes.Equal(value, values[0]) {
				return fmt.Errorf("half of a commit: %d and %d bytes, even %v", len(value), len(values[0]), even(value))
			}
		}
		return nil
	}
	reader(func(random *rand.Rand) error {
		value, err := db.Get(keys[random.IntN(3)])
		if err != nil {
			return err
		}
		return whole(value)
	})
	reader(func(*rand.Rand) error {
		values, err := db.MGet(keys...)
		if err != nil {
			return err
		}
		return whole(values...)
	})
	reader(func(random *rand.Rand) error {
		return db.Read(func(r kv.Reader) error {
			var n, first, set uint64
			err := bitmapext.Look(r, keys[random.IntN(3)], func(s *bitmapext.String) (err error) {
				n = s.Len()
				if first, err = s.Count(0, 8); err == nil {
					set, err = s.Count(0, 8*n)
				}
				return err
			})
			if err == nil && set != n*first {
				err = errTorn // counts when Read ends
			}
			return err
		})
	})
	reader(func(random *rand.Rand) error {
		return db.View(t.Context(), func(tx *kv.Transaction) error {
			return tx.Read(func(r kv.Reader) error {
				var values [3][]byte
				for i, key := range keys {
					if err := bitmapext.Look(r, key, func(s *bitmapext.String) (err error) {
						values[i], err = s.Bytes()
						return err
					}); err != nil {
						return err
					}
				}
				return whole(values[:]...)
			})
		})
	})
	random := rand.New(rand.NewPCG(1, 1))
	for range rounds {
		if err := write(random); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	readers.Wait()
	report, err := db.Check(t.Context())
	if err != nil || len(report.Problems) > 0 {
		t.Error(err, report.Problems)
	}
}

var errTorn = fmt.Errorf("a lookup has seen half of a commit")

// bytesMeanwhile returns how often all bytes of a string are read when meanwhile is called between two of its blocks.
func bytesMeanwhile(t *testing.T, db *kv.DB, meanwhile func()) (times int) {
	t.Helper()
	setBits(t, db, "k", true, 0, far)
	err := db.Read(func(r kv.Reader) error {
		_, o, err := r.String([]byte("k"))
		if times++; o == nil || err != nil {
			return err
		}
		x := &bitmapext.Loads{Reader: r, Before: func(n int) {
			if n == 2 && times == 1 {
				meanwhile()
			}
		}}
		_, err = bitmapext.InBlocksBy(x, o).Bytes()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return times
}

// The first block has been read when a bit of it or of the second one is cleared.
func TestBytes_bitsMeanwhile(t *testing.T) {
	for n, want := range map[uint64]int{0: 2, far: 1} {
		db := open(t, vfs.NewMem())
		if times := bytesMeanwhile(t, db, func() { setBits(t, db, "k", false, n) }); times != want {
			t.Errorf("bit %d cleared meanwhile: read %d times, want %d", n, times, want)
		}
	}
	db := open(t, vfs.NewMem())
	if times := bytesMeanwhile(t, db, func() { setBits(t, db, "other", true, 0) }); times != 1 {
		t.Errorf("another string changed meanwhile: read %d times", times)
	}
}

func TestBytes_closedMeanwhile(t *testing.T) {
	db := open(t, vfs.NewMem())
	times := bytesMeanwhile(t, db, func() {
		if _, err := db.Delete(kv.NoSync, []byte("k")); err != nil {
			t.Error(err)
		}
	})
	if times != 2 {
		t.Errorf("read %d times, want 2", times)
	}
}

// Lookups of a string with a bit far away leave out blocks that were never written.
func TestLook_sparse(t *testing.T) {
	db := open(t, vfs.NewMem())
	const bit = 60_000 * far
	setBits(t, db, "k", true, bit)
	for what, look := range map[string]func(s *bitmapext.String) (uint64, error){
		"Count": func(s *bitmapext.String) (uint64, error) { n, err := s.Count(0, bit+1); return n * bit, err },
		"Find":  func(s *bitmapext.String) (uint64, error) { n, _, err := s.Find(true, 0, bit+1); return n, err },
	} {
		err := db.Read(func(r kv.Reader) error {
			_, o, err := r.String([]byte("k"))
			if err != nil {
				return err
			}
			x := &bitmapext.Loads{Reader: r}
			n, err := look(bitmapext.InBlocksBy(x, o))
			if n != bit || x.N > 64+128 || x.Counters > 2000 {
				t.Errorf("%s reads %d blocks and %d counters, and returns %d", what, x.N, x.Counters, n)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
