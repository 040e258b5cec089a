//go:build unix

package serve

import (
	"log/slog"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/module"
)

// SIGHUP does not end a process that has closed its service, either: it has yet to tell its exit code.
func TestService_hangupAfterClose(t *testing.T) {
	var f Flags
	f.Register(pflag.NewFlagSet("serve", pflag.ContinueOnError))
	s, err := New(t.Context(), &f, module.New(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-s.hangups
}
