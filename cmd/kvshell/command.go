package main

import (
	"bytes"
	"fmt"

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
	db, _, err := sh.openFor(args)
	if err != nil {
		return err
	}
	defer closeStore(db, &err)
	r := db.NewSession().Do(root.Context(), args)
	if err := sh.print(r); err != nil {
		return err
	}
	if !forced && isUnknown(r) {
		for _, word := range root.SuggestionsFor(words[0]) {
			fmt.Fprintf(sh.stderr, "kvshell: did you mean the word %s? See kvshell help %[1]s\n", word)
		}
	}
	if code := replyCode(r); code != exitOK {
		return &codeError{code: code} // the reply said it
	}
	return root.Context().Err()
}

func isUnknown(r reply.Reply) bool {
	return r.IsError() && bytes.HasPrefix(r.Bytes(), []byte("ERR unknown command "))
}

func (sh *shell) print(r reply.Reply) error {
	_, err := sh.stdout.Write(sh.show.append(nil, r, sh.stdout))
	return withCode(exitLocal, err)
}
