package prompt

import (
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cmdline"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server/resp"
)

const (
	// maxKeysScanned and maxOffered bound what a Tab costs: how many keys it looks at, and how many words it offers.
	maxKeysScanned = 100_000
	maxOffered     = 200
)

// Completer finds what Tab offers at the prompt. What it knows of commands is in the command table, and of own words in
// their flags and Use lines, where KEY stands for a key, and FILE and OUT for files.
type Completer struct {
	Table  func() *module.Table                         // the command table
	Keys   func(prefix string) iter.Seq2[string, error] // keys, among them those that begin with a prefix
	Own    func() []*cobra.Command                      // new ones at each call
	Out    io.Writer                                    // for the syntax of a command
	Prompt func() string                                // what stands before the line

	// rows returns how many rows of the screen a line goes on in after the first; nil if in none.
	rows func(line string) int
}

// Complete is liner's WordCompleter: the words that the one left of pos, counted in characters, may become.
// If there are none, it prints the syntax of the line's command.
func (c *Completer) Complete(line string, pos int) (head string, words []string, tail string) {
	runes := []rune(line)
	left, tail := string(runes[:pos]), string(runes[pos:])
	typed, start, ok := splitPartial(left)
	if !ok {
		return left, nil, tail
	}
	partial := typed[len(typed)-1]
	offered := c.offer(typed[:len(typed)-1], partial)
	if len(offered) == 0 {
		if text := c.syntaxOf(typed); text != "" {
			fmt.Fprintf(c.Out, "\n%s\n", text)
			if c.rows != nil {
				// The editor takes away as many as the line has before it draws that again.
				fmt.Fprint(c.Out, strings.Repeat("\n", c.rows(line)))
			}
			return left, []string{""}, tail // so that the line is drawn again, below
		}
		return left, nil, tail
	}
	head, isQuoted := left[:start], strings.ContainsAny(left[start:], `"'`)
	return head, spell(offered, isQuoted, tail), tail
}

// splitPartial splits what is left of the cursor into its words. The last one, which may be empty, is the one to
// complete; it begins at byte start, and its quote need not be closed. It is not ok if another quote is wrong.
func splitPartial(left string) (typed []string, start int, ok bool) {
	for _, closing := range []string{"", `"`, `'`} {
		if typed, start, ok = splitWhole([]byte(left + closing)); ok {
			return typed, start, true
		}
	}
	return nil, 0, false
}

// splitWhole returns all words and where the last one begins, which is behind the line if that ends in a blank.
func splitWhole(line []byte) (typed []string, start int, ok bool) {
	s := resp.NewSplitter(line)
	for s.SkipBlanks() {
		start = s.Pos()
		word, err := s.Word()
		if err != nil {
			return nil, 0, false
		}
		if typed = append(typed, string(word)); s.Pos() == len(line) {
			return typed, start, true
		}
	}
	return append(typed, ""), len(line), true
}

// spell writes words as they are to stand in the line: quoted, all of them, if one has to be or the user
// began with a quote, so that they have as much in common as liner puts in. Behind the only one there is a blank,
// unless it is a directory, of which more may follow within the quotes.
func spell(words []string, isQuoted bool, tail string) []string {
	isQuoted = isQuoted || slices.ContainsFunc(words, needsQuotes)
	spelled := make([]string, len(words))
	for i, word := range words {
		spelled[i] = word
		if isQuoted {
			spelled[i] = cmdline.Quoted([]byte(word))
		}
	}
	switch {
	case len(words) > 1:
	case strings.HasSuffix(words[0], string(os.PathSeparator)):
		spelled[0] = strings.TrimSuffix(spelled[0], `"`)
	case tail == "":
		spelled[0] += " "
	}
	return spelled
}

// needsQuotes reports whether a word has to be quoted at a prompt: resp.Split would read something else, or a terminal
// would not show it.
func needsQuotes(word string) bool {
	if word == "" || !utf8.ValidString(word) {
		return true
	}
	return strings.ContainsFunc(word, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '"' || r == '\''
	})
}

// offer returns the words that partial may become after the words typed before it.
func (c *Completer) offer(typed []string, partial string) []string {
	if len(typed) > 0 && typed[0] == "--" { // a command of the store follows, whatever its name
		if typed = typed[1:]; len(typed) == 0 {
			return inCase(partial, c.commandNames())
		}
	} else if len(typed) == 0 {
		return slices.Concat(withPrefix(partial, c.ownNames()), inCase(partial, c.commandNames()))
	} else if cmd := FindWord(c.Own(), typed[0]); cmd != nil {
		return c.offerOwn(cmd, typed[1:], partial)
	}
	cmd := c.Table().Command([]byte(typed[0]))
	switch {
	case cmd == nil:
		return nil
	case isKey(cmd, len(typed)):
		return firstKeys(c.Keys(partial), partial)
	}
	return inCase(partial, nextWords(cmd, typed[1:]))
}

// offerOwn is offer for an own word, after whose name args were typed.
func (c *Completer) offerOwn(cmd *cobra.Command, args []string, partial string) []string {
	flags := cmd.Flags()
	positional := 0
	for i := 0; i < len(args); i++ {
		if !isFlagWord(args[i]) {
			positional++
			continue
		}
		if flag := flagBefore(flags, args[i]); flag != nil {
			if i++; i == len(args) {
				name, _ := pflag.UnquoteUsage(flag)
				return c.offerFor(name, partial)
			}
		}
	}
	if strings.HasPrefix(partial, "-") {
		var names []string
		flags.VisitAll(func(flag *pflag.Flag) { names = append(names, "--"+flag.Name) })
		return withPrefix(partial, names)
	}
	if places := Places(cmd); positional < len(places) {
		return c.offerFor(places[positional], partial)
	}
	return nil
}

// offerFor returns the words that partial may become where a Use line has a word such as KEY or FILE|-. Lower-case
// ones stand for themselves.
func (c *Completer) offerFor(place, partial string) (words []string) {
	for name := range strings.SplitSeq(place, "|") {
		switch name {
		case "KEY":
			words = append(words, firstKeys(c.Keys(partial), partial)...)
		case "FILE", "OUT":
			words = append(words, completeFiles(partial)...)
		case "WORD":
			words = append(words, withPrefix(partial, c.ownNames())...)
		case "COMMAND":
			words = append(words, inCase(partial, c.commandNames())...)
		case "@GROUP":
			words = append(words, withPrefix(partial, c.groups())...)
		case strings.ToLower(name):
			words = append(words, withPrefix(partial, []string{name})...)
		}
	}
	return words
}

// Places returns the words of a Use line that stand for arguments, up to the first flag.
func Places(cmd *cobra.Command) []string {
	words := strings.Fields(cmd.Use)[1:]
	for i, word := range words {
		words[i] = strings.Trim(word, "[]")
		if isFlagWord(words[i]) || words[i] == "flags" {
			return words[:i]
		}
	}
	return words
}

func isFlagWord(word string) bool { return len(word) > 1 && word[0] == '-' }

// flagBefore returns the flag, such as -o or --output, that takes the word after it for its value; nil if none does.
func flagBefore(flags *pflag.FlagSet, word string) *pflag.Flag {
	var flag *pflag.Flag
	if name, ok := strings.CutPrefix(word, "--"); ok {
		flag = flags.Lookup(name) // not with = in it
	} else if len(word) == len("-o") {
		flag = flags.ShorthandLookup(word[1:])
	}
	if flag == nil || flag.NoOptDefVal != "" {
		return nil
	}
	return flag
}

// isKey reports whether word i of a command line, the name being word 0, is a key. How many words follow is not
// known yet: where keys go on to a word near the end, all are keys.
func isKey(cmd *module.Command, i int) bool {
	if cmd.FirstKey == 0 || i < cmd.FirstKey || cmd.LastKey > 0 && i > cmd.LastKey {
		return false
	}
	return (i-cmd.FirstKey)%max(cmd.KeyStep, 1) == 0
}

// firstKeys returns, sorted, those keys that begin with a prefix, of as many as may be looked at.
func firstKeys(scan iter.Seq2[string, error], prefix string) (keys []string) {
	scanned := 0
	for key, err := range scan {
		if err != nil {
			break // nothing to offer; the next command will tell of it
		}
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
		if scanned++; scanned == maxKeysScanned || len(keys) == maxOffered {
			break
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// completeFiles returns names of files and, with a separator behind them, directories that begin with a prefix. Hidden
// ones have to be asked for by their dot.
func completeFiles(prefix string) (names []string) {
	dir, base := filepath.Split(prefix)
	entries, err := os.ReadDir(filepath.Clean(dir)) // of "" this is "."
	if err != nil {
		return nil // nothing to offer
	}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasPrefix(name, base) || base == "" && strings.HasPrefix(name, ".") {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, name)) // follows links
		if err == nil && info.IsDir() {
			name += string(filepath.Separator)
		}
		if names = append(names, dir+name); len(names) == maxOffered {
			break
		}
	}
	return names
}

// syntaxOf returns the usage of the command or own word that a line begins with; "" if it does not.
func (c *Completer) syntaxOf(typed []string) string {
	if typed[0] == "--" {
		typed = typed[1:]
	} else if cmd := FindWord(c.Own(), typed[0]); cmd != nil {
		return cmd.Use
	}
	if len(typed) == 0 {
		return ""
	}
	if cmd := c.Table().Command([]byte(typed[0])); cmd != nil {
		return cmd.Usage()
	}
	return ""
}

func (c *Completer) commandNames() (names []string) {
	for _, cmd := range c.Table().Commands() {
		names = append(names, cmd.Name)
	}
	return names
}

// groups returns the groups of commands as help takes them.
func (c *Completer) groups() (names []string) {
	for _, group := range c.Table().Groups() {
		names = append(names, "@"+group)
	}
	return names
}

func (c *Completer) ownNames() []string {
	var names []string
	for _, cmd := range c.Own() {
		names = append(names, cmd.Name())
	}
	return names
}

// FindWord returns the own word of a name; nil if there is none.
func FindWord(own []*cobra.Command, name string) *cobra.Command {
	for _, cmd := range own {
		if cmd.Name() == name || cmd.HasAlias(name) {
			return cmd
		}
	}
	return nil
}

func withPrefix(prefix string, words []string) (found []string) {
	for _, word := range words {
		if strings.HasPrefix(word, prefix) {
			found = append(found, word)
		}
	}
	return found
}

// inCase returns the upper-case words that begin with a prefix in any case: with the prefix as it was typed, and the
// rest in lower case if the prefix ends in a lower-case letter.
func inCase(prefix string, words []string) (found []string) {
	upper := strings.ToUpper(prefix)
	if len(upper) != len(prefix) {
		return nil // not ASCII, as some letters that have ASCII ones for upper case
	}
	letter := strings.LastIndexFunc(prefix, unicode.IsLetter)
	isLower := letter >= 0 && unicode.IsLower(rune(prefix[letter]))
	for _, word := range withPrefix(upper, words) {
		rest := word[len(prefix):]
		if isLower {
			rest = strings.ToLower(rest)
		}
		found = append(found, prefix+rest)
	}
	return found
}
