package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
)

// Difference is what a comparison has found.
type Difference struct {
	Keys, Blocks int // that were compared
	Differ       int
	First        string // of what differs
}

// Compare compares what two closed stores have, blocks by what they say.
func Compare(disk vfs.FS, dir string, otherDisk vfs.FS, otherDir string) (d Difference, err error) {
	one, err := contents(disk, dir)
	if err != nil {
		return d, err
	}
	other, err := contents(otherDisk, otherDir)
	if err != nil {
		return d, err
	}
	d.Keys = len(one)
	for key, value := range one {
		if key[0] == format.TagObject && value[:1] == isBlock {
			d.Blocks++
		}
		if got, there := other[key]; !there || got != value {
			d.differs(key, fmt.Sprintf("%.80x in the store, %.80x in the other (%t)", value, got, there))
		}
	}
	for key, value := range other {
		if _, there := one[key]; !there {
			d.differs(key, fmt.Sprintf("nothing in the store, %.80x in the other", value))
		}
	}
	return d, nil
}

func (d *Difference) differs(key, how string) {
	if d.Differ++; d.First == "" {
		d.First = fmt.Sprintf("key %x: %s", key, how)
	}
}

// What contents returns of a value begins with one of these.
const (
	isRecord = "r"
	isBlock  = "b"
)

// contents returns the keys of a store, with the bytes of records, and the words of blocks.
func contents(disk vfs.FS, dir string) (values map[string]string, err error) {
	s, err := storage.Open(dir, storage.Options{
		FS: disk, ReadOnly: true, TableCacheSize: 1 << 20, MemTableSize: 2 << 20, BallastSize: -1, MinFreeSpace: -1,
		FreeSpaceInterval: time.Second, Logger: slog.New(slog.DiscardHandler), Failed: func(error) {},
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		s.End(func() bool { return false })
		err = errors.Join(err, s.Close())
	}()
	headers := make(map[uint64]*format.Header)
	values = make(map[string]string)
	it, err := s.NewIterWithContext(context.Background(), &storage.IterOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Error(), it.Close()) }()
	words := make([]uint64, block.MaxWords)
	for ok := it.First(); ok; ok = it.Next() {
		key, value := it.Key(), it.Value()
		if key[0] == format.TagHeader {
			h, err := format.DecodeHeader(value)
			if err != nil {
				return nil, err
			}
			headers[h.ID] = h
		}
		text, err := decoded(headers, key, value, words)
		if err != nil {
			return nil, err
		}
		values[string(key)] = text
	}
	return values, nil
}

// decoded returns what a value says. Headers come before the blocks of their objects.
func decoded(headers map[uint64]*format.Header, key, value []byte, words []uint64) (string, error) {
	k, err := format.DecodeObjectKey(key)
	if err != nil || k.Part < format.PartLayers {
		return isRecord + string(value), nil
	}
	h := headers[k.Object]
	if h == nil { // dropped, and not reclaimed yet
		return isRecord, nil
	}
	i := slices.IndexFunc(h.Layers, func(l format.LayerSpec) bool { return l.Number == k.Part-format.PartLayers })
	if i < 0 {
		return isRecord + "of no layer", nil
	}
	words = words[:h.Layers[i].Lines*block.LineWords]
	if _, err := block.Decode(words, h.Family, value); err != nil {
		return "", fmt.Errorf("key %x: %w", key, err)
	}
	return isBlock + fmt.Sprintf("%x", words), nil
}
