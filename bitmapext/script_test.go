package bitmapext_test

import "strings"

// words splits a command line at blanks.
func words(line string) (list [][]byte) {
	for _, w := range strings.Fields(line) {
		list = append(list, []byte(w))
	}
	return list
}
