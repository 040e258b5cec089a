// Package acl decides which user may run which command on which keys, by the rules of Redis' access control lists.
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
//   - selector: commands together with the keys they may use. A user has one selector of its own, and may have more, written
//     in parentheses. A command is allowed if one selector allows the command and all its keys.
//   - category: a set of commands, such as @read.
//   - denial: why a command is not allowed: the command itself, or a key.
//
// Rules about channels are parsed, kept and shown, but have no effect: there are no channels.
package acl
