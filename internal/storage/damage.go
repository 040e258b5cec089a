package storage

import (
	"context"

	"github.com/sievekv/sievekv/internal/storage/remains"
	"github.com/sievekv/sievekv/internal/text"
)

// Damaged reports whether the store was opened from the remains of a damaged one.
func Damaged(s *Store) bool {
	left, ok := s.opts.FS.(*remains.FS)
	return ok && left.Damaged()
}

// Damage reads all tables, and returns the ranges of keys that they have lost, and what is wrong with them.
func Damage(ctx context.Context, s *Store) (lost []remains.Range, problems []string, err error) {
	left, ok := s.opts.FS.(*remains.FS)
	if ok {
		lost, problems = left.Lost()
		if left.Deep() {
			return lost, problems, nil
		}
	}
	tables, err := s.liveTables()
	if err != nil {
		return nil, nil, err
	}
	for _, t := range tables {
		ranges, wrong, err := remains.CheckTable(ctx, s.Files, s.Dir, t, !ok)
		if err != nil {
			return nil, nil, text.After(err, "kv: check of tables")
		}
		if len(wrong) == 0 {
			continue
		}
		if now, err := s.liveTables(); err != nil || now[t.Number].Number == 0 {
			continue // a compaction has removed it meanwhile
		}
		lost, problems = append(lost, ranges...), append(problems, wrong...)
	}
	return remains.Merged(lost), problems, nil
}

// liveTables returns the tables of the store, by number.
func (s *Store) liveTables() (map[uint64]remains.Table, error) {
	levels, err := s.disk.SSTables()
	if err != nil {
		return nil, text.After(err, "kv: list of tables")
	}
	tables := make(map[uint64]remains.Table)
	for i, level := range levels {
		for _, t := range level {
			tables[uint64(t.FileNum)] = remains.Table{
				Number: uint64(t.FileNum), Size: t.Size, Level: i, Smallest: t.Smallest, Largest: t.Largest,
				SmallestSeq: uint64(t.SmallestSeqNum), LargestSeq: uint64(t.LargestSeqNum),
			}
		}
	}
	return tables, nil
}
