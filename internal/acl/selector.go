package acl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sievekv/sievekv/internal/glob"
	"github.com/sievekv/sievekv/module"
)

// access says what a command does with a key.
type access uint8

const (
	reads access = 1 << iota
	writes
)

// accessOf translates the flags of a key specification. As in Redis, only reading and changing the value counts:
// EXISTS does neither.
func accessOf(flags string) (a access) {
	for word := range strings.FieldsSeq(flags) {
		switch word {
		case "access":
			a |= reads
		case "insert", "delete", "update":
			a |= writes
		}
	}
	return a
}

// keyPattern allows some uses of the keys that match a pattern.
type keyPattern struct {
	text    string
	pattern *glob.Pattern
	does    access
}

func (p keyPattern) String() string {
	switch {
	case p.does == reads:
		return "%R~" + p.text
	case p.does == writes:
		return "%W~" + p.text
	case p.text == "*":
		return "%RW~*" // ~* would be the rule of all keys, which no other pattern may follow
	}
	return "~" + p.text
}

// selector is a set of commands and the keys they may use. It never changes after it is published.
type selector struct {
	// allowed are the commands that are allowed. allCommands also allows commands of later versions. base is +@all or
	// -@all, and rules are the rules applied after it, in order.
	allowed     map[*module.Command]bool
	allCommands bool
	base        string
	rules       []string

	// first are commands that are allowed only with certain first arguments.
	first map[*module.Command][]string

	allKeys bool
	keys    []keyPattern

	allChannels bool
	channels    []string
}

func newSelector() *selector {
	return &selector{allowed: make(map[*module.Command]bool), first: make(map[*module.Command][]string), base: "-@all"}
}

func (s *selector) clone() *selector {
	c := *s
	c.allowed, c.first = make(map[*module.Command]bool), make(map[*module.Command][]string)
	for cmd, ok := range s.allowed {
		c.allowed[cmd] = ok
	}
	for cmd, words := range s.first {
		c.first[cmd] = slices.Clone(words)
	}
	c.rules, c.keys, c.channels = slices.Clone(s.rules), slices.Clone(s.keys), slices.Clone(s.channels)
	return &c
}

// redisText is an error in the words of Redis.
type redisText string

func (t redisText) Error() string { return string(t) }

// The reasons why a rule is wrong, in the words of Redis.
const (
	errUnknown   = redisText("Unknown command or category name in ACL")
	errSyntax    = redisText("Syntax error")
	errKeys      = redisText("Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns")
	errChannels  = redisText("Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels")
	errNoSuch    = redisText("The password you are trying to remove from the user does not exist")
	errHash      = redisText("The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters")
	errUnmatched = redisText("Unmatched parenthesis in acl selector")
	errFirstArg  = redisText("Allowing first-arg of a subcommand is not supported")
)

// apply changes the selector by a rule. The error is one of the reasons above.
func (s *selector) apply(t *table, rule string) error {
	switch word := lower(rule); {
	case !isWord(rule):
		return errSyntax
	case word == "allkeys" || word == "~*":
		s.allKeys, s.keys = true, nil
	case word == "resetkeys":
		s.allKeys, s.keys = false, nil
	case word == "allchannels" || word == "&*":
		s.allChannels, s.channels = true, nil
	case word == "resetchannels":
		s.allChannels, s.channels = false, nil
	case word == "allcommands" || word == "+@all":
		s.setAll(t, true)
	case word == "nocommands" || word == "-@all":
		s.setAll(t, false)
	case rule[0] == '~' || rule[0] == '%':
		return s.addKeys(rule)
	case rule[0] == '&':
		return s.addChannel(rule[1:])
	case rule[0] == '+' || rule[0] == '-':
		return s.applyCommands(t, word[1:], rule[0] == '+')
	default:
		return errSyntax
	}
	return nil
}

func (s *selector) setAll(t *table, allow bool) {
	clear(s.allowed)
	clear(s.first)
	s.allCommands, s.base, s.rules = allow, "-@all", nil
	if !allow {
		return
	}
	s.base = "+@all"
	for _, cmd := range t.all {
		s.allowed[cmd] = true
	}
}

func (s *selector) addKeys(rule string) error {
	if s.allKeys {
		return errKeys
	}
	p := keyPattern{does: reads | writes}
	flags, text, found := strings.Cut(rule, "~")
	if !found {
		return errSyntax
	}
	if flags != "" {
		p.does = 0
		for _, letter := range strings.ToUpper(flags[1:]) {
			a := map[rune]access{'R': reads, 'W': writes}[letter]
			if a == 0 || p.does&a != 0 {
				return errSyntax
			}
			p.does |= a
		}
		if p.does == 0 {
			return errSyntax
		}
	}
	p.text = text
	var err error
	if p.pattern, err = glob.New(text); err != nil {
		return err
	}
	if i := slices.IndexFunc(s.keys, func(k keyPattern) bool { return k.text == text }); i >= 0 {
		s.keys[i].does |= p.does
		return nil
	}
	s.keys = append(s.keys, p)
	return nil
}

func (s *selector) addChannel(text string) error {
	if s.allChannels {
		return errChannels
	}
	if !slices.Contains(s.channels, text) {
		s.channels = append(s.channels, text)
	}
	return nil
}

// applyCommands allows or forbids the commands that a name in lower case stands for: a category, a command, a
// subcommand, or a command with a first argument.
func (s *selector) applyCommands(t *table, name string, allow bool) error {
	if category, ok := strings.CutPrefix(name, "@"); ok {
		commands := t.categories[category]
		if commands == nil {
			return errUnknown
		}
		for _, cmd := range commands {
			s.set(cmd, allow)
		}
		s.note(name, allow)
		return nil
	}
	if cmd := t.named[name]; cmd != nil {
		s.set(cmd, allow)
		for _, sub := range t.subcommands(cmd) {
			s.set(sub, allow)
		}
		s.note(name, allow)
		return nil
	}
	i := strings.LastIndexByte(name, '|')
	if i < 0 || !allow {
		return errUnknown
	}
	cmd, arg := t.named[name[:i]], name[i+1:]
	switch {
	case cmd == nil:
		return errUnknown
	case strings.Contains(cmd.Name, "|"):
		return errFirstArg
	case arg == "":
		return errSyntax
	case len(cmd.Subcommands) > 0:
		return errUnknown
	}
	if !slices.Contains(s.first[cmd], arg) {
		s.first[cmd] = append(s.first[cmd], arg)
	}
	s.note(name, allow)
	return nil
}

func (s *selector) set(cmd *module.Command, allow bool) {
	delete(s.first, cmd)
	if allow {
		s.allowed[cmd] = true
		return
	}
	delete(s.allowed, cmd)
	s.allCommands = false
}

// note appends a rule about commands. It removes rules that the new one overrides: the same one, and rules about parts
// of the same command.
func (s *selector) note(name string, allow bool) {
	s.rules = slices.DeleteFunc(s.rules, func(old string) bool {
		return old[1:] == name || strings.HasPrefix(old[1:], name+"|")
	})
	sign := "-"
	if allow {
		sign = "+"
	}
	s.rules = append(s.rules, sign+name)
}

// allows reports whether the selector allows the command, for some keys.
func (s *selector) allows(cmd *module.Command, args [][]byte) bool {
	if s.allCommands || s.allowed[cmd] {
		return true
	}
	words := s.first[cmd]
	return len(words) > 0 && len(args) > 0 && slices.Contains(words, lower(string(args[0])))
}

// readsAll reports whether the selector allows to read all keys.
func (s *selector) readsAll() bool {
	return s.allKeys || slices.ContainsFunc(s.keys, func(p keyPattern) bool { return p.does&reads != 0 && p.text == "*" })
}

// deniedKey returns the first of the command's keys that the command may not use in its way, nil if there is none,
// and the number of keys before it.
func (s *selector) deniedKey(cmd *module.Command, args [][]byte) (denied []byte, before int) {
	if s.allKeys {
		return nil, 0
	}
	cmd.Keys(args, func(key []byte, flags string) bool {
		if s.allowsKey(key, accessOf(flags)) {
			before++
			return true
		}
		denied = append([]byte{}, key...)
		return false
	})
	return denied, before
}

func (s *selector) allowsKey(key []byte, what access) bool {
	return slices.ContainsFunc(s.keys, func(p keyPattern) bool {
		return p.does&what == what && p.pattern.Match(key)
	})
}

// keysText, channelsText and commandsText are what GETUSER shows.
func (s *selector) keysText() string {
	if s.allKeys {
		return "~*"
	}
	words := make([]string, len(s.keys))
	for i, p := range s.keys {
		words[i] = p.String()
	}
	return strings.Join(words, " ")
}

func (s *selector) channelsText() string {
	if s.allChannels {
		return "&*"
	}
	words := make([]string, len(s.channels))
	for i, text := range s.channels {
		words[i] = "&" + text
	}
	return strings.Join(words, " ")
}

func (s *selector) commandsText() string {
	return strings.Join(append([]string{s.base}, s.rules...), " ")
}

// size returns roughly the length of String.
func (s *selector) size() (n int) {
	for _, p := range s.keys {
		n += len("%R~ ") + len(p.text)
	}
	for _, list := range [][]string{s.channels, s.rules} {
		for _, word := range list {
			n += len("& ") + len(word)
		}
	}
	return n
}

// String returns the rules that make the selector.
func (s *selector) String() string {
	var words []string
	if keys := s.keysText(); keys != "" {
		words = append(words, keys)
	}
	if !s.allChannels {
		words = append(words, "resetchannels")
	}
	if channels := s.channelsText(); channels != "" {
		words = append(words, channels)
	}
	return strings.Join(append(words, s.commandsText()), " ")
}

// isWord reports whether a line of an ACL file or a selector can have text as one word: it has at least one byte, and no
// ASCII space and no zero byte.
func isWord(text string) bool { return text != "" && !strings.ContainsAny(text, spaces+"\x00") }

// lower returns a word in lower case. As in Redis, only ASCII letters have a case, and all other bytes stay as they are.
func lower(word string) string {
	b := []byte(word)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// fields splits text at ASCII spaces. Other Unicode spaces may be part of names and patterns.
func fields(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(spaces, r) })
}

const spaces = " \t\n\v\f\r"

// table has the commands by name, in lower case, and by category.
type table struct {
	all        []*module.Command // with subcommands
	named      map[string]*module.Command
	categories map[string][]*module.Command
}

func newTable(commands []*module.Command) *table {
	t := &table{named: make(map[string]*module.Command), categories: make(map[string][]*module.Command)}
	add := func(cmd *module.Command) {
		t.all = append(t.all, cmd)
		t.named[cmd.LowerName()] = cmd
		for _, category := range cmd.AllCategories() {
			t.categories[category] = append(t.categories[category], cmd)
		}
	}
	for _, cmd := range commands {
		add(cmd)
		for _, sub := range t.subcommands(cmd) {
			add(sub)
		}
	}
	return t
}

func (t *table) subcommands(cmd *module.Command) []*module.Command {
	subs := make([]*module.Command, len(cmd.Subcommands))
	for i := range cmd.Subcommands {
		subs[i] = &cmd.Subcommands[i]
	}
	return subs
}

// RuleError says which rule is wrong, and why.
type RuleError struct {
	Rule   string
	Number int // of the rule, from 1
	Reason error
}

func (e *RuleError) Error() string {
	if e.Reason == errUnmatched {
		return fmt.Sprintf("%v starting at '%.128s'.", e.Reason, e.Rule)
	}
	return fmt.Sprintf("Error in ACL SETUSER modifier '%.128s': %v", e.Rule, e.Reason)
}

func (e *RuleError) Unwrap() error { return e.Reason }
