package cluster

import "bytes"

// NumSlots is the number of slots.
const NumSlots = 16384

// Slot returns the slot of a key: CRC-16 of the key modulo 16384. If the key has a part in braces that is not empty, that
// part is taken in place of the key, so that keys can be put into one slot: the part between the first { and the first }
// after it. (Redis Cluster specification, "Hash tags".)
func Slot(key []byte) int {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if n := bytes.IndexByte(key[open+1:], '}'); n > 0 {
			key = key[open+1 : open+1+n]
		}
	}
	return int(crc16(key)) % NumSlots
}

// crc16 is CRC-16/XMODEM: polynomial 0x1021, initial value 0, bits not reflected, nothing added at the end.
func crc16(p []byte) (sum uint16) {
	for _, b := range p {
		sum = sum<<8 ^ crcTable[byte(sum>>8)^b]
	}
	return sum
}

// crcTable has the sum of each byte.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		sum := uint16(i) << 8
		for range 8 {
			if carry := sum&0x8000 != 0; carry {
				sum = sum<<1 ^ 0x1021
			} else {
				sum <<= 1
			}
		}
		table[i] = sum
	}
	return table
}()
