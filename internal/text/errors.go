package text

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// DetailCarrier is how texts of Pebble's errors of damaged files end: with an error for programs, joined to the error for
// people.
const DetailCarrier = "\n<corruption detail carrier>"

// Plain returns an error's text for users of a program: without the names of Go packages, except in double quotes, and
// without DetailCarrier. The names backup and salvage stay: they are commands of kvshell too.
func Plain(text string) string {
	text = strings.ReplaceAll(text, DetailCarrier, "")
	return packageNames().ReplaceAllStringFunc(text, func(found string) string {
		if found[0] == '"' {
			return found
		}
		return packageNames().FindStringSubmatch(found)[1]
	})
}

// After returns err with words before its text, such as the name of a package and what was being done. The text has no
// other name of a package than the one in the words.
func After(err error, form string, args ...any) error {
	return afterError{fmt.Sprintf(form, args...), err}
}

type afterError struct {
	words string
	error
}

func (e afterError) Error() string { return e.words + ": " + Plain(e.error.Error()) }

func (e afterError) Unwrap() error { return e.error }

// Instead returns an error that is err for errors.Is, with a text of its own.
func Instead(err error, words string) error { return otherText{words, err} }

type otherText struct {
	words string
	error
}

func (e otherText) Error() string { return e.words }

func (e otherText) Unwrap() error { return e.error }

// packageNames matches a text in double quotes, or package names at the beginning of an error's text or of a wrapped
// error's text. Its group is what comes before the names.
var packageNames = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`"(?:[^"\\]|\\.)*"|(^|: |; |\n)(?:(?:` +
		`sievekv|kv|block|freeze|remains|storage|module|resp|server|txn|guard|portable|dashboard|` +
		`scalableext|bitmapext|bloomext|cuckooext|countingext|compaction|pebble|strconv` +
		`): )+`)
})
