package main

import (
	"os"

	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/module/reply"
)

// format says how replies are shown. Without a flag it is as in redis-cli: with types on a terminal, bare in a pipe
// or a file.
type format struct {
	json, raw, csv, text bool

	readable bool // letters of any script are shown as they are, at the prompt
}

// formatFlags exclude each other.
var formatFlags = []string{"json", "raw", "csv", "no-raw"}

func (f *format) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.json, "json", false, "show replies as JSON, one line each")
	flags.BoolVar(&f.raw, "raw", false, "show replies as bare values (default unless on a terminal)")
	flags.BoolVar(&f.csv, "csv", false, "show replies as lines of comma-separated values")
	flags.BoolVar(&f.text, "no-raw", false, "show replies with their types (default on a terminal)")
}

// append appends the text of a reply to show on out.
func (f *format) append(dst []byte, r reply.Reply, out *os.File) []byte {
	switch {
	case f.json:
		return reply.AppendJSON(dst, r)
	case f.csv:
		return reply.AppendCSV(dst, r)
	case f.raw || !f.text && !tty.IsTerminal(out):
		return reply.AppendRaw(dst, r)
	}
	if f.readable {
		return reply.AppendReadable(dst, r)
	}
	return reply.AppendText(dst, r)
}

// hasLabels reports whether replies are shown with their types on out.
func (f *format) hasLabels(out *os.File) bool {
	return !f.json && !f.csv && !f.raw && (f.text || tty.IsTerminal(out))
}

// formatNamed returns the format that the word output of the prompt has this name for. It is not ok for another name.
func formatNamed(name string) (f format, ok bool) {
	switch name {
	case "text":
		f.text = true
	case "raw":
		f.raw = true
	case "json":
		f.json = true
	case "csv":
		f.csv = true
	default:
		return f, false
	}
	return f, true
}
