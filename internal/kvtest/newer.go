package kvtest

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
)

// MakeNewer gives the store in a directory the seal of a far newer version, 255: see internal/freeze/seal.go for what a seal
// has in every version.
func MakeNewer(dir string) error {
	seal := []byte("SVSL\xffwhat only a newer version knows")
	seal = binary.LittleEndian.AppendUint32(seal, crc32.Checksum(seal, crc32.MakeTable(crc32.Castagnoli)))
	return os.WriteFile(filepath.Join(dir, "SEAL"), seal, 0o600)
}
