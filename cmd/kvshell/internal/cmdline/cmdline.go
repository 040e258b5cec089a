// Package cmdline splits command lines into words, and quotes words, in the way of redis-cli.
package cmdline

import (
	"bytes"
	"slices"

	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/module/reply"
)

// Words returns the words of a command.
func Words(words ...string) [][]byte {
	b := make([][]byte, len(words))
	for i, word := range words {
		b[i] = []byte(word)
	}
	return slices.Clip(b)
}

// Split returns the words of a line; none for a blank line or a comment.
func Split(line []byte) ([][]byte, error) {
	line = bytes.TrimLeft(line, " \t")
	if bytes.HasPrefix(line, []byte("#")) {
		return nil, nil
	}
	return resp.Split(line)
}

// CutPipe cuts a line at a word that is | without quotes: a program follows, for a shell.
func CutPipe(line string) (command, program string, found bool) {
	s := resp.NewSplitter([]byte(line))
	for s.SkipBlanks() {
		begin := s.Pos()
		if _, err := s.Word(); err != nil {
			break
		}
		if line[begin:s.Pos()] == "|" {
			return line[:begin], line[s.Pos():], true
		}
	}
	return line, "", false
}

// Quoted returns a word in the quotes that replies show and Split reads.
func Quoted(word []byte) string {
	return string(bytes.TrimSuffix(reply.AppendText(nil, reply.Bulk(word)), []byte("\n")))
}
