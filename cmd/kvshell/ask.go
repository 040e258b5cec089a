package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cmdline"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/module/reply"
)

// questions are what the prompt asks before it runs a command whose effect cannot be taken back.
type questions struct {
	off   bool
	added map[[2]string]int // how often an item was added here to a cuckoo filter, by key and item
}

// maxAdded is how many items questions remember.
const maxAdded = 10_000

// allow reports whether a command is to be run: it asks, if there is something to ask.
func (p *interactive) allow(ctx context.Context, words [][]byte) (bool, error) {
	if string(words[0]) == "--" {
		words = words[1:]
	}
	if p.questions.off || len(words) == 0 {
		return true, nil
	}
	question := p.question(ctx, words)
	if question == "" {
		return true, nil
	}
	yes, err := p.editor.Confirm(ctx, question+" [y/N] ", p.interrupts)
	if err == nil && !yes {
		fmt.Fprintln(p.shell.stderr, "not run")
	}
	return yes, err
}

// question returns what to ask before a command, "" for nothing.
func (p *interactive) question(ctx context.Context, words [][]byte) string {
	switch name := text.FoldCase(words[0]); {
	case name == "FLUSHALL", name == "FLUSHDB":
		if keys, ok := p.askAside(ctx, "DBSIZE"); ok && keys == 0 {
			return ""
		} else if ok {
			return fmt.Sprintf("%s removes all keys, which are %d. Run it?", name, keys)
		}
		return name + " removes all keys. Run it?"
	case name == "CF.DEL" && len(words) == 3 && p.questions.added[itemOf(words)] == 0:
		if there, ok := p.askAside(ctx, "CF.EXISTS", string(words[1]), string(words[2])); ok && there == 0 {
			return "" // nothing will be deleted
		}
		return fmt.Sprintf("Was %s added? If not, CF.DEL can delete another item. Run it?", cmdline.Quoted(words[2]))
	}
	return ""
}

// askAside returns the number that a command answers. It is not ok if there is none.
func (p *interactive) askAside(ctx context.Context, words ...string) (n int64, ok bool) {
	r, err := p.exec.Aside(ctx, words...)
	return r.Int(), err == nil && (r.Kind() == reply.KindInt || r.Kind() == reply.KindBool)
}

// itemOf returns the key and the item of a command.
func itemOf(words [][]byte) [2]string { return [2]string{string(words[1]), string(words[2])} }

// note remembers which items were added at this prompt: their deletion needs no question. It forgets all of them after a command
// of another kind, which may have removed, renamed or replaced the filter.
func (q *questions) note(words [][]byte, r reply.Reply) {
	if !strings.HasPrefix(text.FoldCase(words[0]), "CF.") {
		q.added = nil
		return
	}
	if len(words) != 3 || r.Kind() != reply.KindInt && r.Kind() != reply.KindBool || r.Int() != 1 {
		return
	}
	switch text.FoldCase(words[0]) {
	case "CF.ADD", "CF.ADDNX":
		if len(q.added) >= maxAdded || q.added == nil {
			q.added = make(map[[2]string]int)
		}
		q.added[itemOf(words)]++
	case "CF.DEL":
		if q.added[itemOf(words)] > 0 {
			q.added[itemOf(words)]--
		}
	}
}

func (p *interactive) askCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ask on|off", Short: "Says whether to ask before FLUSHALL, FLUSHDB and CF.DEL of what was perhaps never added", Args: exactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return p.questions.set(args[0]) },
	}
}

func (q *questions) set(word string) error {
	on, err := isOn("ask", word)
	if err == nil {
		q.off = !on
	}
	return err
}

// isOn returns what the argument of an own word says.
func isOn(name, word string) (bool, error) {
	if word != "on" && word != "off" {
		return false, exit.Usagef("%s %s: must be on or off", name, word)
	}
	return word == "on", nil
}
