package tests_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// infoNumber returns a field of INFO.
func infoNumber(t *testing.T, s *module.Session, name string) int {
	t.Helper()
	text := string(s.Do(t.Context(), commandWords("INFO")).Bytes())
	_, after, found := strings.Cut(text, "\n"+name+":")
	if !found {
		t.Fatalf("INFO has no field %s", name)
	}
	value, _, _ := strings.Cut(after, "\r\n")
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func commandWords(line string) (words [][]byte) {
	for word := range strings.FieldsSeq(line) {
		words = append(words, []byte(word))
	}
	return words
}

// addCommands add an item, and make the filter if there is none.
var addCommands = []string{"BF.ADD", "BF.MADD", "CF.ADD", "CF.ADDNX", "CBF.ADD", "CBF.MADD"}

// An add to a missing key runs the write path once. Under Always, a run that ends for want of a filter
// would sync the log, as its answer rests on what is there.
func TestCommands_addToMissingKey(t *testing.T) {
	db, err := sievekv.Open("store", &kv.Options{FS: vfs.NewMem(), BallastSize: -1, MinFreeSpace: -1, Durability: kv.NoSync})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	others, s := module.NewSession(db.Store()), module.NewSession(db.Store())
	s.Durability = kv.Always
	for _, name := range addCommands {
		if r := others.Do(t.Context(), commandWords("SET other value")); r.IsError() {
			t.Fatal(r)
		}
		commits, syncs := infoNumber(t, s, "commits"), infoNumber(t, s, "syncs")
		if r := s.Do(t.Context(), commandWords(name+" missing item")); r.IsError() {
			t.Fatalf("%s: %v", name, r)
		}
		if n := infoNumber(t, s, "commits") - commits; n != 1 {
			t.Errorf("%s to a missing key makes %d commits, want 1", name, n)
		}
		if n := infoNumber(t, s, "syncs") - syncs; n != 1 {
			t.Errorf("%s to a missing key syncs the log %d times, want once", name, n)
		}
		if r := s.Do(t.Context(), commandWords("DEL missing")); r.Int() != 1 {
			t.Errorf("%s made no filter: DEL answers %v", name, r)
		}
	}
}

// A command that finds its answer in memory takes no lock of the key: the same way as a handle that has been
// used before.
func TestCommands_answerFromMemory(t *testing.T) {
	db, err := sievekv.Open("", &kv.Options{InMemory: true, Durability: kv.NoSync})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	s := module.NewSession(db.Store())
	for _, line := range []string{"BF.ADD bf item", "CF.ADD cf item", "CBF.ADD cbf item"} {
		if r := s.Do(t.Context(), commandWords(line)); r.Int() != 1 {
			t.Fatalf("%s: %v", line, r)
		}
	}
	if r := s.Do(t.Context(), commandWords("BF.ADD bf item")); r.Int() != 0 { // its log surely has the item now
		t.Fatal(r)
	}
	for _, line := range []string{"CF.EXISTS cf item", "CBF.EXISTS cbf item"} { // the first lookup reads a filter from Pebble
		if r := s.Do(t.Context(), commandWords(line)); r.Int() != 1 {
			t.Fatalf("%s: %v", line, r)
		}
	}
	err = db.Store().Write(kv.NoSync, [][]byte{[]byte("bf"), []byte("cf"), []byte("cbf")}, func(*kv.Writer) error {
		for line, want := range map[string]int64{
			"BF.ADD bf item": 0, "BF.EXISTS bf item": 1, "BF.EXISTS bf other": 0, "CF.ADDNX cf item": 0,
			"CF.EXISTS cf item": 1, "CF.EXISTS cf other": 0, "CBF.EXISTS cbf item": 1, "CBF.EXISTS cbf other": 0,
		} {
			answer := make(chan reply.Reply, 1)
			go func() { answer <- s.Do(t.Context(), commandWords(line)) }()
			select {
			case r := <-answer:
				if r.Int() != want {
					t.Errorf("%s: %v, want %d", line, r, want)
				}
			case <-time.After(time.Minute):
				t.Fatalf("%s waits for the lock of its key", line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if raceEnabled {
		return // the detector makes allocations of its own
	}
	s.Do(t.Context(), commandWords("SET string v"))
	for line, most := range map[string]float64{
		"BF.ADD bf item": 1, "BF.EXISTS bf item": 2, "CF.ADDNX cf item": 1, "CF.EXISTS cf item": 2, "CBF.EXISTS cbf item": 2,
		"GET missing": 0, "SET string v": 10, "GET string": 1,
	} {
		words := commandWords(line)
		if n := testing.AllocsPerRun(1000, func() { s.Do(t.Context(), words) }); n > most {
			t.Errorf("%s: %v allocations, want at most %v: the handle, or the string and what it is made of", line, n, most)
		}
	}
}
