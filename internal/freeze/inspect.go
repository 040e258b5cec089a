package freeze

import (
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Sealed is how much of a MANIFEST the seal knows.
type Sealed struct {
	Number, Length uint64
	crc            uint32
}

// Matches reports whether a MANIFEST begins with what is sealed.
func (s Sealed) Matches(data []byte) bool {
	return uint64(len(data)) >= s.Length && crc32.Checksum(data[:s.Length], castagnoli) == s.crc
}

// ReadSeal returns what the seal of a directory knows, the older MANIFEST first; nothing if there is no seal. It
// returns the errors of Verify.
func ReadSeal(base vfs.FS, dir string) (list []Sealed, err error) {
	known, err := New(base, dir, nil).readSeal()
	for _, s := range known {
		list = append(list, Sealed{s.number, s.length, s.crc})
	}
	return list, err
}

// CheckLog returns ErrDamaged if a log is damaged in a way that Pebble would take for its end.
func CheckLog(f vfs.File, number uint64) error { return checkLog(f, uint32(number)) }

// EachRecord calls f with each whole record of a log, also with records behind broken chunks, if it is known where the
// next chunk begins. F may keep the record.
func EachRecord(log []byte, number uint64, f func(record []byte)) {
	var record []byte // its chunks up to here, nil if one of them is broken
	for ; len(log) > 0; log = log[min(logBlock, len(log)):] {
		for rest := log[:min(logBlock, len(log))]; len(rest) >= chunkHeadLen; {
			length := chunkLen(rest, uint32(number))
			if length == 0 {
				record = nil
				break
			}
			chunk := rest[:length]
			rest = rest[length:]
			if kind := chunk[6]; kind <= firstKind+1 { // a whole record, or the first part of one
				record = []byte{}
			}
			if !isWhole(chunk) {
				record = nil
			}
			if record == nil {
				continue
			}
			record = append(record, chunk[chunkHeadLen:]...)
			if kind := chunk[6]; kind == firstKind || kind == lastKind { // a whole one, or the last part
				f(record)
				record = nil
			}
		}
	}
}

// VerifyReadOnly is Verify for a process that only reads: it changes nothing.
func (fs *FS) VerifyReadOnly() error {
	s := &fs.seal
	s.mu.Lock()
	defer s.mu.Unlock()
	list, err := fs.readSeal()
	if err != nil {
		return err
	}
	number, ok, err := fs.currentManifest()
	if err != nil {
		return err
	}
	s.kept = true
	if !ok {
		return nil
	}
	_, err = fs.compare(list, number)
	return err
}
