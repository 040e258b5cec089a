//go:build unix

package system

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file that is replaced keeps its mode, its owner and the links to it.
func TestReplace(t *testing.T) {
	for name, make := range map[string]func(t *testing.T, file, link string){
		"a file": func(*testing.T, string, string) {},
		"a link": func(t *testing.T, file, link string) {
			if err := os.Symlink(filepath.Base(file), link); err != nil {
				t.Fatal(err)
			}
		},
		"a link to a link": func(t *testing.T, file, link string) {
			if err := os.Symlink(file, link+"2"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(link+"2", link); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, mode := range []os.FileMode{0, 0o400, 0o644, 0o666} { // 0: there is no file yet
			dir := t.TempDir()
			file, path := filepath.Join(dir, "file"), filepath.Join(dir, "link")
			if make(t, file, path); name == "a file" {
				path = file
			}
			want := mode
			if mode == 0 {
				want = 0o600
			} else if err := makeFile(file, mode); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadDir(dir)
			got, err := Replace(path, func(f *os.File) error {
				if info, err := f.Stat(); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("while it is written, the mode is %v, %v", info.Mode(), err)
				}
				_, err := f.WriteString("new")
				return err
			})
			if real := RealPath(file); got != real || err != nil {
				t.Errorf("%s, %v: wrote %s, %v; want %s", name, mode, got, err, real)
			}
			info, err := os.Stat(file)
			if err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: the mode is %v, %v; want %v", name, info.Mode(), err, want)
			}
			if info, err := os.Lstat(path); err != nil || path != file && info.Mode()&os.ModeSymlink == 0 {
				t.Errorf("%s: the link has become %v, %v", name, info.Mode(), err)
			}
			if stat := info.Sys().(*syscall.Stat_t); os.Geteuid() == 0 && mode != 0 && (stat.Uid != 1234 || stat.Gid != 5678) {
				t.Errorf("%s: the owner is %d:%d", name, stat.Uid, stat.Gid)
			}
			if after, _ := os.ReadDir(dir); mode != 0 && len(after) != len(before) {
				t.Errorf("%s: left %v", name, after)
			}
		}
	}
}

// makeFile makes a file of another owner, if this user can.
func makeFile(path string, mode os.FileMode) error {
	if err := os.WriteFile(path, []byte("old and longer"), 0o600); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, 1234, 5678); err != nil {
			return err
		}
	}
	return os.Chmod(path, mode)
}
