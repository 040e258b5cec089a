package main

import (
	"fmt"
	"os"
	"testing"
)

// The test binary is the server, too.
func TestMain(m *testing.M) {
	if dir := os.Getenv(serveVariable); dir != "" {
		fmt.Fprintln(os.Stderr, serve(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestRun(t *testing.T) {
	lost, err := run(t.Context(), 3, 7, false)
	if err != nil || lost > 0 {
		t.Errorf("%d lost or torn, %v", lost, err)
	}
}
