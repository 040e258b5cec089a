//go:build unix

package system

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A link that somebody else made is not followed.
func TestAppendTo_link(t *testing.T) {
	dir := t.TempDir()
	path, target := filepath.Join(dir, "file"), filepath.Join(dir, "target")
	for _, there := range []bool{false, true} {
		if err := errors.Join(os.RemoveAll(path), os.Symlink(target, path)); err != nil {
			t.Fatal(err)
		}
		if there {
			if err := os.WriteFile(target, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if f, err := AppendTo(path, 0o600); err == nil {
			t.Errorf("a link to a file that is there (%t) is followed", there)
			_ = f.Close()
		}
		if _, err := os.Stat(target); (err == nil) != there {
			t.Errorf("the target was made: %v", err)
		}
	}
}
