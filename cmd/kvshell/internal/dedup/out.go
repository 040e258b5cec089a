package dedup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/input"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
	"github.com/sievekv/sievekv/internal/dirsync"
)

// tailLength is how many bytes at the end of OUT the hash in the record is of.
const tailLength = 64 << 10

// outFile is OUT.
type outFile struct {
	file   *os.File // nil if it does not exist yet
	path   string   // absolute
	length int64
	synced int64  // the part of length that no crash takes back
	dirty  bool   // something was written or cut off since the last sync
	tail   []byte // what the file has before length: at least its last tailLength bytes, or all if it is shorter

	// found is where the file ends, if a run that goes on with another finds bytes after length; otherwise it is 0.
	// These are lines that the other run wrote but did not record, which are overwritten, or bytes that somebody else
	// wrote, which are cut off. cut counts the bytes cut off.
	found int64
	cut   int64
}

// openOutFile opens OUT if it exists. If not, its directory must exist, and make makes it later.
func openOutFile(name string) (*outFile, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		if dir, missing := os.Stat(filepath.Dir(name)); missing != nil || !dir.IsDir() {
			return nil, err
		}
		return &outFile{path: system.RealPath(name)}, nil
	}
	if err != nil {
		return nil, err
	}
	o := &outFile{file: f, path: system.RealPath(name)}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file; without -o the lines go to standard output", name), f.Close())
	}
	o.length, o.dirty = info.Size(), true // what it has may not be synced
	if err := o.readTail(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return o, nil
}

// make makes OUT if it does not exist, and makes its name durable: a crash must not leave a record without the file.
func (o *outFile) make() (err error) {
	if o.file != nil {
		return nil
	}
	if o.file, err = os.OpenFile(o.path, os.O_RDWR|os.O_CREATE, 0o666); err != nil {
		return err
	}
	return errors.Join(o.take(), dirsync.Sync(filepath.Dir(o.path)))
}

// take locks OUT, if it exists, against other runs, which may be of other stores, and looks where it ends by then.
func (o *outFile) take() error {
	if o.file == nil {
		return nil
	}
	if !system.LockFile(o.file) {
		return fmt.Errorf("another run of dedup writes to %s: wait for its end, or name another OUT", o.path)
	}
	info, err := o.file.Stat()
	if err != nil {
		return err
	}
	o.length, o.dirty = info.Size(), true // somebody may have made or changed it meanwhile
	return o.readTail()
}

// readTail reads tail from the file.
func (o *outFile) readTail() error {
	o.tail = make([]byte, min(o.length, tailLength))
	_, err := o.file.ReadAt(o.tail, o.length-int64(len(o.tail)))
	return err
}

// tailSum returns the hash of the last tailLength bytes before length, or of all of them.
func (o *outFile) tailSum() uint64 {
	return xxhash.Sum64(o.tail[max(0, len(o.tail)-tailLength):])
}

// identity returns which file it is.
func (o *outFile) identity() (system.FileID, error) {
	info, err := o.file.Stat()
	if err != nil {
		return system.FileID{}, err
	}
	return system.IDOf(info), nil
}

// isFile reports whether OUT is the same file as f.
func (o *outFile) isFile(f *os.File) (bool, error) {
	if o.file == nil {
		return false, nil
	}
	mine, err := o.file.Stat()
	if err != nil {
		return false, err
	}
	theirs, err := f.Stat()
	if err != nil {
		return false, err
	}
	return os.SameFile(mine, theirs), nil
}

// notText returns what OUT is if it is no text, "" if it is one or missing.
func (o *outFile) notText() (string, error) {
	if o.file == nil {
		return "", nil
	}
	return input.NotAppendable(io.NewSectionReader(o.file, 0, o.length))
}

// goOn goes back to where OUT ended, as the record of an unfinished run says. It is an error if OUT is not what that
// run left. moved reports whether OUT is another file with the same bytes.
func (o *outFile) goOn(r *record) (moved bool, err error) {
	length := int64(r.outLength)
	if o.length < length {
		return false, fmt.Errorf("%s has %d bytes, but the unfinished run had written %d: it is not what it was; put it back, or give --restart: a new run appends to it",
			o.path, o.length, length)
	}
	if err := o.make(); err != nil {
		return false, err
	}
	o.found, o.length, o.synced, o.dirty = o.length, length, length, true
	if err := o.readTail(); err != nil || r.version == 1 {
		return false, err
	}
	if o.tailSum() != r.tailSum {
		return false, fmt.Errorf("%s is not what the unfinished run wrote: of its first %d bytes, the last %d differ; put the old file back, or give --restart to append to this one",
			o.path, length, len(o.tail))
	}
	file, err := o.identity()
	moved = file != r.file && file != system.FileID{} && r.file != system.FileID{}
	if err == nil && moved && length == 0 && o.found > 0 {
		err = fmt.Errorf("%s is not the file that the unfinished run made, which was empty: this one has %d bytes; move it away and go on, or give --restart to append to it", o.path, o.found)
	}
	return moved, err
}

// endLine ends a last line that has no line break, so that the next line is not joined to it.
func (o *outFile) endLine() error {
	if o.length == 0 {
		return nil
	}
	var last [1]byte
	if _, err := o.file.ReadAt(last[:], o.length-1); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if last[0] == '\n' {
		return nil
	}
	return o.write([]byte("\n"))
}

// write appends whole lines.
func (o *outFile) write(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	if err := o.compare(lines); err != nil {
		return err
	}
	o.dirty = true
	n, err := o.file.WriteAt(lines, o.length)
	o.length += int64(n)
	o.tail = append(o.tail, lines[:n]...)
	if len(o.tail) > 2*tailLength {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-tailLength:]...)
	}
	return err
}

// compare compares lines with the bytes that they are about to overwrite. If these differ, it cuts them off. Zeros do
// not count: a power failure may leave them.
func (o *outFile) compare(lines []byte) error {
	if o.found <= o.length {
		return nil
	}
	there := make([]byte, min(int64(len(lines)), o.found-o.length))
	if _, err := o.file.ReadAt(there, o.length); err != nil {
		return err
	}
	for i, c := range there {
		if c != lines[i] && c != 0 {
			return o.cutOff(o.length + int64(bytes.LastIndexByte(lines[:i], '\n')+1))
		}
	}
	return nil
}

// cutPath returns the file that takes what is cut off OUT.
func (o *outFile) cutPath() string { return o.path + ".cut" }

// cutOff cuts OUT off at a position, if bytes were found after it. It keeps them in another file, unless all are zeros.
func (o *outFile) cutOff(from int64) error {
	if o.found <= from {
		return nil
	}
	zeros, err := onlyZeros(o.foundFrom(from))
	if err == nil && !zeros {
		err = o.keep(from)
	}
	if err != nil {
		return err
	}
	o.found, o.dirty = 0, true
	return o.file.Truncate(from)
}

func (o *outFile) foundFrom(from int64) io.Reader {
	return io.NewSectionReader(o.file, from, o.found-from)
}

func onlyZeros(r io.Reader) (bool, error) {
	b := bufio.NewReader(r)
	for {
		c, err := b.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil, c != 0:
			return false, err
		}
	}
}

// keep appends what was found after a position to the file of cutPath, durably.
func (o *outFile) keep(from int64) error {
	info, err := o.file.Stat()
	if err != nil {
		return err
	}
	to, err := system.AppendTo(o.cutPath(), info.Mode().Perm())
	if err != nil {
		return err
	}
	n, err := io.Copy(to, o.foundFrom(from))
	if err == nil {
		err = to.Sync()
	}
	if err := errors.Join(err, to.Close()); err != nil {
		return err
	}
	o.cut += n
	return dirsync.Sync(filepath.Dir(o.path))
}

// sync brings what was written to stable storage.
func (o *outFile) sync() error {
	if !o.dirty {
		return nil
	}
	if err := o.file.Sync(); err != nil {
		return err
	}
	o.synced, o.dirty = o.length, false
	return nil
}

func (o *outFile) close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}
