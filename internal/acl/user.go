package acl

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sievekv/sievekv/module"
)

// User is one user. Its methods may be called from any goroutine. Each method sees either all or nothing of a change.
type User struct {
	name    string
	rules   atomic.Pointer[rules]
	removed atomic.Bool
}

// rules say what a user may do. They never change after they are published.
type rules struct {
	on, nopass   bool
	skipSanitize bool
	passwords    []string    // SHA-256, in hexadecimal digits
	selectors    []*selector // the first is the user's own
}

// freshRules returns the rules of a new user: it is off and may do nothing.
func freshRules() *rules { return &rules{selectors: []*selector{newSelector()}} }

func (r *rules) clone() *rules {
	c := *r
	c.passwords = slices.Clone(r.passwords)
	c.selectors = make([]*selector, len(r.selectors))
	for i, s := range r.selectors {
		c.selectors[i] = s.clone()
	}
	return &c
}

// apply applies one rule, or a whole selector in parentheses.
func (r *rules) apply(t *table, rule string) error {
	if rule == "" {
		return errSyntax
	}
	switch word := lower(rule); {
	case word == "on":
		r.on = true
	case word == "off":
		r.on = false
	case word == "nopass":
		r.nopass, r.passwords = true, nil
	case word == "resetpass":
		r.nopass, r.passwords = false, nil
	case word == "skip-sanitize-payload":
		r.skipSanitize = true
	case word == "sanitize-payload":
		r.skipSanitize = false
	case word == "reset":
		*r = *freshRules()
	case word == "clearselectors":
		r.selectors = r.selectors[:1]
	case rule[0] == '>':
		r.addPassword(hashOf([]byte(rule[1:])))
	case rule[0] == '#':
		if !isHash(rule[1:]) {
			return errHash
		}
		r.addPassword(rule[1:])
	case rule[0] == '<':
		return r.removePassword(hashOf([]byte(rule[1:])))
	case rule[0] == '!':
		if !isHash(rule[1:]) {
			return errHash
		}
		return r.removePassword(rule[1:])
	case rule[0] == '(' && rule[len(rule)-1] == ')':
		s := newSelector()
		for _, word := range fields(rule[1 : len(rule)-1]) {
			if strings.HasSuffix(word, ")") {
				return errSyntax // when the selector is shown, the parenthesis would end it
			}
			if err := s.apply(t, word); err != nil {
				return err
			}
		}
		r.selectors = append(r.selectors, s)
	default:
		return r.selectors[0].apply(t, rule)
	}
	return nil
}

func (r *rules) addPassword(hash string) {
	r.nopass = false
	if !slices.Contains(r.passwords, hash) {
		r.passwords = append(r.passwords, hash)
	}
}

func (r *rules) removePassword(hash string) error {
	i := slices.Index(r.passwords, hash)
	if i < 0 {
		return errNoSuch
	}
	r.passwords = slices.Delete(r.passwords, i, i+1)
	return nil
}

// hashOf returns the SHA-256 without salt, as Redis keeps and shows passwords. It is meant for long random passwords,
// such as GENPASS makes. It does not protect words that people choose.
func hashOf(password []byte) string {
	sum := sha256.Sum256(password)
	return hex.EncodeToString(sum[:])
}

func isHash(text string) bool {
	return len(text) == 2*sha256.Size && strings.Trim(text, "0123456789abcdef") == ""
}

// accepts reports whether the user is on and a password is right. The time it takes does not depend on the passwords.
func (r *rules) accepts(password []byte) bool {
	given, same := []byte(hashOf(password)), 0
	for _, hash := range r.passwords {
		same |= subtle.ConstantTimeCompare(given, []byte(hash))
	}
	return r.on && (r.nopass || same == 1)
}

func (r *rules) flags() []string {
	flags := []string{"off"}
	if r.on {
		flags = []string{"on"}
	}
	if r.nopass {
		flags = append(flags, "nopass")
	}
	if r.skipSanitize {
		return append(flags, "skip-sanitize-payload")
	}
	return append(flags, "sanitize-payload")
}

// Name returns the user's name.
func (u *User) Name() string { return u.name }

// Removed reports whether the user was removed. Then its connections must end.
func (u *User) Removed() bool { return u.removed.Load() }

// NoPassword reports whether anybody may log in as this user without a password.
func (u *User) NoPassword() bool {
	r := u.rules.Load()
	return r.on && r.nopass
}

// Size returns roughly the length of String, in bytes, without making it.
func (u *User) Size() int {
	const other = 64 // flags, and what is said of commands and channels
	r := u.rules.Load()
	n := len(u.name) + other + len(r.passwords)*other
	for _, s := range r.selectors {
		n += other + s.size()
	}
	return n
}

// String returns the user as a line of an ACL file. The line has the hashes of the passwords.
func (u *User) String() string {
	return u.rules.Load().line(u.name)
}

// line returns the rules as a line for the user with a name.
func (r *rules) line(name string) string {
	words := append([]string{"user", name}, r.flags()...)
	for _, hash := range r.passwords {
		words = append(words, "#"+hash)
	}
	for i, s := range r.selectors {
		if text := s.String(); i == 0 {
			words = append(words, text)
		} else {
			words = append(words, "("+text+")")
		}
	}
	return strings.Join(words, " ")
}

// Selector describes a selector for GETUSER.
type Selector struct{ Commands, Keys, Channels string }

// Description describes a user for GETUSER.
type Description struct {
	Flags, Passwords []string
	Selectors        []Selector // the first is the user's own
}

// Describe returns the description for GETUSER.
func (u *User) Describe() Description {
	r := u.rules.Load()
	d := Description{Flags: r.flags(), Passwords: slices.Clone(r.passwords)}
	for _, s := range r.selectors {
		d.Selectors = append(d.Selectors, Selector{s.commandsText(), s.keysText(), s.channelsText()})
	}
	return d
}

// Denial says what a user may not do.
type Denial struct {
	user    string
	command string
	key     []byte // nil if the command itself is not allowed
}

// Reason returns "command" or "key", as in ACL LOG.
func (d *Denial) Reason() string {
	if d.key != nil {
		return "key"
	}
	return "command"
}

// Object returns the command's name, or the key.
func (d *Denial) Object() string {
	if d.key != nil {
		return string(d.key)
	}
	return d.command
}

// Error returns the text of the error reply. It does not repeat the key, which the client has sent.
func (d *Denial) Error() string {
	if d.key != nil {
		return "No permissions to access a key"
	}
	return d.Verbose()
}

// Verbose returns the answer of ACL DRYRUN.
func (d *Denial) Verbose() string {
	if d.key != nil {
		return fmt.Sprintf("User %s has no permissions to access the '%s' key", d.user, d.key)
	}
	return fmt.Sprintf("User %s has no permissions to run the '%s' command", d.user, d.command)
}

// unrestricted are the commands that every user may run: commands that log in or leave.
var unrestricted = map[string]bool{"AUTH": true, "HELLO": true, "QUIT": true, "RESET": true}

// Check returns nil if the user may run a command. args are the words after the command's name, or after both words of
// a subcommand; their number must be valid. If several selectors allow the command but none allows all its keys, the
// denial comes from the selector that allowed most keys, and names the first key that it denies.
func (u *User) Check(cmd *module.Command, args [][]byte) *Denial {
	r := u.rules.Load()
	if own := r.selectors[0]; own.allCommands && own.allKeys || unrestricted[cmd.Name] {
		return nil
	}
	denial := &Denial{user: u.name, command: cmd.LowerName()}
	farthest := -1
	for _, s := range r.selectors {
		if !s.allows(cmd, args) || cmd.EveryKey != nil && cmd.EveryKey(args) && !s.readsAll() {
			continue
		}
		key, before := s.deniedKey(cmd, args)
		if key == nil {
			return nil
		}
		if before > farthest {
			denial.key, farthest = key, before
		}
	}
	return denial
}

// MaySee reports whether the user may see the arguments of another user's command: a user who may read all keys sees
// all commands, others only commands that name keys, if they may read all of these.
func (u *User) MaySee(cmd *module.Command, args [][]byte) bool {
	return len(args) == 0 || slices.ContainsFunc(u.rules.Load().selectors, func(s *selector) bool {
		if s.readsAll() {
			return true
		}
		sees := false
		cmd.Keys(args, func(key []byte, _ string) bool {
			sees = s.allowsKey(key, reads)
			return sees
		})
		return sees
	})
}

// joinSelectors joins the words of each selector in parentheses to one word: in commands and lines they come apart.
func joinSelectors(words []string) ([]string, error) {
	var joined []string
	open := -1
	for i, word := range words {
		switch {
		case open < 0 && strings.HasPrefix(word, "(") && !strings.HasSuffix(word, ")"):
			open = i
			continue
		case open < 0:
			joined = append(joined, word)
		case strings.HasSuffix(word, ")"):
			joined = append(joined, strings.Join(words[open:i+1], " "))
			open = -1
		}
	}
	if open >= 0 {
		return nil, &RuleError{words[open], len(joined) + 1, errUnmatched}
	}
	return joined, nil
}

// The errors for a name that a user cannot have.
const (
	errName   = redisText("Usernames can't contain spaces or null characters")
	errNoName = redisText("Usernames can't be empty")
)
