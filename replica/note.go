package replica

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	iofs "io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/dirsync"
	"github.com/sievekv/sievekv/internal/member"
)

// noteName is a file that names the member of the directory, and its group: the log has that, too, but may be damaged,
// or gone, or another's. It is one line:
//
//	sievekv member 1: group GROUP, member ID, checksum CRC
//
// GROUP are 32 hexadecimal digits, ID 16, and CRC the 8 of the CRC-32 (IEEE) of everything before ", checksum".
const noteName = "MEMBER"

// who names a member of a group.
type who struct {
	group [16]byte
	id    uint64
}

var errNote = errors.New("the file " + noteName + " is damaged")

func (w who) line() string {
	text := fmt.Sprintf("sievekv member 1: group %x, member %016x", w.group[:], w.id)
	return fmt.Sprintf("%s, checksum %08x\n", text, crc32.ChecksumIEEE([]byte(text)))
}

// writeNote writes the file, durably.
func writeNote(fs vfs.FS, dir string, w who) error {
	name := fs.PathJoin(dir, noteName)
	f, err := fs.Create(name+".tmp", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(w.line()))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(name+".tmp", name); err != nil {
		return err
	}
	return dirsync.Strict(fs, dir)
}

// readNote reads the file. There is none in a directory of no member.
func readNote(fs vfs.FS, dir string) (w who, there bool, err error) {
	name := fs.PathJoin(dir, noteName)
	info, err := fs.Stat(name)
	if errors.Is(err, iofs.ErrNotExist) {
		return w, false, nil
	}
	if err == nil && !info.Mode().IsRegular() { // opening a pipe would wait for a writer
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return w, false, err
	}
	f, err := fs.Open(name)
	if err != nil {
		return w, false, err
	}
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err = errors.Join(err, f.Close()); err != nil {
		return w, false, err
	}
	var group []byte
	if n, _ := fmt.Sscanf(string(b), "sievekv member 1: group %x, member %x,", &group, &w.id); n == 2 && len(group) == len(w.group) {
		copy(w.group[:], group)
	}
	if w.line() != string(b) {
		return w, false, fmt.Errorf("%s: %w", dir, errNote)
	}
	return w, true, nil
}

// noLog returns the error for a directory without a log.
func (o *Options) noLog(dir string) error {
	w, there, err := readNote(o.fileSystem(), dir)
	switch {
	case err != nil:
		return err
	case there:
		return refusedf("%s is of member %x, but the log of the group, directory %s, is gone, and what the member had answered for with it", dir, w.id, logDir)
	}
	return fmt.Errorf("%s: %w", dir, ErrNoMember)
}

// checkNote refuses a log that does not belong to the directory's member: two processes would be the same member.
func (n *Node) checkNote() error {
	is := who{n.group, n.id}
	noted, there, err := readNote(n.fs, n.dir)
	switch {
	case err != nil:
		return err
	case !there:
		return writeNote(n.fs, n.dir, is)
	case noted != is:
		return refusedf("%s is of member %x of group %x, but its log is of member %x of group %x: the log of another was put in its place",
			n.dir, noted.id, noted.group, is.id, is.group)
	}
	return nil
}

// refusedf returns an error that says that a log or a store has lost something, or is another's.
func refusedf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{member.ErrRefused}, args...)...)
}
