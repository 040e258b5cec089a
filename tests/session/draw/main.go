// Draw runs kvshell, and draws the session that the README shows.
//
//	go run ./tests/session/draw -o docs/session.svg
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/sievekv/sievekv/tests/process"
	"github.com/sievekv/sievekv/tests/session"
)

func main() {
	output := flag.String("o", "session.svg", "the file to draw to")
	flag.Parse()
	if err := draw(*output); err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

func draw(output string) (err error) {
	kvshell, err := process.Build()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kvshell.Remove()) }()
	lines, err := session.Record(kvshell.Path())
	if err != nil {
		return err
	}
	return os.WriteFile(output, session.Draw(lines), 0o666)
}
