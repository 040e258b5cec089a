package main

import "testing"

func TestReplay(t *testing.T) {
	found, err := replay(1500, 3, func(int) bool { return false })
	if err != nil || found.Differ > 0 || found.Keys < 50 || found.Blocks < 20 || found.records < 100 || found.refused > found.commands/4 {
		t.Errorf("%v, %v", err, found)
	}
}

// A record that is lost is noticed.
func TestReplay_lost(t *testing.T) {
	n := 0
	found, err := replay(1500, 3, func(i int) bool { n = max(n, i); return i >= 200 && i%10 == 0 })
	if err != nil || found.Differ == 0 {
		t.Errorf("%v, %v, of %d records every tenth was lost", err, found, n)
	}
}
