package system

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestRealPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.Mkdir(filepath.Join(dir, "sub"), 0o777),
		os.WriteFile(filepath.Join(dir, "sub", "file"), nil, 0o666),
		os.Symlink("sub", filepath.Join(dir, "link")),
	); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, want string }{
		{"sub/file", "sub/file"},
		{"link/file", "sub/file"},
		{"sub/../link/./file", "sub/file"},
		{"link/absent", "sub/absent"},
		{"absent/file", "absent/file"},
	}
	for _, tt := range tests {
		if got, want := RealPath(filepath.Join(dir, tt.name)), filepath.Join(dir, tt.want); got != want {
			t.Errorf("%s: %s, want %s", tt.name, got, want)
		}
	}
}
