package history

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sievekv/sievekv/cuckooext"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

// Every store a test opens it closes: no goroutine may be left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openStore opens a store and closes it at the end of the test.
func openStore(t *testing.T, seed uint64) *kv.DB {
	t.Helper()
	db, err := Open(seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestHistories(t *testing.T) {
	histories, operations := 30, 500
	if raceEnabled {
		histories = 8
	}
	seed := uint64(time.Now().UnixNano())
	for store := range uint64(len(caches)) {
		db := openStore(t, store+9*(store%2)) // the second has the compatible layout
		for n := range uint64(histories / len(caches)) {
			recorded, err := Record(t.Context(), db, seed+n, operations)
			if err != nil {
				t.Fatalf("seed %d, store %d: %v", seed+n, store, err)
			}
			if len(recorded) < operations {
				t.Errorf("%d operations recorded, want %d", len(recorded), operations)
			}
			if err := Check(recorded); err != nil {
				t.Errorf("seed %d, store %d: %v", seed+n, store, err)
			}
		}
		seed += uint64(histories)
	}
}

// Half of the stores have the compatible layout: there, cuckoo filters have it that commands make, and those that handles
// make, and more copies of an item than fit into a layer make another.
func TestOpen_layouts(t *testing.T) {
	for seed, want := range map[uint64]scalableext.Layout{0: scalableext.LayoutNative, 9: scalableext.LayoutCompatible} {
		db := openStore(t, seed)
		typ := typesOf(db)[2]
		c := Command{Type: typ, Name: "CF.RESERVE", Args: []string{"4"}}
		if r, _ := typ.Handle(db, "a").Do(c, kv.NoSync, nil); r != ok {
			t.Fatal(r)
		}
		s := module.NewSession(db)
		do := func(words ...string) string {
			var line [][]byte
			for _, word := range words {
				line = append(line, []byte(word))
			}
			return textOf(s.Do(t.Context(), line))
		}
		if r := do(typ.Words(c, "b")...); r != ok {
			t.Fatal(r)
		}
		for _, key := range []string{"a", "b"} {
			for range mostCopies {
				do("CF.ADD", key, "x")
			}
			layers := map[scalableext.Layout]int{scalableext.LayoutNative: 1, scalableext.LayoutCompatible: 2}[want]
			info, err := cuckooext.New(db, key).Info()
			if err != nil || info.Layout != want || len(info.Layers) != layers {
				t.Errorf("seed %d, %s: %+v, %v", seed, key, info, err)
			}
		}
	}
}

// What the operations of a history below are made of.
var (
	filter = Types[0]
	insert = func(items ...string) Command {
		return Command{Type: filter, Name: "BF.INSERT", Keys: []int{0}, Args: append([]string{"4"}, items...)}
	}
	exists = func(item string) Command {
		return Command{Type: filter, Name: "BF.EXISTS", Keys: []int{0}, Args: []string{item}}
	}
	lookup = func(items ...string) Command {
		return Command{Type: filter, Name: "BF.MEXISTS", Keys: []int{0}, Args: items}
	}
	onCuckoo = func(name string, args ...string) Command {
		return Command{Type: cuckoo{}, Name: name, Keys: []int{0}, Args: args}
	}
	onCounting = func(name string, args ...string) Command {
		return Command{Type: counting{}, Name: name, Keys: []int{0}, Args: args}
	}
	fifteen = slices.Repeat([]string{"7"}, 15)
	counted = at(5, 1, 2, Update, onCounting("CBF.INSERT", append([]string{"4"}, fifteen...)...),
		"[1"+strings.Repeat(" 0", 14)+"]")
	reserved = at(5, 1, 2, Plain, onCuckoo("CF.RESERVE", "4"), ok)
	set      = Command{Type: text{}, Name: "SET", Keys: []int{2}, Args: []string{"row"}}
	get      = Command{Type: text{}, Name: "GET", Keys: []int{2}}
	watch0   = Command{Name: "WATCH", Keys: []int{0}}
	renames  = Command{Name: "RENAME", Keys: []int{0, 1}}
)

// at returns an operation of a client from one moment to another; commands and replies take turns.
func at(client int, from, to int64, kind Kind, commandsAndReplies ...any) *Operation {
	op := &Operation{Client: client, Kind: kind, Call: from, Return: to}
	for _, x := range commandsAndReplies {
		switch x := x.(type) {
		case Command:
			op.Commands = append(op.Commands, x)
		case string:
			op.Replies = append(op.Replies, x)
		}
	}
	return op
}

// aborted is an EXEC that answered nil.
func aborted(op *Operation) *Operation {
	op.Nil = true
	return op
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name    string
		right   bool
		history []*Operation
	}{
		{"found after it was added", true, []*Operation{
			at(0, 1, 2, Plain, insert("7"), "[1]"), at(1, 3, 4, Plain, exists("7"), "1"),
		}},
		{"a false negative", false, []*Operation{
			at(0, 1, 2, Plain, insert("7"), "[1]"), at(1, 3, 4, Plain, exists("7"), "0"),
		}},
		{"absent while it is added", true, []*Operation{
			at(0, 1, 4, Plain, insert("7"), "[1]"), at(1, 2, 3, Plain, exists("7"), "0"),
		}},
		{"found, and then not", false, []*Operation{
			at(0, 1, 6, Plain, insert("7"), "[1]"), at(1, 2, 3, Plain, exists("7"), "1"), at(1, 4, 5, Plain, exists("7"), "0"),
		}},
		{"a false positive", false, []*Operation{at(0, 1, 2, Plain, exists("7"), "1")}},
		{"new twice", false, []*Operation{
			at(0, 1, 4, Plain, insert("7"), "[1]"), at(1, 2, 3, Plain, insert("7"), "[1]"),
		}},
		{"a batch item by item", true, []*Operation{
			at(0, 1, 8, Plain, insert("7", "8"), "[1 1]"),
			at(1, 2, 3, Plain, exists("7"), "1"), at(1, 4, 5, Plain, exists("8"), "0"),
			at(1, 6, 7, Plain, lookup("7", "8"), "[1 1]"),
		}},
		{"a batch with a RENAME in the middle", false, []*Operation{
			at(0, 1, 10, Plain, insert("7", "8"), "[1 1]"),
			at(1, 2, 3, Plain, exists("7"), "1"), at(2, 4, 5, Plain, renames, ok),
			at(1, 6, 7, Plain, exists("7"), "0"), at(1, 8, 9, Plain, exists("8"), "1"),
		}},
		{"half a transaction of one filter", false, []*Operation{
			at(0, 1, 6, Update, insert("7"), "[1]", insert("8"), "[1]"),
			at(1, 2, 3, Plain, exists("7"), "1"), at(1, 4, 5, Plain, exists("8"), "0"),
		}},
		{"a row without its item", false, []*Operation{
			at(0, 1, 6, Update, insert("7"), "[1]", set, ok),
			at(1, 2, 3, Plain, get, "row"), at(1, 4, 5, Plain, exists("7"), "0"),
		}},
		{"a row without its item in a view", false, []*Operation{
			at(0, 1, 4, Update, insert("7"), "[1]", set, ok), at(1, 2, 3, View, get, "row", exists("7"), "0"),
		}},
		{"a view from before", true, []*Operation{
			at(0, 1, 4, Update, insert("7"), "[1]", set, ok), at(1, 2, 3, View, get, none, exists("7"), "0"),
		}},
		{"an old view", false, []*Operation{
			at(0, 1, 2, Update, insert("7"), "[1]", set, ok), at(1, 3, 4, View, get, none, exists("7"), "0"),
		}},
		{"a transaction rolled back", true, []*Operation{
			at(0, 1, 2, Rollback, insert("7"), "[1]", set, ok), at(1, 3, 4, Plain, get, none),
		}},
		{"a transaction rolled back is there", false, []*Operation{
			at(0, 1, 2, Rollback, insert("7"), "[1]", set, ok), at(1, 3, 4, Plain, get, "row"),
		}},
		{"EXEC after a change", false, []*Operation{
			at(0, 1, 2, Watch, watch0), at(1, 3, 4, Plain, insert("7"), "[1]"), at(0, 5, 6, Exec, set, ok),
		}},
		{"EXEC nil after a change", true, []*Operation{
			at(0, 1, 2, Watch, watch0), at(1, 3, 4, Plain, insert("7"), "[1]"), aborted(at(0, 5, 6, Exec, set)),
			at(0, 7, 8, Plain, get, none),
		}},
		{"a copy left", true, []*Operation{
			reserved, at(0, 3, 4, Plain, onCuckoo("CF.INSERT", "7"), "[1]"), at(0, 5, 6, Plain, onCuckoo("CF.INSERT", "7"), "[1]"),
			at(0, 7, 8, Plain, onCuckoo("CF.DEL", "7"), "1"), at(1, 9, 10, Plain, onCuckoo("CF.COUNT", "7"), "1"),
		}},
		{"found after it was deleted", false, []*Operation{
			reserved, at(0, 3, 4, Plain, onCuckoo("CF.INSERT", "7"), "[1]"), at(0, 5, 6, Plain, onCuckoo("CF.DEL", "7"), "1"),
			at(1, 7, 8, Plain, onCuckoo("CF.EXISTS", "7"), "1"),
		}},
		{"lost while another is deleted", false, []*Operation{
			reserved, at(0, 3, 4, Plain, onCuckoo("CF.INSERT", "7"), "[1]"), at(0, 5, 6, Plain, onCuckoo("CF.INSERT", "8"), "[1]"),
			at(0, 7, 10, Plain, onCuckoo("CF.DEL", "8"), "1"), at(1, 8, 9, Plain, onCuckoo("CF.COUNT", "7"), "0"),
		}},
		{"counted twice while it is moved", false, []*Operation{
			reserved, at(0, 3, 4, Plain, onCuckoo("CF.INSERT", "7"), "[1]"),
			at(0, 5, 8, Plain, onCuckoo("CF.COMPACT"), ok), at(1, 6, 7, Plain, onCuckoo("CF.COUNT", "7"), "2"),
		}},
		{"a deletion between two lookups of one command", true, []*Operation{
			reserved, at(0, 3, 4, Plain, onCuckoo("CF.INSERT", "7"), "[1]"),
			at(1, 5, 10, Plain, onCuckoo("CF.MEXISTS", "7", "8"), "[1 1]"),
			at(0, 6, 7, Plain, onCuckoo("CF.DEL", "7"), "1"), at(0, 8, 9, Plain, onCuckoo("CF.INSERT", "8"), "[1]"),
		}},
		{"a count between the adds of a batch", true, []*Operation{
			at(0, 1, 6, Plain, onCounting("CBF.INSERT", "4", "7", "7", "8"), "[1 0 1]"),
			at(1, 2, 3, Plain, onCounting("CBF.COUNT", "7"), "1"), at(1, 4, 5, Plain, onCounting("CBF.COUNT", "7"), "2"),
		}},
		{"a count that falls while items are added", false, []*Operation{
			at(0, 1, 6, Plain, onCounting("CBF.INSERT", "4", "7", "7", "8"), "[1 0 1]"),
			at(1, 2, 3, Plain, onCounting("CBF.COUNT", "7"), "2"), at(1, 4, 5, Plain, onCounting("CBF.COUNT", "7"), "1"),
		}},
		{"a count between the deletions of a transaction", false, []*Operation{
			at(0, 1, 2, Plain, onCounting("CBF.INSERT", "4", "7", "7"), "[1 0]"),
			at(0, 3, 6, Update, onCounting("CBF.MDEL", "7", "7"), "[1 1]"),
			at(1, 4, 5, Plain, onCounting("CBF.COUNT", "7"), "1"),
		}},
		{"counters that stick", true, []*Operation{
			counted, at(0, 3, 4, Plain, onCounting("CBF.DEL", "7"), "1"),
			at(0, 5, 6, Plain, onCounting("CBF.COUNT", "7"), "15"),
		}},
		{"counters that stuck, counted down", false, []*Operation{
			counted, at(0, 3, 4, Plain, onCounting("CBF.DEL", "7"), "1"),
			at(0, 5, 6, Plain, onCounting("CBF.COUNT", "7"), "14"),
		}},
		{"deleted more often than added", false, []*Operation{
			at(0, 1, 2, Plain, onCounting("CBF.INSERT", "4", "7"), "[1]"),
			at(0, 3, 6, Plain, onCounting("CBF.DEL", "7"), "1"), at(1, 4, 5, Plain, onCounting("CBF.DEL", "7"), "1"),
		}},
		{"EXEC nil, and done", false, []*Operation{
			at(0, 1, 2, Watch, watch0), at(1, 3, 4, Plain, insert("7"), "[1]"), aborted(at(0, 5, 6, Exec, set)),
			at(0, 7, 8, Plain, get, "row"),
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Check(tt.history)
			var v *Violation
			if right := err == nil; right != tt.right || !right && !errors.As(err, &v) {
				t.Fatalf("Check returns %v", err)
			}
			if v != nil {
				if err := v.Save(filepath.Join(t.TempDir(), "violation.html")); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
