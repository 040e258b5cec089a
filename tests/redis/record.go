package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/sievekv/sievekv/module/reply"
)

// record runs the commands of a file on Redis and writes them with its replies, one
// line each as Go strings, for a test that has no Redis.
func record(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	real, err := startRedis()
	if err != nil {
		return err
	}
	defer real.stop()
	version, err := real.do([]string{"INFO", "server"})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	_, rest, _ := strings.Cut(string(version[0].Bytes()), "redis_version:")
	number, _, _ := strings.Cut(rest, "\r\n")
	fmt.Fprintf(&out, "# Recorded with Redis %s by go run ./tests/redis --record. Each paragraph begins with an empty store.\n", number)
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "":
			if _, err := real.do([]string{"FLUSHALL"}); err != nil {
				return err
			}
			fmt.Fprintln(&out)
		default:
			words, err := split(line)
			if err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			replies, err := real.do(words)
			if err != nil {
				return err
			}
			fmt.Fprintf(&out, "%s => %q\n", line, reply.AppendText(nil, replies[0]))
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return os.WriteFile(to, out.Bytes(), 0o666)
}

// split returns the words of a line, those in double quotes being Go strings.
func split(line string) (words []string, err error) {
	for line = strings.TrimLeft(line, " "); line != ""; line = strings.TrimLeft(line, " ") {
		word := line
		if line[0] == '"' {
			if word, err = strconv.QuotedPrefix(line); err != nil {
				return nil, err
			}
		} else if end := strings.IndexByte(line, ' '); end >= 0 {
			word = line[:end]
		}
		line = line[len(word):]
		if word[0] == '"' {
			if word, err = strconv.Unquote(word); err != nil {
				return nil, err
			}
		}
		words = append(words, word)
	}
	return words, nil
}
