package storage

import "fmt"

// FullDisk returns a message about a full disk: how much is free, when writes stop and go on, and what helps if the
// whole file system is too small for them.
func FullDisk(s *Store) string {
	until := "only deletions are accepted until then"
	if s.Space.Exhausted() {
		until = "the reserve is used up, so deletions are refused, too"
	}
	text := fmt.Sprintf("%d bytes are free in %s; writes stop below %d (Options.MinFreeSpace) and go on above %d, %s",
		s.Space.Free(), s.Dir, s.opts.MinFreeSpace, s.Space.Enough(), until)
	if s.Space.TooSmall() {
		text += fmt.Sprintf("; the whole file system has %d: with a smaller Options.MemTableSize and BallastSize, or MinFreeSpace, that can be enough", s.Space.Total())
	}
	return text
}
