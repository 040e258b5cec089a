// Package cmdline reads and writes command lines: words, quoted as for redis-cli where they need it.
package cmdline

import (
	"bytes"
	"slices"

	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/server/resp"
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

// Quoted returns a word in quotes, as replies show it and Split reads it.
func Quoted(word []byte) string {
	return string(bytes.TrimSuffix(reply.AppendText(nil, reply.Bulk(word)), []byte("\n")))
}
