package forge

import (
	"flag"
	"fmt"
	"testing"
)

var (
	forged   = flag.Uint64("forged", 12, "how many headers are forged of each subject")
	forgedBy = flag.Uint64("forgedby", 0, "the first of their seeds")
)

// AddSeeds adds the number of each subject, with some seeds of a Forger.
func AddSeeds(f *testing.F) {
	for i := range Subjects {
		for n := range *forged {
			f.Add(uint8(i), *forgedBy+n)
		}
	}
}

// Subject is something whose header is forged.
type Subject struct {
	Name   string
	Family string     // with which its commands begin: BF, CF, CBF, or "" for a string
	Native bool       // a filter with the native layout
	words  [][]string // commands that make it under the key "f"
}

func made(family string, n int, reserve ...string) [][]string {
	commands := [][]string{append([]string{family + ".RESERVE", "f"}, reserve...)}
	for at := 0; at < n; at += 250 {
		add := []string{family + ".INSERT", "f", "ITEMS"}
		commands = append(commands, items(at, min(250, n-at), add...))
	}
	return commands
}

// compatible makes a filter with the compatible layout.
func compatible(setting string, commands [][]string) [][]string {
	set := func(layout string) []string { return []string{"CONFIG", "SET", setting, layout} }
	return append(append([][]string{set("compatible")}, commands...), set("native"))
}

// Subjects are filters of every type, layout and growth rule, and a string in blocks.
var Subjects = []Subject{
	{"Bloom with a log", "BF", true, made("BF", 3000, "0.01", "100")},
	{"Bloom that is filled from its log", "BF", true, made("BF", 125, "0.01", "100")},
	{"Bloom of layers", "BF", true, made("BF", 1000, "0.01", "100", "EXPANSION", "2")},
	{"Bloom of blocks", "BF", true, made("BF", 500, "0.001", "20000", "NONSCALING")},
	{"Bloom with a window", "BF", true, made("BF", 500, "0.01", "200", "WINDOW", "3600")},
	{"Bloom of the last items", "BF", true, made("BF", 700, "0.01", "500", "LAST", "500")},
	{"Bloom that is compatible", "BF", false, compatible("bf-layout", made("BF", 1000, "0.01", "300"))},
	{"cuckoo of layers", "CF", true, made("CF", 2000, "500", "EXPANSION", "2")},
	{"cuckoo of 14 bits", "CF", true, made("CF", 1000, "3000", "ERROR", "0.001")},
	{"cuckoo that is compatible", "CF", false, compatible("cf-layout", made("CF", 1000, "500", "EXPANSION", "2"))},
	{"counting of layers", "CBF", true, made("CBF", 1000, "0.01", "100")},
	{"string in blocks", "", false, [][]string{{"SETBIT", "f", "90000", "1"}, {"SETBIT", "f", "7000000", "1"}}},
}

// Make makes a subject under the key "f" of a new store.
func Make(t testing.TB, subject Subject) *Store {
	t.Helper()
	s := Open(t)
	for _, words := range subject.words {
		if r := s.Do(words...); r.IsError() {
			t.Fatalf("%s: %.80q: %s", subject.Name, words, r.Bytes())
		}
	}
	if r := s.Do("EXISTS", "f"); r.Int() != 1 {
		t.Fatal(fmt.Sprint(subject.Name, ": there is none"))
	}
	return s
}
