package replica

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/sievekv/sievekv/internal/entry"
	"github.com/sievekv/sievekv/internal/format"
)

// Token has what a new member must know of its group. It is no secret among members, but has the seeds of the store's
// hashes.
type Token struct {
	group    [16]byte
	identity format.StoreMeta
	self     Info
	peers    []Info
	level    byte // of the group
}

// A token begins with one of these. The second is for groups above level 1, and the level in one byte follows it:
// programs that know only the first cannot be members of such a group, and refuse the token.
const (
	tokenStart  = "sievekv-member-1-"
	tokenStart2 = "sievekv-member-2-"
)

// String returns the token as text of one line. ParseToken reads it.
func (t Token) String() string {
	var b []byte
	start := tokenStart
	if t.level > entry.LevelRecords {
		b, start = append(b, t.level), tokenStart2
	}
	b = append(b, t.group[:]...)
	identity := format.AppendStoreMeta(nil, t.identity)
	b = append(append(b, byte(len(identity))), identity...)
	b = appendInfo(b, t.self)
	b = appendInfos(b, t.peers)
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return start + base64.RawURLEncoding.EncodeToString(b)
}

var errToken = errors.New("no token of a group, or one that was cut or changed")

// ParseToken reads what String returned. White space around it does not matter.
func ParseToken(s string) (t Token, err error) {
	t.level = entry.LevelRecords
	s = strings.TrimSpace(s)
	text, hasLevel := strings.CutPrefix(s, tokenStart2)
	if !hasLevel {
		text, _ = strings.CutPrefix(s, tokenStart)
	}
	if text == s {
		return t, fmt.Errorf("%w: it does not begin with %s", errToken, tokenStart)
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	const shortest = 1 + 16 + 1 + 4
	if err != nil || len(b) < shortest || crc32.ChecksumIEEE(b[:len(b)-4]) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return t, errToken
	}
	b = b[:len(b)-4]
	if hasLevel {
		t.level, b = b[0], b[1:]
	}
	copy(t.group[:], b)
	n := int(b[16])
	if b = b[17:]; len(b) < n {
		return t, errToken
	}
	if t.identity, err = format.DecodeStoreMeta(b[:n]); err != nil {
		return t, err
	}
	if t.self, b, err = decodeInfo(b[n:]); err != nil {
		return t, err
	}
	infos, err := decodeInfos(b)
	for _, i := range infos {
		t.peers = append(t.peers, i)
	}
	return t, err
}

// Self returns the info of the new member.
func (t Token) Self() Info { return t.self }

// appendInfos appends infos, one after the other.
func appendInfos(b []byte, infos []Info) []byte {
	for _, i := range infos {
		b = appendInfo(b, i)
	}
	return b
}

func decodeInfos(b []byte) (map[uint64]Info, error) {
	infos := make(map[uint64]Info)
	for len(b) > 0 {
		i, rest, err := decodeInfo(b)
		if err != nil {
			return nil, err
		}
		infos[i.ID], b = i, rest
	}
	return infos, nil
}
