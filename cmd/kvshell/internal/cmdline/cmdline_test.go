package cmdline

import "testing"

func TestCutPipe(t *testing.T) {
	for _, tt := range []struct {
		line, command, program string
		found                  bool
	}{
		{"KEYS * | sort -r | head", "KEYS * ", " sort -r | head", true},
		{"KEYS *", "KEYS *", "", false},
		{`SET k "|" | wc`, `SET k "|" `, " wc", true},
		{`SET k '|'`, `SET k '|'`, "", false},
		{"SET k a|b", "SET k a|b", "", false},
		{`SET k "a | b`, `SET k "a | b`, "", false},
		{"| sort", "", " sort", true},
		{"ECHO a |", "ECHO a ", "", true},
	} {
		command, program, found := CutPipe(tt.line)
		if command != tt.command || program != tt.program || found != tt.found {
			t.Errorf("%s is %q, %q, %v, want %q, %q, %v", tt.line, command, program, found, tt.command, tt.program, tt.found)
		}
	}
}
