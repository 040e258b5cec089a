package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/kv/reply"
)

// runCommand runs one command of the store and prints its reply. Forced says that the command was set off
// from own words by --.
func (sh *shell) runCommand(root *cobra.Command, words []string, forced bool) (err error) {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	exec, _, err := sh.openFor(args)
	if err != nil {
		return err
	}
	defer exec.close(&err)
	var own []*cobra.Command
	if !forced {
		own = root.Commands()
	}
	r, err := sh.do(root.Context(), exec, args, own)
	if err != nil {
		return err
	}
	if code := replyCode(r); code != exitOK {
		return &codeError{code: code} // the reply said it
	}
	return root.Context().Err()
}

// do runs a command that a person typed: it prints the reply and what helps with it. Own are the own words that
// may have been meant.
func (sh *shell) do(ctx context.Context, exec executor, words [][]byte, own []*cobra.Command) (reply.Reply, error) {
	r, err := exec.do(ctx, words)
	if err != nil {
		return r, err
	}
	if err := sh.print(r); err != nil {
		return r, err
	}
	sh.hint(ctx, exec, words, r, own)
	return r, nil
}

func (sh *shell) print(r reply.Reply) error {
	text := sh.show.append(nil, r, sh.stdout)
	if r.IsError() {
		text = []byte(sh.paint(sh.stdout, string(text)))
	}
	_, err := sh.stdout.Write(text)
	return withCode(exitLocal, err)
}

// paint returns the text of an error as it is shown on out: in red on a terminal that has colours and is to
// show them (https://no-color.org).
func (sh *shell) paint(out *os.File, text string) string {
	term := os.Getenv("TERM")
	if !isTerminal(out) || os.Getenv("NO_COLOR") != "" || term == "" || term == "dumb" {
		return text
	}
	const red, plain = "\x1b[31m", "\x1b[0m"
	return red + text + plain
}
