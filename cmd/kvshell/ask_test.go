package main

import (
	"testing"

	"github.com/sievekv/sievekv/module/reply"
)

// Only what was surely added at this prompt, and is there, is deleted without a question.
func TestQuestions_note(t *testing.T) {
	type command struct {
		answer int64
		words  []string
	}
	for _, tt := range []struct {
		name  string
		run   []command
		asked string // key of the item that is deleted next
		item  string
		known bool
	}{
		{"added", []command{{1, []string{"CF.ADD", "k", "a"}}}, "k", "a", true},
		{"added to another key", []command{{1, []string{"CF.ADD", "k", "a"}}}, "l", "a", false},
		{"added, key and item divided elsewhere", []command{{1, []string{"CF.ADD", "k\x00a", "b"}}}, "k", "a\x00b", false},
		{"refused", []command{{0, []string{"cf.addnx", "k", "a"}}}, "k", "a", false},
		{"deleted again", []command{{1, []string{"CF.ADD", "k", "a"}}, {1, []string{"CF.DEL", "k", "a"}}}, "k", "a", false},
		{"looked up meanwhile", []command{{1, []string{"CF.ADD", "k", "a"}}, {1, []string{"CF.EXISTS", "k", "a"}}}, "k", "a", true},
		{"the filter was removed", []command{{1, []string{"CF.ADD", "k", "a"}}, {1, []string{"del", "k"}}}, "k", "a", false},
		{"the filter was replaced", []command{{1, []string{"CF.ADD", "k", "a"}}, {1, []string{"RENAME", "l", "k"}}}, "k", "a", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var q questions
			for _, c := range tt.run {
				words := make([][]byte, len(c.words))
				for i, word := range c.words {
					words[i] = []byte(word)
				}
				q.note(words, reply.Int(c.answer))
			}
			asked := itemOf([][]byte{[]byte("CF.DEL"), []byte(tt.asked), []byte(tt.item)})
			if known := q.added[asked] > 0; known != tt.known {
				t.Errorf("known = %t, want %t", known, tt.known)
			}
		})
	}
}
