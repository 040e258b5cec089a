package forge

import (
	"context"
	"errors"
	"log/slog"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/kv"
)

// Stored changes what the store has on disk of the key "f": its header and its counters. Everything around them stays right.
// From then on answers may say that this is damaged.
func (f *Forger) Stored(s *Store) {
	s.t.Helper()
	s.Close()
	store, err := storage.Open("store", storage.Options{FS: s.fs, TableCacheSize: 1 << 20, MemTableSize: 1 << 20, Seed: 1, Logger: slog.Default()})
	if err != nil {
		s.t.Fatal(err)
	}
	f.stored(s, store)
	store.End(func() bool { return false })
	if err := store.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.damaged = true
	s.open()
}

func (f *Forger) stored(s *Store, store *storage.Store) {
	s.t.Helper()
	must := func(err error) {
		if err != nil {
			s.t.Helper()
			s.t.Fatal(err)
		}
	}
	get := func(key []byte) []byte {
		value, closer, err := store.Get(key)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		must(err)
		defer closer.Close()
		return append([]byte{}, value...)
	}
	keys, err := storage.FirstKeys(context.Background(), store, []byte{format.TagHeader}, []byte{format.TagHeader + 1}, 100)
	must(err)
	for _, at := range keys {
		if _, key, err := format.DecodeHeaderKey(at); err != nil || string(key) != "f" {
			continue
		}
		h, err := format.DecodeHeader(get(at))
		must(err)
		counters := make(Counters, len(h.Layers))
		for i, l := range h.Layers {
			if value := get(format.AppendCountersKey(nil, h.ID, l.Number)); value != nil {
				counters[i], err = format.DecodeCounters(value)
				must(err)
			}
		}
		h, counters = f.Header(h, counters)
		var b storage.Batch
		b.Set(at, format.AppendHeader(nil, h))
		for i, l := range h.Layers {
			b.Set(format.AppendCountersKey(nil, h.ID, l.Number), format.AppendCounters(nil, counters[i]))
		}
		_, err = store.Commit(&b, storage.Now)
		must(err)
	}
}

// Remake makes a subject in a store that has it no longer.
func (s *Store) Remake(subject Subject) {
	s.t.Helper()
	s.damaged = false
	for _, words := range subject.words {
		if r := s.Do(words...); r.IsError() {
			s.t.Fatalf("%s: %.80q: %s", subject.Name, words, r.Bytes())
		}
	}
}

// refused reports whether an error says that something is damaged, or of another version, and may do so.
func (s *Store) refused(err error) bool {
	return s.damaged && (errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrUnsupportedVersion))
}
