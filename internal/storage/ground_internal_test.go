package storage

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestGround_otherPath locks one directory by two paths, as of a mount: clean paths are told apart by their names, and
// these are not clean.
func TestGround_otherPath(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ first, second, want bool }{ // alone
		{true, true, false}, {true, false, false}, {false, true, false}, {false, false, true},
	} {
		first, err := takeGround(vfs.Default, dir, c.first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := takeGround(vfs.Default, dir+"/../"+filepath.Base(dir), c.second)
		switch {
		case c.want != (err == nil):
			t.Errorf("%+v: %v", c, err)
		case err != nil && !errors.Is(err, ErrLocked):
			t.Errorf("%+v: %v", c, err)
		case err == nil:
			err = second.Close()
		default:
			err = nil
		}
		if err = errors.Join(err, first.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGround_replaced has no operation on files reach a directory that is in the place of the locked one.
func TestGround_replaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(dir, 0o700))
	g, err := takeGround(vfs.Default, dir, true)
	must(err)
	must(os.Rename(dir, dir+".old"))
	must(os.Mkdir(dir, 0o700))
	name := filepath.Join(dir, "000001.log")
	must(os.WriteFile(name, []byte("another's"), 0o600))
	f := groundFS{vfs.Default, g}
	category := vfs.WriteCategoryUnspecified
	for what, op := range map[string]func() error{
		"Create":        func() error { _, err := f.Create(name, category); return err },
		"Open":          func() error { _, err := f.Open(name); return err },
		"OpenReadWrite": func() error { _, err := f.OpenReadWrite(name, category); return err },
		"OpenDir":       func() error { _, err := f.OpenDir(dir); return err },
		"ReuseForWrite": func() error { _, err := f.ReuseForWrite(name, name+".new", category); return err },
		"Link":          func() error { return f.Link(name, name+".new") },
		"Rename":        func() error { return f.Rename(name, name+".new") },
		"Remove":        func() error { return f.Remove(name) },
		"RemoveAll":     func() error { return f.RemoveAll(name) },
		"List":          func() error { _, err := f.List(dir); return err },
	} {
		if err := op(); !errors.Is(err, errGroundLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "another's" {
		t.Errorf("the other directory's file: %q, %v", text, err)
	}
	must(g.Close())
}
