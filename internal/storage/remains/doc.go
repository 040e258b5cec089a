// Package remains reads the rest of a damaged store. It finds out which files are damaged and which keys are affected,
// and presents the rest as a store that can be opened read-only. It never writes to the store's directory.
//
// # What a damaged file takes away
//
//   - A table (*.sst) has blocks with a checksum each. A block that is damaged takes away the keys in it. It may also
//     have held the newest version of a key, or its deletion, while an older version is in another table. So every key
//     between the neighbours of a damaged block is lost, whatever other tables say: that is a Range in Remains.Lost. If
//     the deletions of ranges of keys in a table cannot be read, all keys in the bounds of the table are lost. The same
//     holds for a missing table.
//   - A log (*.log) that is damaged or missing is read up to the damage. The logs after it are not read. The rest is
//     the store as it was at an earlier commit.
//   - The MANIFEST says which tables belong to the store. Without it, tables that were obsolete cannot be told from
//     the others, and bring back what was deleted. Remains.Guessed says so.
//   - All other files can be done without.
//
// FS is the file system with the rest.
package remains
