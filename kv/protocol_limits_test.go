package kv_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
)

// A key above the limit is refused before anything is staged for it, however it is written, also where everything else is
// removed by the same commit: it could never be read, nor removed.
func TestWrite_longKey(t *testing.T) {
	s := openStore(t, inMemory())
	long := bytes.Repeat([]byte("k"), kv.MaxKeyLen+1)
	stage := map[string]func(w *kv.Writer) error{
		"set":    func(w *kv.Writer) error { _, err := w.Set(long, []byte("v"), kv.SetOptions{}); return err },
		"create": func(w *kv.Writer) error { _, err := w.Create(long, bitsSpec()); return err },
		"rename": func(w *kv.Writer) error { return w.Rename([]byte("k"), long) },
		"copy": func(w *kv.Writer) error {
			_, err := w.Copy(t.Context(), []byte("k"), long, false)
			return err
		},
		"delete": func(w *kv.Writer) error { _, err := w.Delete(long); return err },
	}
	for name, f := range stage {
		s.must(setString(s, "k", "v"))
		if err := s.Write(kv.NoSync, [][]byte{[]byte("k"), long}, f); !errors.Is(err, kv.ErrTooLarge) {
			t.Errorf("%s = %v, want ErrTooLarge", name, err)
		}
		err := s.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
			return tx.Write(func(w *kv.Writer) error {
				if name != "rename" && name != "copy" {
					w.DeleteEverything()
				}
				return f(w)
			})
		})
		if !errors.Is(err, kv.ErrTooLarge) {
			t.Errorf("%s in a transaction = %v, want ErrTooLarge", name, err)
		}
		if n, err := s.Size(); n != 1 || err != nil {
			t.Errorf("%s: %d keys, %v, want 1", name, n, err)
		}
	}
	s.wantConsistent()
}

// A commit above the limit is refused as a whole.
func TestCommit_tooLarge(t *testing.T) {
	o := inMemory()
	o.MemTableSize = 256 << 10
	s := openStore(t, o)
	value := make([]byte, 4<<10)
	set := func(n int) error {
		return s.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
			return tx.Write(func(w *kv.Writer) error {
				for i := range n {
					if _, err := w.Set(fmt.Append(nil, i), value, kv.SetOptions{}); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	if err := set(s.MaxCommit() / len(value)); !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("a commit of %d bytes and more = %v, want ErrTooLarge", s.MaxCommit(), err)
	}
	if n, err := s.Size(); n != 0 || err != nil {
		t.Errorf("%d keys of a commit that was refused are there, %v", n, err)
	}
	s.must(set(s.MaxCommit() / len(value) / 2))
	s.wantConsistent()
}

// The number of layers and the bytes of an object are limited when it is made, and when it grows.
func TestCreate_limits(t *testing.T) {
	const layers = format.MaxLayers
	o := inMemory()
	o.MaxFilterBytes = 30 << 20
	s := openStore(t, o)
	small := kv.LayerSpec{Blocks: 1, Lines: 1}
	large := kv.LayerSpec{Blocks: o.MaxFilterBytes/block.Size - 1, Lines: block.MaxLines}
	create := func(key string, list ...kv.LayerSpec) error {
		for i := range list {
			list[i].Number = uint64(i)
		}
		return s.write(key, func(w *kv.Writer, _ *kv.Object) error {
			_, err := w.Create([]byte(key), kv.Spec{Type: bitsType, Family: block.FamilyBits, Layers: list})
			return err
		})
	}
	growBy := func(key string, spec kv.LayerSpec) error {
		return s.write(key, func(w *kv.Writer, o *kv.Object) error {
			_, err := w.Grow(o, spec)
			return err
		})
	}
	many := make([]kv.LayerSpec, layers+1)
	for i := range many {
		many[i] = small
	}
	for name, err := range map[string]error{
		"too many layers": create("no", many...),
		"too many bytes":  create("no", large, large),
	} {
		if !errors.Is(err, kv.ErrTooLarge) {
			t.Errorf("%s: Create = %v, want ErrTooLarge", name, err)
		}
	}
	s.must(create("layers", many[:layers]...))
	if err := growBy("layers", small); !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("one layer too many: Grow = %v, want ErrTooLarge", err)
	}
	s.must(create("bytes", large))
	if err := growBy("bytes", large); !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("too many bytes: Grow = %v, want ErrTooLarge", err)
	}
	s.must(growBy("bytes", small))
	s.wantMissing("no")
	s.wantConsistent()
}

// A lookup of several keys sees all of a commit that moves one string over another, or nothing of it.
func TestRead_renameOfString(t *testing.T) {
	s := openStore(t, inMemory())
	s.must(setString(s, "a", "v"))
	var seen []string
	first := true
	s.must(s.Read(func(r kv.Reader) error {
		seen = nil
		for _, key := range []string{"b", "a"} {
			o, err := r.Lookup([]byte(key))
			if err != nil {
				return err
			}
			if o != nil {
				seen = append(seen, key)
			}
			if first {
				first = false
				if err := s.Rename(kv.NoSync, []byte("a"), []byte("b")); err != nil {
					return err
				}
			}
		}
		return nil
	}))
	if len(seen) != 1 || seen[0] != "b" {
		t.Errorf("a lookup during a rename of a to b sees %q, want b", seen)
	}
}

// A store that has failed refuses every use at once, from memory as well.
func TestFailed_refuses(t *testing.T) {
	s := openStore(t, inMemory())
	s.makeFilter("f", []string{"x"})
	f := bloomext.New(s.DB, "f")
	if ok, err := f.MayContain([]byte("x")); !ok || err != nil { // it is in memory now
		t.Fatal(ok, err)
	}
	o := s.object("f")
	if !s.Ready() {
		t.Error("the store is not ready")
	}
	s.Fail(errors.New("why"))
	if s.Ready() {
		t.Error("a store that has failed is ready: lookups go on in memory")
	}
	for name, err := range map[string]error{
		"Health": s.Health(),
		"Write": s.Write(kv.NoSync, [][]byte{[]byte("k")}, func(*kv.Writer) error {
			t.Error("a change of a store that has failed begins")
			return nil
		}),
		"Attribute": func() error { _, err := s.Attribute(o, "a"); return err }(),
		"Reclaim":   func() error { _, err := s.Reclaim(t.Context()); return err }(),
		"lookup":    func() error { _, err := f.MayContain([]byte("x")); return err }(),
		"Exists":    func() error { _, err := s.Exists([]byte("f")); return err }(),
	} {
		if !errors.Is(err, kv.ErrFailed) {
			t.Errorf("%s = %v, want ErrFailed", name, err)
		}
	}
	if err := s.Close(); !errors.Is(err, kv.ErrFailed) {
		t.Errorf("Close = %v, want ErrFailed", err)
	}
}

// Close waits for a lookup that is under way: Pebble panics when it is used after that.
func TestClose_waitsForLookup(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.set("k", 1, 7)
	s.forget("k")
	begun, waiting := s.next("load: begun"), s.next("close: waiting")
	finding := s.begin(func() error {
		_, err := s.find("k", 1, 7)
		return passOver(err, kv.ErrClosed) // it began before
	})
	finding.reaches(begun)
	closing := s.begin(s.Close)
	closing.reaches(waiting)
	begun.release()
	finding.wait()
	waiting.release()
	closing.wait()
}

// Close ends transactions that are left, and waits for none: nobody may be there to end them.
func TestClose_endsTransactions(t *testing.T) {
	for name, begin := range map[string]func(*store) (*kv.Transaction, error){
		"writer": func(s *store) (*kv.Transaction, error) { return s.BeginExclusive(t.Context(), kv.NoSync) },
		"view":   func(s *store) (*kv.Transaction, error) { return s.NewView(t.Context()) },
	} {
		s := openStore(t, inMemory())
		tx, err := begin(s)
		s.must(err)
		s.each("close: waiting", func() {
			t.Errorf("%s: Close waits for a transaction", name)
			_ = tx.Rollback() // or it would wait for ever
		})
		s.must(s.Close())
		if err := tx.Read(func(kv.Reader) error { return nil }); !errors.Is(err, kv.ErrEnded) {
			t.Errorf("%s: Read after Close = %v, want ErrEnded", name, err)
		}
	}
}

// A lookup that knew an object before it was closed, and brings its block into memory after that, leaves the handle on
// no object that commits do not change: also if all of the object is in a single block.
func TestEvictObject_small(t *testing.T) {
	s := openStore(t, inMemory())
	f := bloomext.New(s.DB, "f")
	s.must(f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 1e-6, NonScaling: true}))
	if n := s.layer("f").Spec().Blocks; n != 1 {
		t.Fatalf("the filter has %d blocks, want 1", n)
	}
	s.closeObject("f")
	begun := s.next("load: begun")
	looking := s.begin(func() error { _, err := f.MayContain([]byte("x")); return err })
	looking.reaches(begun)
	old := s.object("f")
	s.AwaitCache()
	s.EvictObject(old)
	begun.release()
	looking.wait()
	if _, err := bloomext.New(s.DB, "f").Add([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if ok, err := f.MayContain([]byte("x")); !ok || err != nil {
		t.Errorf("an item that was added is there: %t, %v", ok, err)
	}
	s.wantConsistent()
}

// The blocks of an object that was removed are taken out of memory.
func TestEvictObject_removed(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	s.set("k", 1, 7)
	s.has("k", 1, 7)
	s.AwaitCache()
	l := s.layer("k")
	housekeeper := s.next("ended: released")
	<-housekeeper.reached
	_, err := s.Delete(kv.NoSync, []byte("k"))
	s.must(err)
	if l.InMemory(1) == nil {
		t.Error("the blocks are gone at once: a removal takes as long as the object is large")
	}
	s.ReleaseEnded()
	s.AwaitCache()
	if l.InMemory(1) != nil {
		t.Error("a block of an object that was removed is in memory")
	}
	housekeeper.release()
}

// The blocks of an object that another one has taken over, as it grew or got another key, stay in memory when what is left of
// the first is closed.
func TestEvictObject_handedOver(t *testing.T) {
	for name, change := range map[string]func(s *store) (key string){
		"grown":   func(s *store) string { s.must(s.write("k", grow)); return "k" },
		"renamed": func(s *store) string { s.must(s.Rename(kv.NoSync, []byte("k"), []byte("l"))); return "l" },
	} {
		kept := false
		for range 20 { // the cache may let the object go at any time, now and then
			s := openStore(t, inMemory())
			s.createSlots("k")
			s.must(s.putSlot("k", 0, 1, 5, 7))
			s.wantSlot(s.Read, "k", 0, 1, 5, 7)
			old := s.object("k")
			key := change(s)
			if s.object(key) == old {
				t.Fatalf("%s: the object is the same", name)
			}
			s.ReleaseEnded()
			kept = s.layer(key).InMemory(1) != nil
			s.wantConsistent()
			if kept {
				break
			}
		}
		if !kept {
			t.Errorf("%s: blocks are taken out of memory with what was left of the object before", name)
		}
	}
}

// A log has no table of its blocks, because they are not kept in memory; and a layer that is too large is refused
// before its table is made.
func TestGrow_tables(t *testing.T) {
	o := inMemory()
	s := openStore(t, o)
	const blocks, most = format.MaxBlocks, 16 << 20 // a table for this number takes 128 MiB
	logged := bitsSpec()
	logged.Layers = []kv.LayerSpec{{Layout: kv.LayoutLog, Blocks: blocks, Lines: block.MaxLines}, {Number: 1, Blocks: 1, Lines: 1}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.must(s.write("log", func(w *kv.Writer, _ *kv.Object) error {
		created, err := w.Create([]byte("log"), logged)
		if err != nil {
			return err
		}
		return w.AddWords(created, created.Layers()[0], blocks*block.MaxWords-2, []uint64{7, 8})
	}))
	s.must(s.Read(func(r kv.Reader) error {
		found, err := r.Lookup([]byte("log"))
		if err != nil {
			return err
		}
		log := found.Layers()[0]
		first, err := r.Load(found, log, blocks-1)
		if words := log.Words(first); err == nil && words[block.MaxWords-1] != 8 {
			t.Errorf("the last word of a log is %d", words[block.MaxWords-1])
		}
		return err
	}))
	if n := s.OpenBytes(); n > most {
		t.Errorf("a filter with a log counts for %d bytes in memory", n)
	}
	err := s.write("log", func(w *kv.Writer, found *kv.Object) error {
		_, err := w.Grow(found, kv.LayerSpec{Blocks: blocks, Lines: block.MaxLines})
		return err
	})
	if !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("Grow = %v, want ErrTooLarge", err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > most {
		t.Errorf("%d bytes were allocated, want at most %d", after.TotalAlloc-before.TotalAlloc, most)
	}
}
