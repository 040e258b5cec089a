package module

import "github.com/sievekv/sievekv/module/reply"

// KeyCounts counts the keys that commands of category read have looked up.
type KeyCounts struct{ Found, Missing uint64 }

// Missing counts keys that the call has not found. A handler calls it once it has the answer.
func (c *Call) Missing(keys int) { c.Session.missing += keys }

// countKeys counts the keys of calls of a command, which have the same number of words. Commands that have failed count
// for nothing.
func (s *Session) countKeys(cmd *Command, args [][]byte, calls int, r reply.Reply) {
	if cmd.Flags&ReadOnly != 0 && cmd.FirstKey > 0 && !r.IsError() {
		s.Keys.Missing += uint64(s.missing)
		s.Keys.Found += uint64(calls*cmd.numKeys(args) - s.missing)
	}
	s.missing = 0
}

// numKeys returns how many of a command's arguments are keys.
func (c *Command) numKeys(args [][]byte) (n int) {
	if c.FirstKey == c.LastKey {
		return 1
	}
	c.Keys(args, func([]byte, string) bool { n++; return true })
	return n
}
