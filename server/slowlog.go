package server

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// slowLog keeps the last slow commands, like Redis' SLOWLOG.
type slowLog struct {
	mu      sync.Mutex
	entries []slowEntry // newest last
	nextID  int64
}

type slowEntry struct {
	id           int64
	at           time.Time
	took         time.Duration
	words        []string
	client, name string
}

// How many words of a command, and bytes of a word, an entry keeps, as in Redis.
const (
	slowWords    = 32
	slowWordSize = 128
)

// keeps reports whether a command that took this long is slow.
func (l *slowLog) keeps(s *Server, took time.Duration) bool {
	least := s.slowerThan()
	return least >= 0 && took >= time.Duration(least)*time.Microsecond
}

// add keeps a command if it took at least as long as the setting says. It keeps no unknown command, whose name and
// arguments may be a password meant for AUTH.
func (l *slowLog) add(c *conn, cmd *module.Command, words [][]byte, at time.Time, took time.Duration) {
	if cmd == nil || !l.keeps(c.server, took) {
		return
	}
	e := slowEntry{at: at, took: took, words: slowCopy(cmd, words), client: c.address(), name: c.clientName()}
	most := int(c.server.host.SettingInt(slowMaxSetting))
	l.mu.Lock()
	defer l.mu.Unlock()
	e.id = l.nextID
	l.nextID++
	l.entries = append(l.entries, e)
	if over := len(l.entries) - most; over > 0 {
		l.entries = append(l.entries[:0], l.entries[over:]...)
	}
}

// slowCopy returns the words to keep.
func slowCopy(cmd *module.Command, words [][]byte) []string {
	words = withoutSecrets(cmd, words)
	var kept []string
	for i, w := range words {
		if i == slowWords-1 && len(words) > slowWords {
			return append(kept, fmt.Sprintf("... (%d more arguments)", len(words)-slowWords+1))
		}
		if over := len(w) - slowWordSize; over > 0 {
			kept = append(kept, fmt.Sprintf("%s... (%d more bytes)", w[:slowWordSize], over))
			continue
		}
		kept = append(kept, string(w))
	}
	return kept
}

// aboutUsers are the commands whose arguments may be passwords, also in the place of something else, such as a user's
// name.
var aboutUsers = map[string]bool{"AUTH": true, "HELLO": true, "ACL": true, "CONFIG": true, "CLIENT": true}

// withoutSecrets returns the words of a command without words that may be passwords.
func withoutSecrets(cmd *module.Command, words [][]byte) [][]byte {
	known := 1
	if hasSubcommand(cmd, words) {
		known = 2
	}
	if len(words) > known && (aboutUsers[cmd.Name] || known == 1 && len(cmd.Subcommands) > 0) {
		words = append(slices.Clone(words[:known]), []byte("(redacted)"))
	}
	return words
}

// hasSubcommand reports whether the second word is a subcommand of a command.
func hasSubcommand(cmd *module.Command, words [][]byte) bool {
	return len(words) > 1 && slices.ContainsFunc(cmd.Subcommands, func(sub module.Command) bool {
		_, name, _ := strings.Cut(sub.Name, "|")
		return isWord(words[1], name)
	})
}

func (l *slowLog) reset() {
	l.mu.Lock()
	l.entries = nil
	l.mu.Unlock()
}

func (l *slowLog) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// newest answers up to n entries, the newest first. For -1 it answers all.
func (l *slowLog) newest(c *module.Call, n int64) reply.Reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []reply.Reply
	var err error
	for i := len(l.entries) - 1; i >= 0 && (n < 0 || int64(len(list)) < n); i-- {
		e := &l.entries[i]
		words := make([]reply.Reply, len(e.words))
		for j, w := range e.words {
			words[j] = reply.BulkString(w)
		}
		list, err = c.Grow(list, reply.Array(reply.Int(e.id), reply.Int(e.at.Unix()), reply.Int(e.took.Microseconds()),
			reply.Array(words...), reply.BulkString(e.client), reply.BulkString(e.name)))
		if err != nil {
			return module.ErrorReply(err)
		}
	}
	return reply.Array(list...)
}

// slowLogCommands are the subcommands of SLOWLOG.
func slowLogCommands() []module.Command {
	sub := func(name string, arity int, syntax, summary string, f func(*Server, *module.Call) reply.Reply) module.Command {
		return module.Command{
			Name: name, Arity: arity, Flags: module.Admin, Syntax: syntax, Summary: summary,
			Handler: func(c *module.Call) reply.Reply {
				if s := serverOf(c); s != nil {
					return f(s, c)
				}
				return noServer(c)
			},
		}
	}
	return []module.Command{
		sub("GET", -2, "[count]", "Answers the last entries, at most count, 10 by default; -1 for all.", slowLogGet),
		sub("LEN", 2, "", "Answers how many entries there are.", func(s *Server, _ *module.Call) reply.Reply {
			return reply.Int(int64(s.slow.len()))
		}),
		sub("RESET", 2, "", "Drops all entries.", func(s *Server, _ *module.Call) reply.Reply {
			s.slow.reset()
			return reply.OK
		}),
	}
}

func slowLogGet(s *Server, c *module.Call) reply.Reply {
	n, refused := countArgument(c, -1, reply.Error("ERR count should be greater than or equal to -1"))
	if refused != nil {
		return *refused
	}
	return s.slow.newest(c, n)
}

// countArgument returns the only argument of a command as a count, 10 if there is none. It refuses more arguments
// with an arity error, and an argument that is not a number from least on with bad.
func countArgument(c *module.Call, least int64, bad reply.Reply) (n int64, refused *reply.Reply) {
	switch len(c.Args) {
	case 0:
		return 10, nil
	case 1:
		if n, ok := text.ParseInt(c.Args[0]); ok && n >= least {
			return n, nil
		}
		return 0, &bad
	}
	arity := module.WrongArity(c.Command)
	return 0, &arity
}
