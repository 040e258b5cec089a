package acl

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sievekv/sievekv/module"
)

// DefaultUser is the name of the user of a connection that has not logged in. It cannot be removed.
const DefaultUser = "default"

// Lists has the users of a server. Its methods may be called from any goroutine.
type Lists struct {
	table *table
	mu    sync.RWMutex
	users map[string]*User // guarded by mu; always has DefaultUser
}

// New returns lists with the default user alone, which may do everything without a password. commands are the store's
// commands without subcommands.
func New(commands []*module.Command) *Lists {
	l := &Lists{table: newTable(commands), users: make(map[string]*User)}
	l.users[DefaultUser] = l.freshDefault()
	return l
}

func (l *Lists) freshDefault() *User {
	u := &User{name: DefaultUser}
	r, err := l.change(DefaultUser, freshRules(), []string{"on", "nopass", "~*", "&*", "+@all"})
	if err != nil {
		panic(err) // the rules above are valid
	}
	u.rules.Store(r)
	return u
}

// change returns a copy of the rules r of the user with a name, changed by words. If one is wrong, it returns a
// *RuleError for the first wrong one. The result is one line of an ACL file, which makes the same user when it is read.
func (l *Lists) change(name string, r *rules, words []string) (*rules, error) {
	switch {
	case name == "":
		return nil, errNoName
	case !isWord(name):
		return nil, errName
	}
	words, err := joinSelectors(words)
	if err != nil {
		return nil, err
	}
	r = r.clone()
	for i, rule := range words {
		if err := r.apply(l.table, rule); err != nil {
			return nil, &RuleError{rule, i + 1, err}
		}
	}
	if n := len(r.line(name)); n >= maxLine {
		return nil, redisText(fmt.Sprintf("The rules of user '%.128s' are %d bytes as a line of an ACL file, want less than %d", name, n, maxLine))
	}
	return r, nil
}

// Set changes a user by rules. If one is wrong, it changes nothing. A new user starts switched off, without any
// permission.
func (l *Lists) Set(name string, words []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.users[name]
	before := freshRules()
	if u != nil {
		before = u.rules.Load()
	}
	r, err := l.change(name, before, words)
	if err != nil {
		return err
	}
	if u == nil {
		u = &User{name: name}
		l.users[name] = u
	}
	u.rules.Store(r)
	return nil
}

// User returns the user with a name, nil if there is none.
func (l *Lists) User(name string) *User {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.users[name]
}

// Default returns the default user.
func (l *Lists) Default() *User { return l.User(DefaultUser) }

// Users returns all users, sorted by name.
func (l *Lists) Users() []*User {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.SortedFunc(maps.Values(l.users), func(a, b *User) int { return strings.Compare(a.name, b.name) })
}

// Login returns the user with a name and a password. It returns nil if there is no such user, the password is wrong,
// or the user is off.
func (l *Lists) Login(name string, password []byte) *User {
	u := l.User(name)
	if u == nil {
		freshRules().accepts(password) // takes as long as for a known name, so that nobody can find out names
		return nil
	}
	if !u.rules.Load().accepts(password) {
		return nil
	}
	return u
}

// Remove removes a user, except the default user, and reports whether it did.
func (l *Lists) Remove(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.users[name]
	if u == nil || name == DefaultUser {
		return false
	}
	delete(l.users, name)
	u.removed.Store(true)
	return true
}

// Categories returns the sorted names of all categories, without the @.
func (l *Lists) Categories() []string { return slices.Sorted(maps.Keys(l.table.categories)) }

// InCategory returns the names of the commands in a category in the order of the table, subcommands as "config|get".
// It returns nil if there is no such category.
func (l *Lists) InCategory(name string) []string {
	var names []string
	for _, cmd := range l.table.categories[lower(name)] {
		names = append(names, cmd.LowerName())
	}
	return names
}

// maxLine is the most bytes of a line in an ACL file, with its end.
const maxLine = 1 << 20

// Load replaces all users by the users of an ACL file. Its lines are "user NAME RULE...", empty, or comments that begin
// with #. Users that are in the file keep their connections. Users that are not in the file are removed; if the default
// user is not, it gets its initial rules. If any line is wrong, Load changes nothing, and the error names every wrong
// line, and in it the number of the first wrong rule.
func (l *Lists) Load(name string, file io.Reader) error {
	loaded := make(map[string]*rules)
	var errs []error
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		line := lines.Text()
		if n == 1 {
			line = strings.TrimPrefix(line, "\ufeff") // a byte order mark, which editors on Windows write
			if strings.HasPrefix(line, "\xff\xfe") || strings.HasPrefix(line, "\xfe\xff") {
				return fmt.Errorf("%s:1: the file is in UTF-16, want UTF-8", name)
			}
		}
		words := fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := l.loadLine(loaded, words); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", name, n, err))
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("the line is too long, want less than %d bytes", maxLine)
		}
		errs = append(errs, fmt.Errorf("%s:%d: %w", name, n+1, err))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if loaded[DefaultUser] == nil {
		loaded[DefaultUser] = l.freshDefault().rules.Load()
	}
	for name, u := range l.users {
		if loaded[name] == nil {
			delete(l.users, name)
			u.removed.Store(true)
		}
	}
	for name, r := range loaded {
		u := l.users[name]
		if u == nil {
			u = &User{name: name}
			l.users[name] = u
		}
		u.rules.Store(r)
	}
	return nil
}

func (l *Lists) loadLine(loaded map[string]*rules, words []string) error {
	if words[0] != "user" || len(words) < 2 {
		return errors.New("line should start with user keyword followed by the user name")
	}
	name := words[1]
	if loaded[name] != nil {
		return fmt.Errorf("duplicate user '%.128s' found", name)
	}
	r, err := l.change(name, freshRules(), words[2:])
	if wrong := (*RuleError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("rule %d: %w", wrong.Number, wrong.Reason) // its text may be a password, and logs have this error
	}
	if err != nil {
		return err
	}
	loaded[name] = r
	return nil
}

// Save writes all users as lines of an ACL file.
func (l *Lists) Save(file io.Writer) error {
	for _, u := range l.Users() {
		if _, err := fmt.Fprintln(file, u); err != nil {
			return err
		}
	}
	return nil
}

// Command returns the command or subcommand that words call, nil if there is none, and its arguments.
func (l *Lists) Command(words [][]byte) (cmd *module.Command, args [][]byte) {
	name := lower(string(words[0]))
	cmd = l.table.named[name]
	switch {
	case cmd == nil || strings.Contains(name, "|"):
		return nil, nil
	case len(cmd.Subcommands) == 0 || len(words) == 1:
		return cmd, words[1:]
	}
	return l.table.named[name+"|"+lower(string(words[1]))], words[2:]
}
