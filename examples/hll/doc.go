// Hll counts the different words it is given, in a store whose type for that is
// a module of its own: an example of a data type that a program brings along.
//
//	go run ./examples/hll                       counts words of its own, in memory
//	go run ./examples/hll -d ./demo - < FILE counts the lines of FILE, with the lines of earlier runs
//	go run ./examples/hll -d ./demo -without    shows the store to a program without the module
//
// # How to write a module
//
// A module.Module names types and commands; module.go has the one of this program. kv.Open takes
// a table of modules in Options.Modules: coreext.With makes one of the built-in commands and others.
//
//   - Choose the blocks. An object has layers of equal blocks; a write stores
//     only the bits or slots it changes, so let an operation change few, of one
//     block. Bits that are only ever set are the family kv.FamilyBits.
//   - A kv.Type has a name for TYPE, a format version, and Open, which decodes
//     the object's parameters into the module's own value: kv.As returns that
//     value, or the error for a missing key or another type. Verify, if there
//     is one, sees every block when the store is checked.
//   - A module.Command has its arity, flags and keys, and the texts that help,
//     COMMAND and arity errors are made of. Its Handler answers.
//   - A write is Call.Update with the keys and a function, which makes any number
//     of reads and changes with the Writer it is lent. It is one commit, whole
//     after a crash or not there at all; an error of the function's is the answer,
//     and nothing is written. Update returns when that is as durable as the session
//     asks for; also when nothing had to be changed.
//   - A lookup runs in Call.Read, by its Reader alone; it may be run twice.
//   - Whatever decides what stored bits mean, such as the hash seed, belongs
//     into the stored parameters: options may differ when the store is opened.
//
// Caching, crash safety, RENAME, DEL, expiry and checks are the store's affair.
package main
