package replica

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Info is what a group knows of a member, besides whether it votes.
type Info struct {
	ID     uint64 // random, never used again
	Name   string // what people call it
	Peer   string // where other members reach it, host:port
	Client string // where clients reach it, host:port; may be empty
}

// members are the members of a group, as its log says. They never change after they are made.
type members struct {
	state *pb.ConfState
	infos map[uint64]Info // of members, by id
}

// membersVersion is the version of the bytes that encode makes.
const membersVersion = 1

// maxText is the most bytes of a name or an address.
const maxText = 255

// encode returns the members as the store of each member has them (internal/format.MetaMembers):
//
//	1 byte   version, 1
//	uvarint  length of the next
//	         raftpb.ConfState, as protobuf encodes it
//	uvarint  number of infos, in the order of their ids, each as appendInfo appends it
func (m *members) encode() ([]byte, error) {
	state, err := proto.MarshalOptions{Deterministic: true}.Marshal(m.state)
	if err != nil {
		return nil, err
	}
	b := binary.AppendUvarint([]byte{membersVersion}, uint64(len(state)))
	b = append(b, state...)
	b = binary.AppendUvarint(b, uint64(len(m.infos)))
	for _, id := range slices.Sorted(maps.Keys(m.infos)) {
		b = appendInfo(b, m.infos[id])
	}
	return b, nil
}

// appendInfo appends an info: the id in 8 bytes, little-endian, and the name and the addresses, each behind its length in one byte.
func appendInfo(b []byte, i Info) []byte {
	b = binary.LittleEndian.AppendUint64(b, i.ID)
	for _, text := range []string{i.Name, i.Peer, i.Client} {
		text = text[:min(len(text), maxText)]
		b = append(append(b, byte(len(text))), text...)
	}
	return b
}

func decodeInfo(b []byte) (i Info, rest []byte, err error) {
	if len(b) < 8 {
		return i, nil, fmt.Errorf("info of a member of %d bytes", len(b))
	}
	i.ID, b = binary.LittleEndian.Uint64(b), b[8:]
	for _, text := range []*string{&i.Name, &i.Peer, &i.Client} {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return i, nil, fmt.Errorf("info of member %x is cut", i.ID)
		}
		n := 1 + int(b[0])
		*text, b = string(b[1:n]), b[n:]
	}
	return i, b, nil
}

// decodeMembers decodes the bytes of encode. No bytes stand for the members of a store that has not joined yet.
func decodeMembers(b []byte) (*members, error) {
	m := &members{state: &pb.ConfState{}, infos: make(map[uint64]Info)}
	if len(b) == 0 {
		return m, nil
	}
	if b[0] != membersVersion {
		return nil, fmt.Errorf("record of the members has version %d, this program knows %d", b[0], membersVersion)
	}
	n, size := binary.Uvarint(b[1:])
	if size <= 0 || n > uint64(len(b)-1-size) {
		return nil, fmt.Errorf("record of the members %x is cut", b)
	}
	b = b[1+size:]
	if err := proto.Unmarshal(b[:n], m.state); err != nil {
		return nil, fmt.Errorf("record of the members: %w", err)
	}
	b = b[n:]
	count, size := binary.Uvarint(b)
	if size <= 0 {
		return nil, fmt.Errorf("record of the members ends early")
	}
	b = b[size:]
	for range count {
		i, rest, err := decodeInfo(b)
		if err != nil {
			return nil, err
		}
		m.infos[i.ID], b = i, rest
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("record of the members has %d bytes too many", len(b))
	}
	return m, nil
}

// with returns the members after a change, which also has the info of an added member.
func (m *members) with(state *pb.ConfState, change []byte) (*members, error) {
	infos := maps.Clone(m.infos)
	if len(change) > 0 {
		i, _, err := decodeInfo(change)
		if err != nil {
			return nil, err
		}
		infos[i.ID] = i
	}
	all := slices.Concat(state.GetVoters(), state.GetVotersOutgoing(), state.GetLearners(), state.GetLearnersNext())
	maps.DeleteFunc(infos, func(id uint64, _ Info) bool { return !slices.Contains(all, id) })
	return &members{state, infos}, nil
}
