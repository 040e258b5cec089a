// Package freeze keeps Pebble away from the errors it cannot survive, and from damage it does not notice.
//
// After an error on its log, its MANIFEST or the sync of its directory Pebble panics while it holds a lock, or calls
// Logger.Fatalf and, if that returns, goes on acknowledging writes it will not find again. Package freeze puts two
// things between Pebble and the disk:
//
//   - FS, a file system that at the first such error freezes the store's directory. From then on Pebble works against
//     a directory that only seems to change, and can be closed in peace. To the disk it is a crash at that instant.
//   - Space, a watch over the free space with a ballast file to give up, so that a full disk is noticed before it
//     becomes such an error.
//
// They are stacked like this, so that an ENOSPC freezes the directory only if it survives the removal of the ballast
// and the retry that follows:
//
//	Pebble -> FS -> Space.FS() (vfs.OnDiskFull) -> the real file system
//
// An open for which there is no descriptor is no such error: it is repeated, see descriptors.go.
//
// FS also looks at two kinds of file that Pebble reads up to the first damage, as if the rest had never been written:
// the MANIFEST (seal.go) and the log (log.go). See Verify.
//
// # Terminology
//
//   - Vital file: a write-ahead log (*.log), MANIFEST-*, marker.*, OPTIONS-* or temporary file (*.dbtmp). An error on
//     any of these, or of a sync of the directory, freezes.
//   - Other file: all else in the directory, above all tables (*.sst). Pebble answers an error on a table by building
//     the table again, so these errors are passed on. They freeze only while the store is being opened, which otherwise
//     would not end, and if a hundred of them in a row show that the disk takes nothing any more.
//   - Seal: the file SEAL, which says how much of the MANIFEST is known to be on the disk, and its checksum.
//   - Frozen: the state of the directory after Freeze or the first error that freezes. There is no way back; a new FS
//     on the same directory begins unfrozen.
//   - Sink: a vital file opened in a frozen directory. It takes everything and keeps nothing.
//
// # What a frozen directory does
//
// Every change to it reports success and goes nowhere: writes, syncs, creations, renames (of files that were never
// created, too), removals. Files keep the bytes they had and stay where they are. Reads work as before.
//
// Tables are the exception that makes Close reliable. Pebble reads the tables it has just written, it may have a
// writer waiting for a flush to make room, and Close waits for that writer and for all flushes. So a table that a flush
// makes in the frozen directory is kept in memory until Pebble removes it: it can be neither missing nor refused,
// whatever state the disk is in. A table that was half written at the instant of the freeze gets ErrFrozen from its
// next write; Pebble then builds it again, in memory. There is one byte of it for each of the memtables.
//
// Compactions end instead, with ErrFrozen: they would have the whole store in memory. But a writer may be waiting for
// one, when level 0 has too many tables; for as long as that is so, KeepCompactions allows them.
//
// # What is promised
//
// An operation that succeeded has really been done if Failed() is nil afterwards, or if the callback given to New has
// not run. So a commit may be acknowledged if one of them says so after its sync returned. When the callback runs, all
// changes that were under way have ended, and nothing in the directory changes any more.
//
// FS and Space may be used by any number of goroutines at once.
package freeze
