//go:build unix

package input

import (
	"strings"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
)

// A device that never ends is refused before it takes much memory.
func TestInput_device(t *testing.T) {
	in, err := Open(t.Context(), "/dev/zero", nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	in.Start(nil)
	b, err := in.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if exit.Code(b.Err) != exit.Refused || !strings.Contains(b.Err.Error(), "a line of more than 4194304 bytes") {
		t.Errorf("the error is %v", b.Err)
	}
}
