// Package acl decides which user may run which command on which keys, by the rules of Redis'
// access control lists.
//
//	lists := acl.New(module.Of(db).Commands())
//	err := lists.Set("reader", []string{"on", ">secret", "~user:*", "+@read"})
//	...
//	user := lists.Login("reader", []byte("secret")) // nil if refused
//	denial := user.Check(command, args)             // nil if allowed
//
// # Terminology
//
//   - rule: one word that changes a user, such as on, >password, ~pattern, +command, -@category.
//   - selector: commands and keys that go together. A user has one, and may have more in
//     parentheses; a command is allowed if one of the selectors allows it with all its keys.
//   - category: a set of commands, such as @read.
//   - denial: why a command is not allowed: the command itself, or a key.
//
// Channels are parsed, kept and shown, and stand for nothing, as there are none.
package acl
