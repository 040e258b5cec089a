package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/member"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/kv"
)

// noLog is a log for a store that is opened to change its records behind the group's back.
type noLog struct{}

func (noLog) Propose(storage.Proposal) <-chan error { return make(chan error) }

// edit changes records of a member's store that does not run, as Pebble writes them, with valid checksums. Change returns the new
// value of a record, nil to leave it.
func edit(t *testing.T, dir string, change func(key, value []byte, headers map[uint64]*format.Header) []byte) (edited int) {
	t.Helper()
	s, err := storage.Open(dir, storage.Options{
		FS: vfs.Default, MustExist: true, Log: noLog{}, TableCacheSize: 1 << 20, MemTableSize: 2 << 20, BallastSize: -1, MinFreeSpace: -1,
		FreeSpaceInterval: time.Second, Logger: slog.New(slog.DiscardHandler), Failed: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	var b storage.Batch
	headers := make(map[uint64]*format.Header)
	it, err := storage.Disk(s).NewIterWithContext(context.Background(), &storage.IterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		if h, err := format.DecodeHeader(it.Value()); it.Key()[0] == format.TagHeader && err == nil {
			headers[h.ID] = h
		}
		if value := change(it.Key(), it.Value(), headers); value != nil {
			b.Set(slices.Clone(it.Key()), value)
			edited++
		}
	}
	err = errors.Join(it.Error(), it.Close())
	if err == nil && edited > 0 {
		err = s.Group.Write(&b)
	}
	if err == nil {
		_, err = s.Group.SyncStore()
	}
	s.End(func() bool { return false })
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return edited
}

// flipValue changes a string, and notes in which part its key is.
func flipValue(key string, part *uint8) func(k, value []byte, _ map[uint64]*format.Header) []byte {
	return func(k, value []byte, _ map[uint64]*format.Header) []byte {
		if k[0] != format.TagHeader || string(k[format.HeaderKeyPrefix:]) != key {
			return nil
		}
		*part = k[1]
		changed := slices.Clone(value)
		changed[len(changed)-1] ^= 1
		return changed
	}
}

// blockOf decodes a block of an object that has a key.
func blockOf(key, value []byte, headers map[uint64]*format.Header) (words []uint64, h *format.Header) {
	k, err := format.DecodeObjectKey(key)
	if err != nil || k.Part < format.PartLayers || headers[k.Object] == nil {
		return nil, nil
	}
	h = headers[k.Object]
	i := slices.IndexFunc(h.Layers, func(l format.LayerSpec) bool { return l.Number == k.Part-format.PartLayers })
	if i < 0 {
		return nil, nil
	}
	words = make([]uint64, h.Layers[i].Lines*block.LineWords)
	if _, err := block.Decode(words, h.Family, value); err != nil {
		return nil, nil
	}
	return words, h
}

// flipBit changes one bit of a block.
func flipBit(done *bool) func(key, value []byte, headers map[uint64]*format.Header) []byte {
	return func(key, value []byte, headers map[uint64]*format.Header) []byte {
		words, h := blockOf(key, value, headers)
		if words == nil || *done {
			return nil
		}
		*done = true
		words[len(words)/2] ^= 1 << 17
		return block.AppendBlock(nil, h.Family, words)
	}
}

// told reports whether all members have told the digest of the last message that the leader knows of: one that is busy with it leaves
// out the next, and two that differ are no majority.
func (g *trio) told(leader *Node) bool {
	c := &leader.compare
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rounds) == 0 {
		return true
	}
	last := c.rounds[len(c.rounds)-1]
	return !slices.ContainsFunc(g.nodes, func(n *Node) bool {
		if n == nil {
			return false
		}
		_, told := last.sums[n.id]
		return !told
	})
}

// compared has the group compare a part, again and again until something is so.
func (g *trio) compared(what string, part uint8, is func() bool) {
	g.t.Helper()
	last := time.Time{}
	g.await(what, func() bool {
		if is() {
			return true
		}
		for _, n := range g.nodes {
			// What was told may get lost, and so may a message.
			if n != nil && n.Status().Leads && (time.Since(last) > 50*time.Millisecond && g.told(n) || time.Since(last) > 5*time.Second) {
				last = time.Now()
				n.proposeCompare(part)
			}
		}
		return false
	})
}

// agreed returns for how many members equal digests of a part are known.
func (g *trio) agreed(part uint8) (members int) {
	for _, n := range g.nodes {
		if n == nil {
			continue
		}
		n.compare.mu.Lock()
		for _, r := range n.compare.rounds {
			if r.part == part && !r.differ(n.machine.members.Load().state.GetVoters()) {
				members = max(members, len(r.sums))
			}
		}
		n.compare.mu.Unlock()
	}
	return members
}

func comparable(t *testing.T) *trio {
	g := newTrioWith(t, func(_ int, o *Options) { o.CompareEvery = -1 })
	for i, do := range []func(db *sievekv.DB) error{
		func(db *sievekv.DB) error { return db.Set("expires", []byte("soon")) },
		func(db *sievekv.DB) error { _, err := db.Expire("expires", 300*time.Millisecond); return err },
		func(db *sievekv.DB) error {
			return db.Bloom("grows").Reserve(sievekv.Capacity(20, 0.01), nil)
		},
		func(db *sievekv.DB) error {
			return db.Bloom("window").Reserve(sievekv.Window(time.Second, 100, 0.01), &sievekv.BloomConfig{Slices: 4})
		},
		func(db *sievekv.DB) error {
			for j := range 200 {
				if _, err := db.Bloom("grows").Add(fmt.Append(nil, "item", j)); err != nil {
					return err
				}
				if _, err := db.Bloom("window").Add(fmt.Append(nil, "item", j)); err != nil && !errors.Is(err, sievekv.ErrFull) {
					return err
				}
			}
			return nil
		},
	} {
		if err := g.asLeader(func(leader *Node) error {
			err := do(leader.DB)
			if errors.Is(err, kv.ErrExists) { // what was not known to be done was
				return nil
			}
			return err
		}); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	g.writeAll(names("key", 20))
	g.have("key0")
	return g
}

// A member whose disk has another value than the others ends, is the only one, and does not start again. It is replaced.
func TestCompare_differs(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]func(part *uint8) func(key, value []byte, headers map[uint64]*format.Header) []byte{
		"a string": func(part *uint8) func(key, value []byte, headers map[uint64]*format.Header) []byte {
			return flipValue("key7", part)
		},
		"a bit of a filter": func(part *uint8) func(key, value []byte, headers map[uint64]*format.Header) []byte {
			flip := flipBit(new(bool))
			return func(key, value []byte, headers map[uint64]*format.Header) []byte {
				if key[0] == format.TagHeader && string(key[format.HeaderKeyPrefix:]) == "grows" {
					*part = key[1]
				}
				if k, err := format.DecodeObjectKey(key); err != nil || headers[k.Object] == nil || len(headers[k.Object].Layers) < 2 {
					return nil
				}
				return flip(key, value, headers)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := comparable(t)
			i := g.kill(g.follower())
			var part uint8
			if edited := edit(t, g.dirs[i], kind(&part)); edited != 1 {
				t.Fatalf("%d records were changed", edited)
			}
			g.restart(i)
			n := g.nodes[i]
			g.compared("the member has ended", part, func() bool { return n.m.Failed() != nil })
			if err := n.m.Failed(); !errors.Is(err, member.ErrRefused) || !strings.Contains(err.Error(), "differs from what a majority has") {
				t.Errorf("it has ended: %v", err)
			}
			g.await("it says so", func() bool { return n.Status().Alarm != nil })
			if _, err := n.DB.Get("key1"); !errors.Is(err, kv.ErrFailed) {
				t.Errorf("it answers: %v", err)
			}
			g.kill(n)
			g.write("after")
			g.have("after")
			for _, other := range g.nodes {
				if other != nil && other.Status().Alarm != nil {
					t.Errorf("another has an alarm: %v", other.Status().Alarm)
				}
			}
			if _, err := Open(g.dirs[i], options(t, "x", peer(t))); !errors.Is(err, member.ErrRefused) || !strings.Contains(err.Error(), "differs from what a majority has") {
				t.Errorf("it starts again: %v", err)
			}
		})
	}
}

// Folds of one member, expired keys, windows and growth make no difference.
func TestCompare_equal(t *testing.T) {
	t.Parallel()
	g := comparable(t)
	i := g.kill(g.follower())
	parts := map[uint8]bool{0: true}
	folded := 0
	edit(t, g.dirs[i], func(key, value []byte, headers map[uint64]*format.Header) []byte {
		if key[0] == format.TagHeader {
			parts[key[1]] = true
		}
		words, h := blockOf(key, value, headers)
		if words == nil {
			return nil
		}
		if v := block.AppendBlock(nil, h.Family, words); string(v) != string(value) {
			folded++
			return v
		}
		return nil
	})
	if folded == 0 {
		t.Fatal("no block was folded")
	}
	g.restart(i)
	g.write("more")
	for part := range parts {
		g.compared(fmt.Sprintf("part %d is compared", part), part, func() bool { return g.agreed(part) == 3 })
	}
	for _, n := range g.nodes {
		if n.Status().Alarm != nil {
			t.Errorf("an alarm: %v", n.Status().Alarm)
		}
	}
}

// The leader has parts compared by itself, one after the other.
func TestCompare_byItself(t *testing.T) {
	t.Parallel()
	g := newTrioWith(t, func(_ int, o *Options) { o.CompareEvery = 10 * time.Millisecond })
	g.write("key")
	parts := make(map[uint8]bool)
	g.await("parts are compared", func() bool {
		for _, n := range g.nodes {
			n.compare.mu.Lock()
			for _, r := range n.compare.rounds {
				if len(r.sums) == 3 {
					parts[r.part] = true
				}
			}
			n.compare.mu.Unlock()
		}
		return len(parts) > 10
	})
}

// Two members that differ are told, and neither ends. A majority decides as soon as there is one.
func TestCompare_judge(t *testing.T) {
	t.Parallel()
	g := newTrioWith(t, func(_ int, o *Options) { o.CompareEvery = -1 })
	n := g.nodes[0]
	one, other := digest{index: 5, part: 3}, digest{index: 5, part: 3, sum: [32]byte{1}}
	n.note(n.id, one)
	n.note(g.nodes[1].id, other)
	n.compare.mu.Lock()
	n.judge(n.compare.rounds[0], false)
	told := n.compare.rounds[0].told
	n.judge(n.compare.rounds[0], true)
	n.compare.mu.Unlock()
	if told {
		t.Error("it is told before the third has told")
	}
	g.await("an alarm", func() bool { return n.Status().Alarm != nil })
	if n.m.Failed() != nil {
		t.Errorf("it has ended without a majority: %v", n.m.Failed())
	}
	n.note(randomID(), other) // of a member that does not vote
	if n.m.Failed() != nil {
		t.Errorf("it has ended for one that does not vote: %v", n.m.Failed())
	}
	n.note(g.nodes[2].id, other)
	if !errors.Is(n.m.Failed(), member.ErrRefused) {
		t.Errorf("a majority differs: %v", n.m.Failed())
	}
	for _, body := range [][]byte{{2}, one.encode()[:41], append(one.encode(), 0)} {
		if err := n.heard(1, body); err == nil {
			t.Errorf("a digest %x is taken", body)
		}
	}
	g.kill(n)
}

// What members tell each other, byte by byte.
func TestDigest_golden(t *testing.T) {
	d := digest{index: 0x0102, part: 7, sum: [32]byte{0: 0xaa, 31: 0xbb}}
	want := "01" + "0201000000000000" + "07" + "aa" + strings.Repeat("00", 30) + "bb"
	if got := fmt.Sprintf("%x", d.encode()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, err := decodeDigest(d.encode()); err != nil || got != d {
		t.Errorf("%+v %v", got, err)
	}
}
