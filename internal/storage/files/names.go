// Package files knows which names the files of a store have, and finds files that have such a name though the store did
// not write them.
//
// # Stray files
//
// When Pebble opens a store, it takes every file whose name looks like one of its own for a part of the store: it
// replays logs, goes on counting from the greatest number, and removes what the store does not need. So it would remove
// a file of the user, such as 20261126.log. Such a file is called stray. These facts tell it from a file that a crash
// leaves:
//
//   - Pebble writes a number with at least six digits and no further zeros, and begins with 1. It never writes some
//     kinds of files, because the options for them are not set.
//   - A file of a store is a regular file.
//   - A file begins as its kind does. A crash can cut a file, and leave zeros where something was written. It cannot
//     leave other bytes there: a sector of 512 bytes has what was written, or has not.
//   - Pebble counts from the number that the MANIFEST has. Between two records of the MANIFEST it can use many numbers,
//     but not as many as farAhead, except for tables.
//
// A file of another store passes if it has a name that Pebble may have given.
package files

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/freeze"
)

// Unfinished is the name of a file in the directory of a store that is being made.
const Unfinished = "UNFINISHED"

// own are the files with fixed names that a store may have in its directory.
var own = []string{
	"LOCK", Unfinished, freeze.BallastName,
	freeze.SealName, freeze.SealName + ".tmp", format.SidecarName, format.SidecarName + ".tmp",
}

// part matches the names that Pebble and a store give to files. When Pebble makes a database, it takes every file of
// such a name for one of its own that is obsolete, and removes it.
var part = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\d+(-\d+)?\.(log|sst|blob)|(MANIFEST|OPTIONS)-\d+|CURRENT|marker\..+|.+\.dbtmp|` +
		`LOCK|` + freeze.BallastName + `|(` + freeze.SealName + `|` + format.SidecarName + `)(\.tmp)?)$`)
})

// LooksLikePart reports whether a name is one that Pebble or a store may give to a file.
func LooksLikePart(name string) bool { return part().MatchString(name) }

// kind is a kind of files with a number in their names.
type kind struct {
	what           string
	prefix, suffix string
	never          bool // Pebble reads such files, but a store has none
	begins         func(head []byte, number uint64) verdict
}

var kinds = []kind{
	{what: "log", suffix: ".log", begins: beginsLog},
	{what: "table", suffix: ".sst", begins: beginsTable},
	{what: "MANIFEST", prefix: "MANIFEST-", begins: beginsManifest},
	{what: "record of options", prefix: "OPTIONS-", begins: beginsOptions},
	{what: "record of options", prefix: "temporary.", suffix: ".dbtmp", begins: beginsOptions},
	{what: "blob file", suffix: ".blob", never: true},
	{what: "temporary file", prefix: "CURRENT.", suffix: ".dbtmp", never: true},
}

// parse returns what Pebble takes a name for, nil for nothing.
func parse(name string) (k *kind, number uint64) {
	for i := range kinds {
		k := &kinds[i]
		digits, ok := strings.CutPrefix(name, k.prefix)
		if !ok {
			continue
		}
		if digits, ok = strings.CutSuffix(digits, k.suffix); !ok {
			continue
		}
		if number, part, ok := strings.Cut(digits, "-"); ok && k.suffix == ".log" { // logs of a store have no parts
			if _, err := strconv.ParseUint(part, 10, 64); err == nil {
				digits = number
			}
		}
		if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
			return k, n
		}
	}
	return nil, 0
}

// name returns the name that Pebble gives to a file.
func (k *kind) name(number uint64) string { return fmt.Sprintf("%s%06d%s", k.prefix, number, k.suffix) }

// IsLog reports whether a name is one that Pebble gives to a log.
func IsLog(name string) bool {
	k, number := parse(name)
	return k != nil && k.suffix == ".log" && name == k.name(number)
}

// marker matches the names of the two markers that a store has.
var marker = regexp.MustCompile(`^marker\.(manifest\.\d{6,}\.MANIFEST-\d{6,}|format-version\.\d{6,}\.\d{3,})$`)

// isMarker reports whether Pebble takes a name for a marker. If it is not one, the store does not open.
func isMarker(name string) bool { return strings.HasPrefix(name, "marker.") }
