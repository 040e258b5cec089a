package backup_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sievekv/sievekv/backup"
	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

const items = 5000

func open(t testing.TB, dir string, o kv.Options) *kv.DB {
	t.Helper()
	o.Logger, o.BallastSize = slog.New(slog.DiscardHandler), -1
	o.Modules = coreext.With(bloomext.Module(), compaction.Module())
	db, err := kv.Open(dir, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Error(err)
		}
	})
	return db
}

// fill puts a string and a filter into a store, without waiting for the disk.
func fill(t *testing.T, db *kv.DB) {
	t.Helper()
	if _, err := db.Set(kv.NoSync, []byte("row"), []byte("value"), kv.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	seen := bloomext.New(db, "seen").With(kv.NoSync)
	if err := seen.Reserve(bloomext.Config{Capacity: 10_000, ErrorRate: 0.01}); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(items) {
		if _, err := seen.Add(scalableext.Uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
}

// wantFilled checks that all of it is in a store.
func wantFilled(t *testing.T, dir string) {
	t.Helper()
	db := open(t, dir, kv.Options{MustExist: true})
	row, err := db.Get([]byte("row"))
	if err != nil || string(row) != "value" {
		t.Errorf("row = %q, %v", row, err)
	}
	for i := range uint64(items) {
		if there, err := bloomext.New(db, "seen").MayContain(scalableext.Uint64(i)); err != nil || !there {
			t.Fatalf("item %d: %t, %v", i, there, err)
		}
	}
	report, err := db.Check(t.Context())
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("check: %v, %v", report, err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func wantNothing(t *testing.T, dir string) {
	t.Helper()
	if left, err := filepath.Glob(dir + "*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// A backup of an open store has all that was committed, also what is pending and in the log alone.
func TestMake(t *testing.T) {
	for _, o := range []backup.Options{{}, {Copy: true, Check: true}} {
		t.Run(fmt.Sprintf("%+v", o.Copy), func(t *testing.T) {
			top := t.TempDir()
			db := open(t, filepath.Join(top, "store"), kv.Options{})
			fill(t, db)
			dir := filepath.Join(top, "new", "copy")
			if err := backup.Make(t.Context(), db, dir, o); err != nil {
				t.Fatal(err)
			}
			wantFilled(t, dir)
			if err := backup.Make(t.Context(), db, dir, o); !errors.Is(err, fs.ErrExist) {
				t.Errorf("a backup over another: %v", err)
			}
			copied := filepath.Join(top, "copied") // as by cp -r
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			wantFilled(t, copied)
			wantFilled(t, dir)
		})
	}
}

// A transaction is in a backup whole or not at all.
func TestMake_transactions(t *testing.T) {
	top := t.TempDir()
	db := open(t, filepath.Join(top, "store"), kv.Options{Durability: kv.NoSync})
	if err := bloomext.New(db, "seen").Reserve(bloomext.Config{Capacity: 10_000, ErrorRate: 1e-6}); err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	commit := func() error {
		n++
		return txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error {
			if _, err := bloomext.New(db, "seen").In(tx.Transaction).Add(scalableext.Uint64(n)); err != nil {
				return err
			}
			return tx.Set("last", fmt.Append(nil, n))
		})
	}
	for i := range 5 {
		if err := commit(); err != nil {
			t.Fatal(err)
		}
		before, stop, ended := n, make(chan struct{}), make(chan error)
		go func() {
			var err error
			for on := true; on && err == nil && n < before+2000; {
				select {
				case <-stop:
					on = false
				default:
					err = commit()
				}
			}
			ended <- err
		}()
		dir := filepath.Join(top, fmt.Sprint("copy", i))
		err := backup.Make(t.Context(), db, dir, backup.Options{Check: true})
		close(stop)
		if err := errors.Join(err, <-ended); err != nil {
			t.Fatal(err)
		}
		copied := open(t, dir, kv.Options{})
		value, err := copied.Get([]byte("last"))
		if err != nil {
			t.Fatal(err)
		}
		last := uint64(0)
		if _, err := fmt.Sscan(string(value), &last); err != nil || last < before || last > n {
			t.Errorf("the last of the backup is %q (%v), want %d to %d", value, err, before, n)
		}
		for item := uint64(1); item <= n; item++ {
			if there, err := bloomext.New(copied, "seen").MayContain(scalableext.Uint64(item)); err != nil || there != (item <= last) {
				t.Fatalf("item %d of %d: %t, %v", item, last, there, err)
			}
		}
		if err := copied.Close(); err != nil {
			t.Error(err)
		}
	}
}

// archived returns an archive of a filled store.
func archived(t *testing.T, o kv.Options) []byte {
	t.Helper()
	top := t.TempDir()
	db := open(t, filepath.Join(top, "store"), o)
	fill(t, db)
	var archive bytes.Buffer
	if err := backup.WriteTo(t.Context(), db, &archive, backup.Options{Check: true}); err != nil {
		t.Fatal(err)
	}
	if !o.InMemory {
		wantNothing(t, filepath.Join(top, "store", "archive"))
	}
	return archive.Bytes()
}

// A store becomes an archive, and an archive a store: also one in memory.
func TestRestore(t *testing.T) {
	for name, o := range map[string]kv.Options{"disk": {}, "memory": {InMemory: true}} {
		t.Run(name, func(t *testing.T) {
			archive := archived(t, o)
			dir := filepath.Join(t.TempDir(), "new", "copy")
			if err := backup.Restore(t.Context(), bytes.NewReader(archive), dir); err != nil {
				t.Fatal(err)
			}
			wantFilled(t, dir)
			if err := backup.Restore(t.Context(), bytes.NewReader(archive), dir); !errors.Is(err, fs.ErrExist) {
				t.Errorf("restoring over a store: %v", err)
			}
		})
	}
}

type entry struct {
	tar.Header
	body []byte
}

func entries(t *testing.T, archive []byte) (list []entry) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		body, rerr := io.ReadAll(r)
		if err := errors.Join(err, rerr); err != nil {
			t.Fatal(err)
		}
		list = append(list, entry{*h, body})
	}
}

func tarOf(t *testing.T, list []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range list {
		e.Size = int64(len(e.body))
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sums returns an archive of some files, with their checksums.
func sums(t *testing.T, list ...entry) []byte {
	t.Helper()
	var text []byte
	for _, e := range list {
		text = fmt.Appendf(text, "%x  %s\n", sha256.Sum256(e.body), e.Name)
	}
	return tarOf(t, append(list, entry{tar.Header{Name: kv.ArchiveSums, Typeflag: tar.TypeReg}, text}))
}

// holes returns an archive of 3 KiB whose only file is a hole of 1 MiB, with the right checksum.
func holes(t *testing.T) []byte {
	t.Helper()
	const size = 1 << 20
	var b bytes.Buffer
	add := func(kind byte, name string, body []byte) {
		head := make([]byte, 512)
		copy(head, name)
		copy(head[100:], "0000600\x000000000\x000000000\x00")
		copy(head[124:], fmt.Sprintf("%011o\x00%011o\x00        ", len(body), 0))
		head[156] = kind
		copy(head[257:], "ustar\x0000")
		sum := 0
		for _, c := range head {
			sum += int(c)
		}
		copy(head[148:], fmt.Sprintf("%06o\x00 ", sum))
		b.Write(head)
		b.Write(body)
		b.Write(make([]byte, -len(body)&511))
	}
	var records []byte
	for _, record := range []string{fmt.Sprintf("GNU.sparse.size=%d", size), "GNU.sparse.numblocks=1", fmt.Sprintf("GNU.sparse.map=%d,0", size)} {
		n := len(record) + 2
		n += len(fmt.Sprint(n + 2))
		records = fmt.Appendf(records, "%d %s\n", n, record)
	}
	add(tar.TypeXHeader, "holes", records)
	add(tar.TypeReg, "000001.log", nil)
	b.Write(sums(t, entry{tar.Header{Name: "000001.log", Typeflag: tar.TypeReg}, make([]byte, size)})[512+size:])
	if list := entries(t, b.Bytes()); len(list) != 2 || len(list[0].body) != size || b.Len() > 10<<10 {
		t.Fatalf("%d entries in %d bytes", len(list), b.Len())
	}
	return b.Bytes()
}

// Archives that are cut, changed or made by somebody else are refused, and nothing is left of them.
func TestRestore_bad(t *testing.T) {
	archive := archived(t, kv.Options{})
	whole := entries(t, archive)
	last := len(whole) - 1
	if whole[last].Name != kv.ArchiveSums {
		t.Fatalf("the last entry is %q", whole[last].Name)
	}
	bad := map[string][]byte{"empty": nil, "text": []byte(strings.Repeat("no archive\n", 100))}
	for _, n := range []int{1, 511, 512, 600, len(archive) / 2, len(archive) - 1500} {
		bad[fmt.Sprintf("cut to %d of %d", n, len(archive))] = archive[:n]
	}
	changed := func(name string, change func(list []entry) []entry) {
		list := make([]entry, len(whole))
		for i, e := range whole {
			list[i] = entry{e.Header, bytes.Clone(e.body)}
		}
		bad[name] = tarOf(t, change(list))
	}
	changed("a bit flipped", func(list []entry) []entry { list[0].body[100] ^= 1; return list })
	changed("a checksum flipped", func(list []entry) []entry { list[last].body[3] ^= 1; return list })
	changed("checksums cut", func(list []entry) []entry { list[last].body = list[last].body[:70]; return list })
	changed("without checksums", func(list []entry) []entry { return list[:last] })
	changed("more behind it", func(list []entry) []entry { return append(list, list[0]) })
	changed("a file less", func(list []entry) []entry { return list[1:] })
	changed("a file twice", func(list []entry) []entry { return append(list[:1:1], list...) })
	for _, name := range []string{"../out", "/out", "a/b", ".", "..", "a\\b", strings.Repeat("x", 101), ""} {
		changed(fmt.Sprintf("name %.20q", name), func(list []entry) []entry {
			list[0].Name, list[0].Format = name, tar.FormatPAX
			return list
		})
	}
	bad["a link"] = sums(t, entry{tar.Header{Name: "000001.log", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, nil})
	bad["holes"] = holes(t)
	bad["no store"] = sums(t, entry{tar.Header{Name: "readme.txt", Typeflag: tar.TypeReg}, []byte("text")})
	for name, archive := range bad {
		dir := filepath.Join(t.TempDir(), "copy")
		if err := backup.Restore(t.Context(), bytes.NewReader(archive), dir); !errors.Is(err, backup.ErrArchive) {
			t.Errorf("%s: %v, want %v", name, err, backup.ErrArchive)
		}
		wantNothing(t, dir)
	}

	// Whole archives, but not of a store.
	dir := filepath.Join(t.TempDir(), "copy")
	if err := backup.Restore(t.Context(), bytes.NewReader(sums(t, whole[0])), dir); !errors.Is(err, kv.ErrNotExist) && !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("an archive of one file: %v", err)
	}
	wantNothing(t, dir)
}

// failing is a reader, or a writer, that fails, or ends a context, after some bytes.
type failing struct {
	from io.Reader
	n    int
	fail func() error
}

func (f *failing) Read(p []byte) (int, error) {
	if f.n -= len(p); f.n < 0 {
		if err := f.fail(); err != nil {
			return 0, err
		}
	}
	return f.from.Read(p)
}

func (f *failing) Write(p []byte) (int, error) {
	if f.n -= len(p); f.n < 0 {
		if err := f.fail(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// What is given up, or cannot be read or written on, leaves nothing.
func TestGivenUp(t *testing.T) {
	archive := archived(t, kv.Options{})
	top := t.TempDir()
	db := open(t, filepath.Join(top, "store"), kv.Options{})
	fill(t, db)
	cause := errors.New("the cause")
	var ctx context.Context
	var cancel context.CancelFunc
	for _, tt := range []struct {
		want error
		fail func() error
	}{
		{cause, func() error { return cause }},
		{context.Canceled, func() error { cancel(); return nil }},
	} {
		dir := filepath.Join(top, "copy")
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		if err := backup.Restore(ctx, &failing{bytes.NewReader(archive), len(archive) / 2, tt.fail}, dir); !errors.Is(err, tt.want) {
			t.Errorf("restore: %v, want %v", err, tt.want)
		}
		wantNothing(t, dir)
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		if err := backup.WriteTo(ctx, db, &failing{nil, 2000, tt.fail}, backup.Options{}); !errors.Is(err, tt.want) {
			t.Errorf("archive: %v, want %v", err, tt.want)
		}
		wantNothing(t, filepath.Join(top, "store", "archive"))
	}
	if err := backup.Make(ctx, db, filepath.Join(top, "copy"), backup.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("backup: %v", err)
	}
	wantNothing(t, filepath.Join(top, "copy"))
	wantRest, err := os.ReadDir(top)
	if err != nil || len(wantRest) != 1 {
		t.Errorf("%v is there, %v, want the store alone", wantRest, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := backup.Make(t.Context(), db, filepath.Join(top, "copy"), backup.Options{}); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("backup of a closed store: %v", err)
	}
}

// A store in memory is backed up to the disk.
func TestMake_fromMemory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "copy")
	db := open(t, "", kv.Options{InMemory: true})
	fill(t, db)
	if err := backup.Make(t.Context(), db, dir, backup.Options{Check: true}); err != nil {
		t.Fatal(err)
	}
	wantFilled(t, dir)
	if err := backup.Make(t.Context(), db, dir, backup.Options{}); !errors.Is(err, fs.ErrExist) || !errors.Is(err, kv.ErrUnfinishedBackup) {
		t.Errorf("a backup over another: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := backup.Make(ctx, db, dir+"2", backup.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a backup that was given up: %v", err)
	}
	wantNothing(t, dir+"2")
}

// A restore asks the disk for room before it writes, and leaves nothing if there is none.
func TestRestore_room(t *testing.T) {
	archive := archived(t, kv.Options{})
	defer backup.SetFreeSpace(func(string) (uint64, error) { return 100 << 20, nil })()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := backup.Restore(t.Context(), bytes.NewReader(archive), dir); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Error(err)
	}
	wantNothing(t, dir)
}

// What a restore leaves that is killed is no store.
func TestRestore_killed(t *testing.T) {
	archive := archived(t, kv.Options{})
	top := t.TempDir()
	dir := filepath.Join(top, "copy")
	killed := filepath.Join(t.TempDir(), "killed")
	in := &failing{bytes.NewReader(archive), len(archive) - 1, func() error {
		parts, err := filepath.Glob(dir + ".partial-*")
		if err != nil || len(parts) != 1 {
			t.Fatal(parts, err)
		}
		if err := os.CopyFS(killed, os.DirFS(parts[0])); err != nil {
			t.Fatal(err)
		}
		return nil
	}}
	if err := backup.Restore(t.Context(), in, dir); err != nil {
		t.Fatal(err)
	}
	wantFilled(t, dir)
	if _, err := kv.Open(killed, nil); !errors.Is(err, kv.ErrUnfinished) {
		t.Error(err)
	}
}

// Of two that make something under one name, the other was faster. The error says what is there, and nothing else is left.
func TestTaken(t *testing.T) {
	archive := archived(t, kv.Options{})
	for name, run := range map[string]func(dir string, other func()) error{
		"backup": func(dir string, other func()) error {
			db := open(t, filepath.Join(t.TempDir(), "store"), kv.Options{})
			fill(t, db)
			return backup.Make(t.Context(), db, dir, backup.Options{Progress: func(uint64, uint64) { other() }})
		},
		"backup of memory": func(dir string, other func()) error {
			db := open(t, "", kv.Options{InMemory: true})
			fill(t, db)
			return backup.Make(t.Context(), db, dir, backup.Options{Progress: func(uint64, uint64) { other() }})
		},
		"restore": func(dir string, other func()) error {
			return backup.Restore(t.Context(), io.MultiReader(bytes.NewReader(archive[:512]), reading(other), bytes.NewReader(archive[512:])), dir)
		},
	} {
		for want, make := range map[string]func(dir string) error{
			"a directory": func(dir string) error { return os.Mkdir(dir, 0o700) },
			"a file":      func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		} {
			top := t.TempDir()
			dir := filepath.Join(top, "new")
			err := run(dir, sync.OnceFunc(func() {
				if err := make(dir); err != nil {
					t.Error(err)
				}
			}))
			if !errors.Is(err, fs.ErrExist) || !strings.HasSuffix(err.Error(), ": "+dir+" is "+want+" already: want a name that nothing has") {
				t.Errorf("%s, where there is %s: %v", name, want, err)
			}
			if left, err := os.ReadDir(top); len(left) != 1 || err != nil {
				t.Errorf("%s, where there is %s: left %v, %v", name, want, left, err)
			}
		}
	}
}

// reading is a reader of nothing that calls a function when it is read.
type reading func()

func (r reading) Read([]byte) (int, error) {
	r()
	return 0, io.EOF
}
