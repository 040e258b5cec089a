package files

import (
	"bytes"
	"encoding/binary"
)

// How files begin. Each function gets the first headLen bytes of a file, or all of a shorter one.
const headLen = 64

// verdict is what the beginning of a file says about its writer.
type verdict int

const (
	unknown verdict = iota // too short, or zeros
	ours
	strangers
)

func verdictOf(is bool) verdict {
	if is {
		return ours
	}
	return strangers
}

// isText reports whether the beginning of a file is a line of text. It decides about files that are too short for
// anything else.
func isText(head []byte) bool {
	printable := func(c byte) bool { return c == '\n' || c == '\r' || c == '\t' || c >= ' ' && c <= '~' }
	for _, c := range head {
		if !printable(c) {
			return false
		}
	}
	return bytes.HasSuffix(head, []byte("\n"))
}

// short is the verdict on a file that has fewer bytes than its kind begins with.
func short(head []byte) verdict {
	if isText(head) {
		return strangers
	}
	return unknown
}

// beginsLog looks at the header of a log's first chunk: checksum 4, length 2, kind 1, number of the log 4. A log that
// reuses an older log's file may still begin as that. One damaged byte makes no log a stray file.
func beginsLog(head []byte, number uint64) verdict {
	const withNumber, lastKind = 5, 12 // the kinds of chunks that have the number of the log
	if len(head) < 11 {
		return short(head)
	}
	var want [4]byte
	binary.LittleEndian.PutUint32(want[:], uint32(number)) // a chunk has the lower 32 bits
	equal := 0
	for i, c := range head[7:11] {
		if c == want[i] {
			equal++
		}
	}
	isKind := withNumber <= head[6] && head[6] <= lastKind
	older := uint64(binary.LittleEndian.Uint32(head[7:])) <= number
	return verdictOf(equal == 4 || isKind && (older || equal == 3))
}

// beginsTable knows a text from a table, and nothing else: what a table begins with depends on its keys. The lengths at the
// beginning of a table's first block have zeros.
func beginsTable(head []byte, _ uint64) verdict {
	switch {
	case len(head) < 7:
		return short(head)
	case !bytes.ContainsFunc(head, func(c rune) bool { return c < ' ' && c != '\n' && c != '\r' && c != '\t' }):
		return strangers
	}
	return unknown
}

// beginsManifest looks at the first record of a MANIFEST. After the head of the chunk, 7 bytes, it has the name of the
// order of keys.
func beginsManifest(head []byte, _ uint64) verdict {
	if len(head) <= 7 {
		return short(head)
	}
	return verdictOf(begins(head[7:], "\x01\x1aleveldb.BytewiseComparator"))
}

func beginsOptions(head []byte, _ uint64) verdict { return verdictOf(begins(head, "[Version]\n")) }

// begins reports whether a file begins with a text, or with a part of it and no more. One byte may be damaged.
func begins(head []byte, text string) bool {
	wrong := 0
	for i := range min(len(head), len(text)) {
		if head[i] != text[i] {
			wrong++
		}
	}
	return wrong == 0 || wrong == 1 && len(head) >= len(text)
}
