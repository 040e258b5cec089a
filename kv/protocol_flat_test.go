package kv_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// flat is a cuckoo filter with the compatible layout, and where its items may be: the first slots of their buckets.
type flat struct {
	*cuckooext.Filter
	t        *testing.T
	buckets  uint64
	size     uint64 // of a bucket
	searched int
}

const flatBlock = 8192

func (s *store) flat(buckets, size uint64) *flat {
	s.t.Helper()
	f := &flat{Filter: cuckooext.New(s.DB, "f"), t: s.t, buckets: buckets, size: size}
	s.must(f.Reserve(cuckooext.Config{Capacity: buckets * size, BucketSize: int(size), Layout: scalableext.LayoutCompatible}))
	return f
}

func (f *flat) first(item string) uint64 {
	return hash.NewMurmur64A(0).Sum([]byte(item)) % f.buckets * f.size
}

func (f *flat) second(item string) uint64 {
	h := hash.NewMurmur64A(0).Sum([]byte(item))
	return (h ^ fingerprint(item)*0x5bd1e995) % f.buckets * f.size
}

func fingerprint(item string) uint64 { return hash.NewMurmur64A(0).Sum([]byte(item))%255 + 1 }

// item returns an item that no call has returned before.
func (f *flat) item(wanted func(item string) bool) string {
	for {
		f.searched++
		if item := fmt.Sprint("i", f.searched); wanted(item) {
			return item
		}
	}
}

// fill adds items until a bucket is full; they must have room there.
func (f *flat) fill(bucket uint64) (items []string) {
	f.t.Helper()
	for range f.size {
		item := f.item(func(item string) bool { return f.first(item) == bucket && f.second(item) != bucket })
		if _, err := f.Add([]byte(item)); err != nil {
			f.t.Fatal(err)
		}
		items = append(items, item)
	}
	return items
}

// A lookup waits for a commit that is changing any of the blocks that its item may be in: the block of its other
// bucket, of the rest of a bucket, or of an older layer.
func TestFlat_lookupDuringCommit(t *testing.T) {
	for name, scene := range map[string]func(s *store) (f *flat, item string){
		"first bucket": func(s *store) (*flat, string) {
			f := s.flat(1<<15, 1)
			return f, f.item(func(item string) bool { return f.first(item)/flatBlock != f.second(item)/flatBlock })
		},
		"second bucket": func(s *store) (*flat, string) {
			f := s.flat(1<<15, 1)
			item := f.item(func(item string) bool { return f.first(item)/flatBlock != f.second(item)/flatBlock })
			f.fill(f.first(item))
			return f, item
		},
		"rest of the first bucket": func(s *store) (*flat, string) {
			f := s.flat(1<<8, 100)
			item := f.item(func(item string) bool { return f.first(item) == 8100 && f.second(item) >= 2*flatBlock })
			for range 92 { // the slots in front of the next block
				s.must(f.add(f.item(func(other string) bool { return f.first(other) == 8100 && fingerprint(other) != fingerprint(item) })))
			}
			return f, item
		},
		"older layer": func(s *store) (*flat, string) {
			f := s.flat(1<<15, 1)
			item := f.item(func(item string) bool { return f.first(item)/flatBlock != f.second(item)/flatBlock })
			inOlder := f.fill(f.first(item))
			double := f.item(func(item string) bool { return f.first(item) != f.second(item) })
			for range 3 { // the third copy needs a layer
				s.must(f.add(double))
			}
			s.wantLayers("f", 2)
			s.must(f.add(item))
			f.fill(f.second(item))
			_, err := f.Delete([]byte(inOlder[0]))
			s.must(err)
			return f, f.item(func(other string) bool {
				return f.first(other) == f.first(item) && f.second(other)/flatBlock != f.first(item)/flatBlock
			})
		},
	} {
		for _, resident := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, resident %t", name, resident), func(t *testing.T) {
				s := openStore(t, inMemory())
				f, item := scene(s)
				s.forget("f")
				if there, err := f.MayContain([]byte(item)); err != nil || there { // this makes its blocks resident
					t.Fatal(there, err)
				}
				applied, waiting := s.next("commit: applied"), s.next("apply: wanted")
				adding := s.begin(func() error { return f.add(item) })
				adding.reaches(applied)
				if !resident {
					s.forget("f")
				}
				looking := s.begin(func() error {
					there, err := f.MayContain([]byte(item))
					if err == nil && !there {
						err = errors.New("an item is not found after its commit")
					}
					return err
				})
				if resident {
					looking.reaches(waiting)
				}
				waiting.release()
				applied.release()
				adding.wait()
				looking.wait()
				s.wantConsistent()
			})
		}
	}
}

func (f *flat) add(item string) error {
	_, err := f.Add([]byte(item))
	return err
}

// An insert moves an entry from the block that a lookup reads next to the one that it has read. The lookup finds it.
func TestFlat_kickedDuringLookup(t *testing.T) {
	s := openStore(t, inMemory())
	f := s.flat(1<<15, 1)
	item := f.item(func(item string) bool { return f.first(item)/flatBlock != f.second(item)/flatBlock })
	before := f.fill(f.first(item))
	s.must(f.add(item)) // in its second bucket
	_, err := f.Delete([]byte(before[0]))
	s.must(err)
	kicker := f.item(func(other string) bool {
		return f.first(other) == f.second(item) && f.second(other) != f.first(item) && f.second(other) != f.first(other) && fingerprint(other) != fingerprint(item)
	})
	f.fill(f.second(kicker))

	w, err := s.Begin(kv.NoSync, []byte("f"))
	s.must(err)
	added := make([]bool, 1)
	if _, err := f.AddIfAbsentStaged(w, [][]byte{[]byte(kicker)}, added); err != nil || !added[0] {
		t.Fatal(added, err)
	}
	s.forget("f")
	first := s.next("load: begun")
	looking := s.begin(func() error {
		there, err := f.MayContain([]byte(item))
		if err == nil && !there {
			err = errors.New("an entry that moves during a lookup is not found")
		}
		return err
	})
	looking.reaches(first)
	second := s.next("load: begun")
	first.release()
	looking.reaches(second)
	s.must(w.Commit())
	second.release()
	looking.wait()
	s.wantConsistent()
}
