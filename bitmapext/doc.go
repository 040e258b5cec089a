// Package bitmapext has bitmaps: strings whose bits are set, cleared and counted one by one. It behaves as Redis does:
// bit 0 is the highest bit of byte 0, a bitmap is a string, and every command on strings sees the same bytes.
//
// # Two forms
//
// A string is kept in its key's header, or in blocks of 8 KiB. This package changes the form, and no caller can tell:
//
//   - A string that SET or a transaction writes is in the header, whatever its length.
//   - A string that is changed in place (a bit, a part, bytes at its end) stays in the header up to MaxInline bytes.
//     Beyond, it is in blocks from then on. A change then writes only the bytes that change.
//   - The result of BITOP is in the header up to MaxInline bytes, otherwise in blocks.
//
// So a string in blocks is longer than MaxInline. Blocks without a set bit are not stored, and blocks with few are
// stored as roaring bitmaps (package internal/block). So a bit at 4,000,000,000 takes one block, on disk and in memory.
//
// # Blocks
//
// A string in blocks is an object of slots of 8 bits, one for each byte of the string. format.go says which block has
// which byte, and what the counters hold.
package bitmapext
