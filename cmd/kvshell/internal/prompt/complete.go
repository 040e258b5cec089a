package prompt

import (
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
	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

const (
	// These bound the work of a Tab: the keys that it looks at, and the words that it offers.
	maxKeysScanned = 100_000
	maxOffered     = 200
)

// Completer finds what Tab offers at the prompt. It knows commands from the command table, and own words from their
// flags and Use lines. In a Use line KEY stands for a key, and FILE and OUT stand for files.
type Completer struct {
	Table func() *module.Table                         // the command table
	Known func() *module.Table                         // the same if a server need not be asked for it, otherwise nil
	Keys  func(prefix string) iter.Seq2[string, error] // all keys that begin with a prefix, and perhaps others
	Own   func() []*cobra.Command                      // own words, made again at each call
}

// Complete returns the words that the word at the end of left may become, which stays up to head.
func (c *Completer) Complete(left, tail string) (head string, words []string) {
	typed, start, ok := splitPartial(left)
	if !ok {
		return left, nil
	}
	partial := typed[len(typed)-1]
	offered := c.Offer(typed[:len(typed)-1], partial)
	if len(offered) == 0 {
		return left, nil
	}
	isQuoted := strings.ContainsAny(left[start:], `"'`)
	return left[:start], spell(offered, isQuoted, tail)
}

// Describe returns the syntax of the command that a line begins with, "" if it begins with none.
func (c *Completer) Describe(left string) string {
	typed, _, ok := splitPartial(left)
	if !ok {
		return ""
	}
	return reply.Printable(c.syntaxOf(typed))
}

// splitPartial splits the text left of the cursor into words. The last word, which may be empty, is the one to
// complete. It begins at byte start, and its quote may be open. It is not ok if another quote is wrong.
func splitPartial(left string) (typed []string, start int, ok bool) {
	for _, closing := range []string{"", `"`, `'`} {
		if typed, start, ok = splitWhole([]byte(left + closing)); ok {
			return typed, start, true
		}
	}
	return nil, 0, false
}

// splitWhole returns all words, and where the last one begins. If the line ends in a blank, the last word is empty
// and begins at its end.
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

// spell returns words in the form in which they go into the line. If one of them needs quotes, or the user began with
// a quote, all get quotes: the editor inserts what all of them begin with. A single word is followed by a blank, unless it
// is a directory: then more may follow within the quotes.
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

// needsQuotes reports whether a word needs quotes at a prompt: without them resp.Split would read another word, or a
// terminal would not show this one.
func needsQuotes(word string) bool {
	if word == "" || !utf8.ValidString(word) {
		return true
	}
	return strings.ContainsFunc(word, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '"' || r == '\''
	})
}

// Offer returns the words that partial may become after the words typed before it.
func (c *Completer) Offer(typed []string, partial string) []string {
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

// offerOwn is Offer for an own word after which args were typed.
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

// offerFor returns the words that partial may become in place of a word of a Use line, such as KEY or FILE|-. A word
// in lower case stands for itself.
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

// flagBefore returns the flag that word is, such as -o or --output, if the next word is its value; otherwise nil.
func flagBefore(flags *pflag.FlagSet, word string) *pflag.Flag {
	var flag *pflag.Flag
	if name, ok := strings.CutPrefix(word, "--"); ok {
		flag = flags.Lookup(name) // nil for --name=value
	} else if len(word) == len("-o") {
		flag = flags.ShorthandLookup(word[1:])
	}
	if flag == nil || flag.NoOptDefVal != "" {
		return nil
	}
	return flag
}

// isKey reports whether word i of a command line is a key; the command's name is word 0. How many words will follow
// is not known: if the last key is counted from the end, all words after the first key may be keys.
func isKey(cmd *module.Command, i int) bool {
	if cmd.FirstKey == 0 || i < cmd.FirstKey || cmd.LastKey > 0 && i > cmd.LastKey {
		return false
	}
	return (i-cmd.FirstKey)%max(cmd.KeyStep, 1) == 0
}

// firstKeys returns, sorted, keys that begin with a prefix, within the bounds above.
func firstKeys(scan iter.Seq2[string, error], prefix string) (keys []string) {
	scanned := 0
	for key, err := range scan {
		if err != nil {
			break // the next command will have the same error
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

// completeFiles returns names of files and directories that begin with a prefix; directories end in a separator. It
// returns hidden ones only if the prefix has their dot.
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

// syntaxOf returns the usage of the command or own word that a line begins with, "" if it begins with neither.
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

// groups returns the groups of commands, in the form that help takes.
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

// inCase returns the upper-case words that begin with a prefix in any case, with the prefix as it was typed; the rest
// is in lower case if the last letter of the prefix is.
func inCase(prefix string, words []string) (found []string) {
	upper := strings.ToUpper(prefix)
	if len(upper) != len(prefix) {
		return nil // the prefix is not ASCII, but its upper case may be
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
