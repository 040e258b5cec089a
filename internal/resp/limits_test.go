package resp_test

import (
	"strings"
	"testing"

	"github.com/sievekv/sievekv/internal/resp"
)

// A command that has come in part keeps the limits that it began with; the next has the new ones.
func TestDecoder_SetLimits_part(t *testing.T) {
	command := "*2\r\n$3\r\nGET\r\n$10\r\n0123456789\r\n"
	for at := len("*2\r\n"); at < len(command); at++ { // when the number of words has come it has begun
		d := resp.NewDecoder(resp.Limits{})
		fill := func(part string) {
			if _, err := d.Fill(strings.NewReader(part)); err != nil {
				t.Fatal(err)
			}
		}
		fill(command[:at])
		if words, ok, err := d.Next(); ok || err != nil {
			t.Fatalf("of %d bytes: %q, %v, %v", at, words, ok, err)
		}
		d.SetLimits(resp.Limits{Bulk: 5})
		fill(command[at:] + command)
		if words, ok, err := d.Next(); !ok || err != nil || len(words) != 2 {
			t.Errorf("begun by %d bytes: %q, %v, %v", at, words, ok, err)
		}
		if words, ok, err := d.Next(); ok || errorText(err) != "Protocol error: invalid bulk length" {
			t.Errorf("after one begun by %d bytes: %q, %v, %v", at, words, ok, err)
		}
	}
}
