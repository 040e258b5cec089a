package remains

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/freeze"
	"github.com/sievekv/sievekv/internal/storage/files"
	"github.com/sievekv/sievekv/internal/text"
)

// ErrNoStore is returned for a directory with no remains of a store.
var ErrNoStore = errors.New("remains: no tables and no logs of a store here")

// Damage is what is wrong with a file.
type Damage struct{ File, What string }

// String returns both.
func (d Damage) String() string { return d.File + " " + d.What }

// Remains is the rest of a damaged store.
type Remains struct {
	Lost    []Range // whatever is stored under these keys may be an older version, or may have been deleted
	Guessed bool    // the MANIFEST is lost: every table that was found is taken, also those that were obsolete
	Tail    bool    // the end of the log is lost: FS has an earlier state of the store
	Later   Changes // if Tail: what lost commits have changed, of those that can still be read
	// Unclosed means that the store was not closed. The end of the log may then be lost without a sign.
	Unclosed bool
	FS       *FS
}

// Deep is how much Examine reads.
type Deep bool

// Examine finds out what remains of the store in dir. If deep, it reads every table; otherwise it only looks whether
// tables are there and have the right size. The caller holds a lock of the directory, shared or alone, until it no
// longer needs FS.
func Examine(ctx context.Context, base vfs.FS, dir string, deep Deep) (*Remains, error) {
	e, err := newExamination(ctx, base, dir, deep)
	if err != nil {
		return nil, err
	}
	if len(e.found[".log"])+len(e.found[".sst"])+len(e.found["MANIFEST-"]) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoStore, dir)
	}
	if err := e.run(); err != nil {
		return nil, err
	}
	e.fs.lost, e.fs.damages, e.fs.deep = Merged(e.lost), e.damages, e.deep
	return &Remains{Lost: e.fs.lost, Guessed: e.guessed, Tail: e.tail, Later: e.later, Unclosed: e.unclosed, FS: e.fs}, nil
}

func newExamination(ctx context.Context, base vfs.FS, dir string, deep Deep) (*examination, error) {
	names, err := base.List(dir)
	if err != nil {
		return nil, err
	}
	e := &examination{
		checker: newChecker(ctx, base), base: base, dir: dir, fs: newFS(base, dir), deep: bool(deep),
		found: map[string]map[uint64]string{".log": {}, ".sst": {}, "MANIFEST-": {}},
	}
	if names, err = e.withoutStrays(names); err != nil {
		return nil, err
	}
	e.list(names)
	return e, nil
}

// Reached returns the sequence of the next commit, judged by the logs and tables of the store in dir, or 0 if it is not
// known. Pebble goes on behind the last sequence that the MANIFEST knows, even if the log has lost commits before it.
// If that sequence is below least, only the log can reach least, and Pebble's answer is right: then Reached reads
// nothing and returns 0.
func Reached(ctx context.Context, base vfs.FS, dir string, least uint64) (next uint64, err error) {
	e, err := newExamination(ctx, base, dir, false)
	if err != nil {
		return 0, err
	}
	v, err := e.manifest()
	if err != nil || v == nil || v.lastSeq+1 < least {
		return 0, err
	}
	next, err = e.logs(v)
	return v.reached(next), err
}

type examination struct {
	*checker
	base    vfs.FS
	dir     string
	fs      *FS
	deep    bool
	found   map[string]map[uint64]string // names of files by kind and number
	others  []string
	damages []Damage
	lost    []Range
	latest  uint64 // the first commit in the logs is not after this one
	guessed bool
	tail    bool
	later   Changes
	logless bool   // there is no log
	tabled  uint64 // see version
	flushed bool   // everything that the sidecar knows of is in tables

	unclosed bool
}

func (e *examination) damage(file, what string) { e.damages = append(e.damages, Damage{file, what}) }

// withoutStrays leaves out the files that the store did not write.
func (e *examination) withoutStrays(names []string) ([]string, error) {
	known, err := known(e.base, e.dir, names)
	if err != nil {
		return nil, err
	}
	strays, err := files.Strays(e.base, e.dir, names, known)
	if err != nil {
		return nil, err
	}
	for _, s := range strays {
		e.damage(s.Name, "was not written by the store: "+s.Why)
		names = slices.DeleteFunc(names, func(name string) bool { return name == s.Name })
	}
	return names, nil
}

func (e *examination) list(names []string) {
	slices.Sort(names)
	for _, name := range names {
		kind, digits := "", ""
		if rest, ok := strings.CutPrefix(name, "MANIFEST-"); ok {
			kind, digits = "MANIFEST-", rest
		} else if i := strings.IndexByte(name, '.'); i > 0 {
			kind, digits = name[i:], name[:i]
		}
		if n, err := strconv.ParseUint(digits, 10, 64); err == nil && e.found[kind] != nil {
			e.found[kind][n] = name
		} else {
			e.others = append(e.others, name)
		}
	}
}

func (e *examination) read(name string) ([]byte, error) {
	return readFile(e.base, e.base.PathJoin(e.dir, name))
}

// openRegular opens a file. A file that is not regular is no file of the store, and counts as missing: opening a pipe
// would wait for a writer.
func openRegular(fsys vfs.FS, path string) (vfs.File, error) {
	info, err := fsys.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file", fs.ErrNotExist, fsys.PathBase(path))
	}
	if err != nil {
		return nil, err
	}
	return fsys.Open(path)
}

func readFile(fsys vfs.FS, path string) ([]byte, error) {
	f, err := openRegular(fsys, path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

func (e *examination) run() error {
	if err := e.refuseNewer(); err != nil {
		return err
	}
	v, err := e.manifest()
	if err != nil {
		return err
	}
	if v == nil {
		if v, err = e.guess(); err != nil {
			return err
		}
	} else if err := e.tables(v); err != nil {
		return err
	}
	next, err := e.commits(v)
	if err != nil {
		return err
	}
	if e.logless {
		e.noLog()
	}
	if e.guessed {
		if err := e.guessedManifest(v, next); err != nil {
			return err
		}
	}
	if err := e.formatMarker(); err != nil {
		return err
	}
	return e.small()
}

// marker returns the value of a marker: the part of its name behind its number. The one with the greatest number is in
// force.
func (e *examination) marker(of string) (value string, ok bool) { return marker(e.others, of) }

func marker(names []string, of string) (value string, ok bool) {
	best := uint64(0)
	for _, name := range names {
		rest, is := strings.CutPrefix(name, "marker."+of+".")
		digits, text, cut := strings.Cut(rest, ".")
		n, err := strconv.ParseUint(digits, 10, 64)
		if is && cut && err == nil && (!ok || n > best) {
			best, value, ok = n, text, true
		}
	}
	return value, ok
}

// manifestNumber returns the number of the MANIFEST that the marker names.
func manifestNumber(names []string) (number uint64, ok bool) {
	name, _ := marker(names, "manifest")
	digits, ok := strings.CutPrefix(name, "MANIFEST-")
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, ok && err == nil
}

func manifestName(number uint64) string { return fmt.Sprintf("MANIFEST-%06d", number) }

// manifest reads the MANIFEST that is in use. It returns nil if that is lost.
func (e *examination) manifest() (*version, error) {
	seals, err := freeze.ReadSeal(e.base, e.dir)
	switch {
	case errors.Is(err, freeze.ErrDamaged):
		_, why, _ := strings.Cut(plain(err), freeze.SealName+": ")
		e.damage(freeze.SealName, "is damaged: "+why)
	case errors.Is(err, freeze.ErrVersion):
		return nil, text.After(fmt.Errorf("%w: %w", format.ErrUnsupportedVersion, err), "kv: open %s", e.dir)
	case err != nil:
		return nil, err
	case seals == nil:
		e.damage(freeze.SealName, "is missing")
	}
	number, marked := manifestNumber(e.others)
	newest := uint64(0)
	if n := len(seals); n > 0 {
		newest = seals[n-1].Number
	}
	if !marked {
		// The seal names a MANIFEST before the marker does, when everything in that MANIFEST has been synced.
		e.damage("marker.manifest", "is missing: it names the MANIFEST in use")
		if number = newest; number == 0 {
			for n := range e.found["MANIFEST-"] {
				number = max(number, n)
			}
		}
	}
	name := manifestName(number)
	data, err := e.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		e.damage(name, "is missing")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v, clean, verr := readManifest(data)
	sealed := slices.IndexFunc(seals, func(s freeze.Sealed) bool { return s.Number == number })
	switch {
	case sealed >= 0 && !seals[sealed].Matches(data):
		e.damage(name, "is damaged: it is not what was written to it")
	case sealed < 0 && number < newest:
		e.damage(name, fmt.Sprintf("is out of date: MANIFEST %d was in use", newest))
	case verr != nil:
		e.damage(name, "is damaged: "+plain(verr))
	case sealed < 0 && !clean:
		e.damage(name, "is damaged: it does not end with a whole record, and no seal says how long it has to be")
	case v.comparer != e.options.Comparer.Name:
		e.damage(name, "is not that of a store")
	default:
		if err := e.oldManifests(seals, number); err != nil {
			return nil, err
		}
		e.fs.pass(name)
		return v, e.fs.add("marker.manifest.000001."+name, nil)
	}
	return nil, nil
}

// oldManifests looks at the MANIFESTs that are no longer in use.
func (e *examination) oldManifests(seals []freeze.Sealed, current uint64) error {
	for _, s := range seals {
		name, ok := e.found["MANIFEST-"][s.Number]
		if !ok || s.Number >= current {
			continue
		}
		data, err := e.read(name)
		if err != nil {
			return err
		}
		if !s.Matches(data) {
			e.damage(name, "is damaged; it is not in use any more")
		}
	}
	return nil
}

// tables looks at the tables of the store.
func (e *examination) tables(v *version) error {
	for _, t := range v.sorted() {
		name := fmt.Sprintf("%06d.sst", t.Number)
		path := e.base.PathJoin(e.dir, name)
		if !e.deep {
			if info, err := e.base.Stat(path); err == nil && uint64(info.Size()) == t.Size {
				e.fs.pass(name)
				continue
			}
		}
		state, err := e.table(path, t, true)
		if err != nil {
			return err
		}
		if err := e.found1(name, state); err != nil {
			return err
		}
	}
	return nil
}

func (e *examination) found1(name string, state tableState) error {
	if state.repaired == nil {
		e.fs.pass(name)
		return nil
	}
	for _, p := range state.problems {
		e.damage(name, p)
	}
	e.lost = append(e.lost, state.lost...)
	return e.fs.add(name, state.repaired)
}

// CheckTable reads all of a table. It returns the ranges of lost keys, and what is wrong with the table. It compares
// the size if size is true.
func CheckTable(ctx context.Context, fsys vfs.FS, dir string, t Table, size bool) ([]Range, []string, error) {
	name := fmt.Sprintf("%06d.sst", t.Number)
	state, err := newChecker(ctx, fsys).table(fsys.PathJoin(dir, name), t, size)
	for i, p := range state.problems {
		state.problems[i] = Damage{name, p}.String()
	}
	return state.lost, state.problems, err
}

// guess makes a version from the tables that are there.
func (e *examination) guess() (*version, error) {
	e.guessed = true
	v := &version{comparer: e.options.Comparer.Name, tables: make(map[uint64]Table)}
	for _, n := range slices.Sorted(maps.Keys(e.found[".sst"])) {
		name := e.found[".sst"][n]
		t, state, err := e.foundTable(e.base.PathJoin(e.dir, name), n)
		if err != nil {
			return nil, err
		}
		if t != nil {
			v.tables[n] = *t
			v.lastSeq = max(v.lastSeq, t.LargestSeq)
		}
		if err := e.found1(name, state); err != nil {
			return nil, err
		}
		v.nextFile = max(v.nextFile, n+1)
	}
	for n := range e.found[".log"] {
		v.nextFile = max(v.nextFile, n+1)
	}
	return v, nil
}

// guessedManifest makes a MANIFEST of a version that was guessed. It is made after the logs are read, as these say what
// the next sequence is: the tables do not, because compaction sets the sequences of what is in the last level to zero,
// and Pebble does not count records of the log without a change.
func (e *examination) guessedManifest(v *version, next uint64) error {
	manifest := manifestName(v.nextFile)
	v.nextFile++
	v.lastSeq = next - 1
	if err := e.fs.add(manifest, v.encode()); err != nil {
		return err
	}
	return e.fs.add("marker.manifest.000001."+manifest, nil)
}

// noLog tells what is lost with the log. When a store is closed, the sidecar gets the number of the last commit, and if
// the tables have that commit, the log had nothing more. But the store may have been opened again and killed within
// seconds, so nothing is known about the log's content.
func (e *examination) noLog() {
	if e.flushed {
		e.unclosed, e.fs.blind = true, true
		e.damage("the log", "is missing: all commits that were known to be on stable storage are in tables, and whether it had more is not known")
		return
	}
	e.tail = true
	e.damage("the log", "is missing: commits since the last flush may be lost")
}

// blindness tells what the loss of the sidecar means.
const blindness = ", and whether the log has lost its end is not known"

// commits reads the logs, and compares their end with what the sidecar says. It returns the next sequence.
func (e *examination) commits(v *version) (next uint64, err error) {
	if next, err = e.logs(v); err != nil {
		return 0, err
	}
	e.tabled = v.tabled
	return max(next, v.lastSeq+1), e.sidecar(v.reached(next))
}

// sidecar compares the end of the log with what the sidecar says.
func (e *examination) sidecar(next uint64) error {
	data, err := e.read(format.SidecarName)
	e.unclosed = true
	if errors.Is(err, fs.ErrNotExist) {
		e.fs.blind = true
		e.damage(format.SidecarName, "is missing"+blindness)
		return nil
	}
	if err != nil {
		return err
	}
	id, least, err := format.DecodeSidecar(data)
	switch {
	case errors.Is(err, format.ErrCorrupt):
		e.fs.blind = true
		e.damage(format.SidecarName, "is damaged: "+plain(err)+blindness)
	case err != nil:
		return err
	case next < least:
		e.fs.id = &id
		e.tail = true
		e.damage("the log", fmt.Sprintf("ends at sequence %d, but everything up to %d was on stable storage: the commits after %d are lost",
			next-1, least-1, next-1))
	default:
		e.unclosed = next > least
		e.flushed = least > format.SidecarUnknown && e.tabled+1 >= least
		e.fs.id = &id
	}
	return nil
}

// refuseNewer refuses a store that a newer Pebble has written: things that this program does not know would look like
// damage.
func (e *examination) refuseNewer() error {
	value, _ := e.marker("format-version")
	if n, _ := strconv.ParseUint(value, 10, 64); n > uint64(pebble.FormatNewest) { // 0 for no number, the greatest for one that is too long
		return fmt.Errorf("%w: open %s: tables have format %d, this program knows formats up to %d",
			format.ErrUnsupportedVersion, e.dir, n, uint64(pebble.FormatNewest))
	}
	return nil
}

// formatMarker gives the store the marker of Pebble's format.
func (e *examination) formatMarker() error {
	if _, ok := e.marker("format-version"); !ok {
		e.damage("marker.format-version", "is missing")
	}
	v := pebble.FormatNewest
	return e.fs.add(fmt.Sprintf("marker.format-version.%06d.%03d", v, uint64(v)), nil)
}

// small examines the files that a store can do without.
func (e *examination) small() error {
	for _, name := range e.others {
		if !strings.HasPrefix(name, "OPTIONS-") || !files.LooksLikePart(name) {
			continue
		}
		data, err := e.read(name)
		if err != nil {
			return err
		}
		if why := checkOptions(e.dir, string(data)); why != "" {
			e.damage(name, why)
		}
	}
	return nil
}

// checkOptions returns what is wrong with Pebble's record of its options. Opening does not use their values, but compares names.
func checkOptions(dir, text string) string {
	err := new(pebble.Options).Parse(text, &pebble.ParseHooks{SkipUnknown: func(string, string) bool { return false }})
	if err == nil {
		err = storeOptions().CheckCompatibility(dir, text)
	}
	if err != nil {
		return "is damaged: " + plain(err)
	}
	return ""
}

// Merged returns ranges that do not overlap, in order.
func Merged(list []Range) (out []Range) {
	slices.SortFunc(list, func(a, b Range) int { return strings.Compare(string(a.Low), string(b.Low)) })
	for _, r := range list {
		if n := len(out); n > 0 && string(r.Low) <= string(out[n-1].High) {
			if string(r.High) > string(out[n-1].High) {
				out[n-1].High = r.High
			}
			continue
		}
		out = append(out, r)
	}
	return out
}
