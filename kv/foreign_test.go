package kv_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// badPlace says where code of somebody else's panics next.
type badPlace struct{ at atomic.Pointer[string] }

func (b *badPlace) here(place string) {
	if at := b.at.Load(); at != nil && *at == place {
		panic("in " + place)
	}
}

type badLog struct {
	slog.Handler
	bad *badPlace
}

func (l badLog) Handle(ctx context.Context, r slog.Record) error {
	l.bad.here("Logger")
	return l.Handler.Handle(ctx, r)
}

func (l badLog) Enabled(context.Context, slog.Level) bool { return true }

func (badLog) WithAttrs([]slog.Attr) slog.Handler { panic("WithAttrs") }

type badVerifier struct{ bad *badPlace }

func (v badVerifier) Block(*kv.Layer, uint64, []uint64) error { v.bad.here("Block"); return nil }

func (v badVerifier) Done() (string, error) { v.bad.here("Done"); return "", nil }

// badModule has a type whose functions may all panic.
func badModule(bad *badPlace) (module.Module, *kv.Type) {
	t := &kv.Type{
		Name: "bad", Version: 1,
		Open:   func(*kv.Object) (any, error) { bad.here("Open"); return "bad", nil },
		Verify: func(*kv.Object) kv.Verifier { bad.here("Verify"); return badVerifier{bad} },
		Compact: func(w *kv.Writer, o *kv.Object, _ int) (bool, error) {
			if _, err := w.SetBits(o, o.Layers()[0], 0, []uint16{9}); err != nil {
				return false, err
			}
			bad.here("Compact")
			return false, nil
		},
		Describe: func(kv.Reader, *kv.Object) (kv.Description, error) {
			bad.here("Describe")
			return kv.Description{}, nil
		},
	}
	return module.Module{Name: "bad", Types: []*kv.Type{t}}, t
}

// A panic of code that is not the store's, wherever it calls that, leaves no lock taken and nothing open: writes of
// every kind go on, and Close, too.
func TestForeign_panics(t *testing.T) {
	var bad badPlace
	own, badType := badModule(&bad)
	s := openStore(t, &kv.Options{
		InMemory: true, Durability: kv.NoSync, Modules: coreext.With(own),
		Clock: func() time.Time { bad.here("Clock"); return time.Now() },
	})
	spec := kv.Spec{Type: badType, Family: block.FamilyBits, Layers: []kv.LayerSpec{{Blocks: 1, Lines: 1}}}
	create := func(key string) error {
		return s.Write(kv.NoSync, [][]byte{[]byte(key)}, func(w *kv.Writer) error {
			o, err := w.Create([]byte(key), spec)
			if err == nil {
				_, err = w.SetBits(o, o.Layers()[0], 0, []uint16{1})
			}
			return err
		})
	}
	s.must(create("o"))
	if _, err := s.Set(kv.NoSync, []byte("large"), make([]byte, 100_000), kv.SetOptions{Expiry: time.Now().Add(time.Hour).UnixMilli()}); err != nil {
		t.Fatal(err)
	}
	session := module.NewSession(s.DB)
	session.Charge = func(int) error { bad.here("Charge"); return nil }
	do := func(words ...string) func() {
		return func() {
			var list [][]byte
			for _, word := range words {
				list = append(list, []byte(word))
			}
			session.Do(context.Background(), list)
		}
	}
	background := context.Background()
	for _, step := range []struct {
		name, at string
		f        func()
	}{
		{"a reply that is counted", "Charge", do("GET", "large")},
		{"replies that are counted", "Charge", do("MGET", "large", "large")},
		{"keys that are counted", "Charge", do("KEYS", "*")},
		{"a scan that is counted", "Charge", do("SCAN", "0")},
		{"a check", "Verify", func() { _, _ = s.Check(background) }},
		{"the check of a block", "Block", func() { _, _ = s.Check(background) }},
		{"the end of a check", "Done", func() { _, _ = s.Check(background) }},
		{"the time of a lookup", "Clock", do("EXISTS", "large")},
		{"the time of a view", "Clock", func() { _, _ = s.NewView(background) }},
		{"the time of a write", "Clock", do("APPEND", "large", "x")},
		{"the time of a transaction", "Clock", func() {
			tx, err := s.BeginExclusive(background, kv.NoSync)
			s.must(err)
			defer tx.Rollback()
			session.Run(background, tx, module.Of(s.DB).Command([]byte("APPEND")), [][]byte{[]byte("large"), []byte("x")})
		}},
		{"a description", "Describe", do("SIEVE.STATS", "o")},
		{"a compaction", "Compact", func() {
			s.QueueCompact([]byte("o"))
			_, _ = s.CompactQueued(background, 1<<20)
		}},
	} {
		bad.at.Store(&step.at)
		s.unfinished(step.name, step.f)
		bad.at.Store(nil)
		if !s.KeyFree("large") || !s.KeyFree("o") || !s.GateFree() || s.ApplyContended() {
			t.Fatalf("after a panic in %s a lock is taken", step.name)
		}
		if _, err := s.CompareResident(); err != nil {
			t.Fatalf("after a panic in %s: %v", step.name, err)
		}
		s.must(s.Rename(kv.NoSync, []byte("o"), []byte("p"))) // holds off everybody
		s.must(s.Rename(kv.NoSync, []byte("p"), []byte("o")))
	}

	// What decodes an object is called in the middle of commits, too.
	at := "Open"
	bad.at.Store(&at)
	s.closeObject("o")
	if _, err := s.TypeOf([]byte("o")); err == nil {
		t.Error("an object whose type cannot open it is there")
	}
	if err := create("q"); err == nil {
		t.Error("an object whose type cannot open it is made")
	}
	bad.at.Store(nil)
	if s.ApplyContended() {
		t.Fatal("after a panic in Open a lock is taken")
	}
	s.each("commit: applied", func() { bad.at.Store(&at) })
	s.must(s.Rename(kv.NoSync, []byte("o"), []byte("p")))
	s.each("commit: applied", func() {})
	bad.at.Store(nil)
	if !s.has("p", 0, 1) {
		t.Error("a bit is gone")
	}
	s.wantConsistent()
}

// A logger that panics keeps no store from failing as it should.
func TestForeign_logger(t *testing.T) {
	var bad badPlace
	at := "Logger"
	bad.at.Store(&at)
	o := eitherWay(&kv.Options{InMemory: true, Logger: slog.New(badLog{slog.DiscardHandler, &bad})})
	db, err := kv.Open("", o)
	if err != nil {
		t.Fatal(err)
	}
	db.Fail(context.Canceled)
	if err := db.DeleteAll(kv.Always); err == nil {
		t.Error("a store that has failed takes writes")
	}
	if err := db.Close(); err == nil {
		t.Error("the failure is not told at the end")
	}
}
