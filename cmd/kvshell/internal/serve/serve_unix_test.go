//go:build unix

package serve

import (
	"log/slog"
	"os"
	"os/signal"
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
	own := make(chan os.Signal, 1) // without it the test would end when it fails
	signal.Notify(own, syscall.SIGHUP)
	defer signal.Stop(own)
	for range 2 { // the first is delivered to all before the second
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		<-own
	}
	select {
	case <-s.hangups:
	default:
		t.Error("SIGHUP would have ended the process")
	}
}
