package kvtest

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/sievekv/sievekv/kv/freeze"
)

// NewerSeal returns a seal as a newer version of this program would write it: with the next version, and more in it.
func NewerSeal() []byte {
	b := append([]byte(freeze.SealMagic), freeze.SealVersion+1)
	b = append(b, "what only a newer version knows"...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// MakeNewer gives the store in a directory the seal of a newer version.
func MakeNewer(dir string) error {
	return os.WriteFile(filepath.Join(dir, freeze.SealName), NewerSeal(), 0o600)
}
