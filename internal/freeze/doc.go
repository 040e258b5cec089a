// Package freeze keeps Pebble away from the errors it cannot survive, and from damage it does not notice.
//
// Pebble does not survive an error on its log, on its MANIFEST, or of a sync of its directory. It panics while it
// holds a lock, or it calls Logger.Fatalf and, if that returns, goes on acknowledging writes that it will not find
// again. So package freeze puts two things between Pebble and the disk:
//
//   - FS is a file system that freezes the store's directory at the first such error. From then on Pebble works on a
//     directory that only seems to change, and can be closed in peace. On the disk this looks like a crash at that
//     instant.
//   - Space watches the free space, and keeps a ballast file that it can remove. So a full disk is noticed before it
//     becomes such an error.
//
// They are stacked as follows. An ENOSPC freezes the directory only if it happens again after the ballast was
// removed:
//
//	Pebble -> FS -> Space.FS() (vfs.OnDiskFull) -> the real file system
//
// An open that fails for lack of a descriptor is no such error: it is tried again, see descriptors.go.
//
// FS also checks two kinds of file, the MANIFEST (seal.go) and the log (log.go). Pebble reads them up to the first
// damage, as if the rest had never been written. See Verify.
//
// # Terminology
//
//   - Vital file: a write-ahead log (*.log), MANIFEST-*, marker.*, OPTIONS-* or temporary file (*.dbtmp). An error on
//     one of these freezes the directory, as does an error of a sync of the directory.
//   - Other file: every other file in the directory, above all tables (*.sst). When Pebble gets an error on a table
//     it builds the table again, so these errors are passed on. They freeze the directory in two cases only: while
//     the store is being opened, because opening would otherwise never end; and after a hundred of them in a row,
//     because the disk then takes nothing any more.
//   - Seal: the file SEAL. It says how much of the MANIFEST is known to be on the disk, and the checksum of that
//     part.
//   - Frozen: the state of the directory after Freeze, or after the first error that freezes. It does not end; but a
//     new FS on the same directory begins unfrozen.
//   - Sink: a vital file opened in a frozen directory. It accepts every write and keeps nothing.
//
// # What a frozen directory does
//
// Every change to it reports success and does nothing: writes, syncs, creations, removals, and renames, also of files
// that were never created. Files keep the bytes they had and stay where they are. Reads work as before.
//
// Tables are an exception, so that Close can end. Pebble reads the tables that it has just written. A writer may be
// waiting for a flush to make room, and Close waits for that writer and for all flushes. So a table that a flush
// makes in the frozen directory is kept in memory until Pebble removes it: whatever the disk does, Pebble can write
// and read it. A table that was half written at the instant of the freeze gets ErrFrozen from its next write; Pebble
// then builds it again, in memory. Together these tables take about as much memory as the memtables that they are
// made of.
//
// Compactions fail with ErrFrozen instead: their tables would bring the whole store into memory. But when level 0 has
// too many tables, a writer may be waiting for a compaction. KeepCompactions allows them for as long as that is so.
//
// # What is promised
//
// An operation that reported success has really been done if Failed() is nil afterwards, or if the callback given to
// New has not run by then. So a commit may be acknowledged if, after its sync returned, one of these holds. When the
// callback runs, all changes that were under way have ended, and nothing in the directory changes any more.
//
// Any number of goroutines may use FS and Space at once.
package freeze
