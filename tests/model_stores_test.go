package tests_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/txn"
)

// modelStore is one of the stores beside a model.
type modelStore struct {
	name    string
	options kv.Options // except the modules
	service bool       // it has the compaction module
	crashes bool       // its file system can crash, and every write is on disk before it is answered

	now      *atomic.Int64
	db       *kv.DB
	sessions []*module.Session
	outside  *module.Session // of no session of the model
	commands map[string]*module.Command
	view     *heldView
}

// emptyStore is the disk of a store just made, which takes longer than a sequence of commands.
var emptyStore = sync.OnceValues(func() (*kvtest.Disk, error) {
	disk := kvtest.NewDisk()
	db, err := kv.Open(storeDir, tinyOptions(disk))
	if err != nil {
		return nil, err
	}
	return disk, db.Close()
})

// modelStores are as different as the options allow.
func modelStores(t *rapid.T) []*modelStore {
	empty, err := emptyStore()
	if err != nil {
		t.Fatal(err)
	}
	disk := func() vfs.FS { return empty.CrashClone(vfs.CrashCloneCfg{}) }
	return []*modelStore{
		{name: "tiny", options: kv.Options{
			FS: disk(), CacheSize: 8 << 10, TableCacheSize: 1 << 20, MemTableSize: 256 << 10, Durability: kv.NoSync,
		}},
		{name: "in memory", options: kv.Options{InMemory: true, CacheSize: 32 << 10, Durability: kv.NoSync}},
		{name: "crashing", crashes: true, options: kv.Options{FS: disk(), Durability: kv.Always}},
		{name: "with compaction", service: true, options: kv.Options{
			FS: disk(), CacheSize: 16 << 10, MemTableSize: 1 << 20, Durability: kv.EverySec,
		}},
	}
}

func newModelRun(t *rapid.T) *modelRun {
	r := &modelRun{model: newModel(), stores: modelStores(t), random: t}
	for range modelSessions {
		r.sessions = append(r.sessions, new(modelSession))
	}
	for _, s := range r.stores {
		s.now = new(atomic.Int64)
		s.now.Store(r.model.now)
		s.open(t)
		t.Cleanup(func() {
			if err := s.endView(); err != nil {
				t.Errorf("store %s: View = %v", s.name, err)
			}
			if err := s.db.Close(); err != nil {
				t.Errorf("store %s: Close = %v", s.name, err)
			}
		})
	}
	return r
}

func (s *modelStore) open(t *rapid.T) {
	opts := s.options
	opts.BallastSize, opts.MinFreeSpace, opts.Seed, opts.Logger = -1, -1, modelSeed, slog.New(slog.DiscardHandler)
	// The model of Bloom filters grows by layers; TestModel_growth has logs.
	opts.Modules = coreext.With(bloomext.ModuleWith(bloomext.Options{GrowthLog: -1}), countingext.Module(), cuckooext.Module(), txn.Module())
	if s.service {
		opts.Modules = coreext.Add(opts.Modules, compaction.Module())
	}
	now := s.now
	opts.Clock = func() time.Time { return time.UnixMilli(now.Load()) }
	db, err := kv.Open(storeDir, &opts)
	if err != nil {
		t.Fatalf("store %s: Open = %v", s.name, err)
	}
	s.db, s.outside, s.sessions, s.commands = db, module.NewSession(db), nil, make(map[string]*module.Command)
	for range modelSessions {
		s.sessions = append(s.sessions, module.NewSession(db))
	}
	for _, cmd := range module.Of(db).Commands() {
		s.commands[cmd.Name] = cmd
	}
}

// reopen closes the stores that are on a file system and opens them, one of them after a crash with a share of what
// was not synced.
func (r *modelRun) reopen(t *rapid.T) {
	r.reopenAll(rapid.IntRange(0, 100).Draw(t, "per cent of what is not synced"))
}

func (r *modelRun) reopenAll(unsynced int) {
	t := r.random
	r.endViews()
	for i := range r.sessions {
		r.sessions[i].end()
	}
	for _, s := range r.stores {
		if s.options.InMemory {
			// What it holds would be lost. Its sessions end as the others do.
			for _, session := range s.sessions {
				session.Do(t.Context(), wordsOf([]string{"EXEC", "now"}))
			}
			continue
		}
		var left *kvtest.Disk
		if s.crashes {
			r.model.crash()
			left = s.options.FS.(*kvtest.Disk).CrashClone(vfs.CrashCloneCfg{
				UnsyncedDataPercent: unsynced, RNG: rand.New(rand.NewPCG(uint64(unsynced), 0)),
			})
		}
		if err := s.db.Close(); err != nil {
			t.Fatalf("store %s: Close = %v", s.name, err)
		}
		if left != nil {
			s.options.FS = left
		}
		s.open(t)
	}
}

// maintain has the stores do what a service does in the background, and look after themselves.
func (r *modelRun) maintain(t *rapid.T) {
	ctx := t.Context()
	work := map[string]func(*modelStore) error{
		"fold": func(s *modelStore) error {
			_, err := s.db.Fold(ctx, 1<<20)
			return err
		},
		"reclaim": func(s *modelStore) error {
			more, err := true, error(nil)
			for more && err == nil {
				more, err = s.db.Reclaim(ctx)
			}
			return err
		},
		"sweep":   func(s *modelStore) error { return s.sweep(ctx, len(r.model.keys)) },
		"compact": func(s *modelStore) error { return s.db.CompactTables(ctx) },
		"compact filters": func(s *modelStore) error {
			more, err := true, error(nil)
			for more && err == nil {
				more, err = s.db.CompactQueued(ctx, 4<<10)
			}
			return err
		},
		"check": func(s *modelStore) error { return checkStore(s.db) },
	}
	name := drawOne(t, "check", "compact", "compact filters", "fold", "reclaim", "sweep")
	for _, s := range r.stores {
		if err := work[name](s); err != nil {
			t.Fatalf("store %s: %s: %v", s.name, name, err)
		}
	}
	if name == "sweep" {
		r.model.sweep()
	}
}

// sweep removes every expired key. One that the service is about to remove is waited for.
func (s *modelStore) sweep(ctx context.Context, keys int) error {
	for {
		more, err := s.db.Sweep(ctx)
		if err != nil {
			return err
		}
		n, err := s.db.Size()
		if err != nil || !more && (!s.service || n <= uint64(keys)) {
			return err
		}
	}
}

// heldView is a view that its function keeps open.
type heldView struct {
	snapshot *txntest.Snapshot
	release  chan struct{}
	result   chan error
}

func (s *modelStore) openView() error {
	v := &heldView{release: make(chan struct{}), result: make(chan error, 1)}
	opened := make(chan *txntest.Snapshot)
	go func() {
		v.result <- txntest.View(context.Background(), s.db, func(snap *txntest.Snapshot) error {
			opened <- snap
			<-v.release
			return nil
		})
	}()
	select {
	case v.snapshot = <-opened:
		s.view = v
		return nil
	case err := <-v.result:
		return err
	}
}

// endView ends the view, if one is open.
func (s *modelStore) endView() error {
	if s.view == nil {
		return nil
	}
	close(s.view.release)
	err := <-s.view.result
	s.view = nil
	return err
}
