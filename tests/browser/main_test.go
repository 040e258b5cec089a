package main

import "testing"

func TestRun(t *testing.T) {
	if err := run(t.Context(), options{shots: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
}
