package kv_test

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// Items are numbered; the number's remainder says which kind of Go value an item is to the filter.
const (
	kindBytes = iota
	kindString
	kindUint64
	numKinds
)

// items holds every item there is in each form, so that a lookup makes none.
type items struct {
	bytes   [][]byte
	strings []string
	numbers []uint64
}

func makeItems(n int) *items {
	it := &items{make([][]byte, n), make([]string, n), make([]uint64, n)}
	for i := range n {
		it.numbers[i] = uint64(i) * 0x9e3779b97f4a7c15
		it.bytes[i] = binary.BigEndian.AppendUint64([]byte("item"), it.numbers[i])
		it.strings[i] = fmt.Sprintf("https://example.org/%x", it.numbers[i])
	}
	return it
}

func (it *items) add(f *bloomext.Filter, i int) (err error) {
	switch i % numKinds {
	case kindBytes:
		_, err = f.Add(it.bytes[i])
	case kindString:
		_, err = f.Add([]byte(it.strings[i]))
	default:
		_, err = f.Add(scalableext.Uint64(it.numbers[i]))
	}
	return err
}

// addRange adds the items from start to end, the items of a kind in one commit.
func (it *items) addRange(f *bloomext.Filter, start, end int) error {
	for kind := range numKinds {
		chosen := make([]int, 0, (end-start)/numKinds+1)
		for i := start; i < end; i++ {
			if i%numKinds == kind {
				chosen = append(chosen, i)
			}
		}
		answers := make([]bool, len(chosen))
		var err error
		switch kind {
		case kindBytes:
			_, err = f.AddMany(pick(it.bytes, chosen), answers)
		case kindString:
			_, err = f.AddMany(scalableext.BytesOfAll(pick(it.strings, chosen)), answers)
		default:
			_, err = f.AddMany(scalableext.Uint64s(pick(it.numbers, chosen)...), answers)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stage stages adding the items below n, each as bytes that the lookup of its
// kind asks for, to a filter under the writer's key.
func (it *items) stage(f *bloomext.Filter, w *kv.Writer, n int) error {
	list := make([][]byte, n)
	for i := range list {
		switch i % numKinds {
		case kindBytes:
			list[i] = it.bytes[i]
		case kindString:
			list[i] = []byte(it.strings[i])
		default:
			list[i] = binary.LittleEndian.AppendUint64(nil, it.numbers[i])
		}
	}
	_, err := f.AddStaged(w, list, make([]bool, n))
	return err
}

func (it *items) lookup(f *bloomext.Filter, i int) (bool, error) {
	switch i % numKinds {
	case kindBytes:
		return f.MayContain(it.bytes[i])
	case kindString:
		return f.MayContain([]byte(it.strings[i]))
	default:
		return f.MayContain(scalableext.Uint64(it.numbers[i]))
	}
}

// lookupMany looks the chosen items up, which are all of one kind.
func (it *items) lookupMany(f *bloomext.Filter, chosen []int, present []bool) error {
	switch chosen[0] % numKinds {
	case kindBytes:
		return f.MayContainMany(pick(it.bytes, chosen), present)
	case kindString:
		return f.MayContainMany(scalableext.BytesOfAll(pick(it.strings, chosen)), present)
	default:
		return f.MayContainMany(scalableext.Uint64s(pick(it.numbers, chosen)...), present)
	}
}

func pick[T any](all []T, chosen []int) []T {
	list := make([]T, len(chosen))
	for i, c := range chosen {
		list[i] = all[c]
	}
	return list
}

// subject is a filter that lookups are checked against.
type subject struct {
	key    string
	config bloomext.Config
	limit  int // items it is to have in the end

	// known is the generation, above 32 bits, and the number of items, from 0 up, whose adds have returned. The
	// generation goes up before the filter is deleted, and then the number is 0.
	known atomic.Uint64

	// grow adds items, or replaces the filter by another that has more, until there are n at least.
	grow func(t *trial, s *subject, n int) error
}

func (s *subject) count() (generation uint64, n int) {
	known := s.known.Load()
	return known >> 32, int(known & 0xffffffff)
}

func (s *subject) publish(n int) {
	generation, _ := s.count()
	s.known.Store(generation<<32 | uint64(n))
}

// maxCommit is the most items a commit takes with the smallest memtable: each may be an entry of its own, and a quarter
// of a memtable holds about 240.
const maxCommit = 150

// growByAdding adds one by one, so that blocks collect operands, and in batches.
func growByAdding(t *trial, s *subject, n int) error {
	f := bloomext.New(t.db, s.key).With(t.level())
	_, have := s.count()
	for have < n {
		step := 1
		if have%5 == 0 && have > 100 {
			step = min(n-have, maxCommit)
		}
		err := t.items.add(f, have)
		if step > 1 {
			err = t.items.addRange(f, have, have+step)
		}
		if err != nil {
			return fmt.Errorf("add to %s: %w", s.key, err)
		}
		have += step
		s.publish(have)
	}
	return nil
}

// growByRename builds another filter and renames it over the one there.
func growByRename(t *trial, s *subject, n int) error {
	next := s.key + " next"
	f := bloomext.New(t.db, next).With(kv.NoSync)
	if err := f.Reserve(s.config); err != nil {
		return fmt.Errorf("reserve %s: %w", next, err)
	}
	for start := 0; start < n; start += maxCommit {
		if err := t.items.addRange(f, start, min(n, start+maxCommit)); err != nil {
			return fmt.Errorf("add to %s: %w", next, err)
		}
	}
	if err := t.db.Rename(t.level(), []byte(next), []byte(s.key)); err != nil {
		return fmt.Errorf("rename over %s: %w", s.key, err)
	}
	s.publish(n)
	return nil
}

// growByReplacing deletes, reserves and fills the filter again in one commit.
func growByReplacing(t *trial, s *subject, n int) error {
	w, err := t.db.Begin(t.level(), []byte(s.key))
	if err != nil {
		return err
	}
	f := bloomext.New(t.db, s.key)
	_, err = w.Delete([]byte(s.key))
	if err == nil {
		err = f.ReserveStaged(w, s.config)
	}
	if err == nil {
		err = t.items.stage(f, w, n)
	}
	if err != nil {
		w.Discard()
		return fmt.Errorf("replace %s: %w", s.key, err)
	}
	if err := w.Commit(); err != nil {
		return fmt.Errorf("replace %s: %w", s.key, err)
	}
	s.publish(n)
	return nil
}

// growByDeleting deletes the filter and makes it again.
func growByDeleting(t *trial, s *subject, n int) error {
	generation, _ := s.count()
	s.known.Store((generation + 1) << 32)
	if _, err := t.db.Delete(t.level(), []byte(s.key)); err != nil {
		return fmt.Errorf("delete %s: %w", s.key, err)
	}
	if err := bloomext.New(t.db, s.key).With(kv.NoSync).Reserve(s.config); err != nil {
		return fmt.Errorf("reserve %s: %w", s.key, err)
	}
	return growByAdding(t, s, n)
}
