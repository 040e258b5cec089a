package guard

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sievekv/sievekv"
)

// What a guard stores, besides the entries (entry.go):
//
//   - guard:NAME is the meta record, as JSON.
//   - guard:NAME:filter is the filter in use. guard:NAME:next is the one that Rebuild fills. Rebuild renames it.
//   - guard:NAME:id:ID is the record of an id, if the filter can delete: the generations of the filters that have the id, as
//     varints. An id is added to a filter once, and deleted only if the filter has it: deleting another could take away
//     ids that have the same fingerprint.
//   - guard:NAME:value:ID is an entry.
//
// Each filter has a generation. Generations only grow, so that a record's old generations mean nothing.

type keys struct{ meta, filter, next, id, value string }

func keysOf(name string) keys {
	base := "guard:" + name
	return keys{meta: base, filter: base + ":filter", next: base + ":next", id: base + ":id:", value: base + ":value:"}
}

// meta is the meta record.
type meta struct {
	Version int    `json:"version"`
	Filter  Filter `json:"filter"` // the type of both filters
	InUse   uint64 `json:"in_use"` // the generation of the filter in use; 0 if there is none
	Next    uint64 `json:"next"`   // the generation of the filter that Rebuild fills; 0 if there is none
	Last    uint64 `json:"last"`   // the highest generation so far
	Full    uint64 `json:"full"`   // the generation of the filter that was dropped last because it had no room; 0 for none

	Taken uint64 `json:"taken"` // ids given to the rebuild under way, or else to the last one, as often as they were given
	After []byte `json:"after"` // the last id given to RebuildFrom that is under way
}

const metaVersion = 1

// readMeta returns the meta record, or one without a filter if it is missing. Its generations then begin at the present
// time, with a random part: if somebody has removed the meta record alone, the remaining records of ids mean nothing.
func (g *Guard) readMeta(tx reader) (m meta, err error) {
	stored, err := tx.Get(g.keys.meta)
	if errors.Is(err, sievekv.ErrNotFound) {
		const perMilli = 1_000_000
		return meta{Last: uint64(max(0, g.store.Now()))*perMilli + rand.Uint64N(perMilli)}, nil
	}
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(stored, &m); err != nil {
		return m, fmt.Errorf("%w: key %q: %w", sievekv.ErrCorrupt, g.keys.meta, err)
	}
	if m.Version != metaVersion {
		return m, fmt.Errorf("%w: key %q has version %d, this program knows %d", sievekv.ErrUnsupportedVersion, g.keys.meta, m.Version, metaVersion)
	}
	return m, nil
}

// reader is a store, a transaction or a snapshot.
type reader interface {
	Get(key string) ([]byte, error)
}

func (g *Guard) writeMeta(tx *sievekv.Tx, m *meta) error {
	m.Version, m.Filter = metaVersion, g.opts.Filter
	stored, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return tx.Set(g.keys.meta, stored)
}

// prepare makes the guard if the store does not have it.
func (g *Guard) prepare() error {
	var m meta
	changed, made := false, false
	err := g.db.With(sievekv.Always).Update(background, func(tx *sievekv.Tx) (err error) {
		if m, err = g.readMeta(tx); err != nil {
			return err
		}
		isNew := m.Version == 0
		if changed = !isNew && m.Filter != g.opts.Filter; changed {
			if err := g.dropFilters(tx); err != nil {
				return err
			}
			m.InUse, m.Next = 0, 0
		}
		if isNew && !g.opts.Empty {
			if err := g.dropFilters(tx); err != nil {
				return err
			}
		}
		if made = isNew && g.opts.Empty; made {
			m.Last++
			m.InUse = m.Last
			if err := g.reserve(tx, g.keys.filter); err != nil {
				return err
			}
		}
		if !isNew && !changed {
			return nil
		}
		return g.writeMeta(tx, &m)
	})
	if err == nil && made {
		g.opts.Logger.Warn("guard: the filter begins empty, as Options.Empty says: ids that are there already are refused", "guard", g.name)
	}
	if err == nil && m.InUse == 0 {
		g.opts.Logger.Warn("guard: there is no filter until Rebuild ends, every lookup is let through", "guard", g.name, "type changed", changed)
	}
	return err
}

// dropFilters removes the filters that there are, so that every lookup is let through.
func (g *Guard) dropFilters(tx *sievekv.Tx) error {
	_, err := tx.Delete(g.keys.filter, g.keys.next)
	return err
}

// handles makes handles on filters: a store or a transaction.
type handles interface {
	Bloom(key string) *sievekv.Bloom
	Cuckoo(key string) *sievekv.Cuckoo
	Counting(key string) *sievekv.Counting
}

func (g *Guard) filterOf(of handles, key string) sievekv.Filter {
	switch g.opts.Filter {
	case Cuckoo:
		return of.Cuckoo(key)
	case Counting:
		return of.Counting(key)
	}
	return of.Bloom(key)
}

// reserve makes an empty filter as the options say. If there is one, it must have been made so: otherwise the error is
// sievekv.ErrMismatch.
func (g *Guard) reserve(tx *sievekv.Tx, key string) error {
	capacity, rate := g.opts.Capacity, g.opts.ErrorRate
	switch g.opts.Filter {
	case Cuckoo:
		return tx.Cuckoo(key).OpenOrReserve(sievekv.Capacity(capacity, rate), nil)
	case Counting:
		return tx.Counting(key).OpenOrReserve(sievekv.Capacity(capacity, rate), nil)
	}
	return tx.Bloom(key).OpenOrReserve(sievekv.Capacity(capacity, rate), nil)
}

// deletes reports whether ids can be deleted from the filter.
func (g *Guard) deletes() bool { return g.opts.Filter != Bloom }

// generation is one of the filters, with its number.
type generation struct {
	number uint64
	key    string
}

// generations returns the filters that there are.
func (g *Guard) generations(m *meta) (all []generation) {
	if m.InUse != 0 {
		all = append(all, generation{m.InUse, g.keys.filter})
	}
	if m.Next != 0 {
		all = append(all, generation{m.Next, g.keys.next})
	}
	return all
}

// add adds an id to filters that do not have it. Of is what generations returns.
func (g *Guard) add(tx *sievekv.Tx, id string, of, to []generation) error {
	if !g.deletes() {
		for _, filter := range to {
			if _, err := tx.Bloom(filter.key).AddString(id); err != nil {
				return err
			}
		}
		return nil
	}
	has, err := g.record(tx, id, of)
	if err != nil {
		return err
	}
	changed := false
	for _, filter := range to {
		if slices.Contains(has, filter.number) {
			continue
		}
		if _, err := g.filterOf(tx, filter.key).AddString(id); err != nil {
			return err
		}
		has, changed = append(has, filter.number), true
	}
	if !changed {
		return nil
	}
	var record []byte
	for _, number := range has {
		record = binary.AppendUvarint(record, number)
	}
	return tx.Set(g.keys.id+id, record)
}

// record returns the numbers of the filters that have an id.
func (g *Guard) record(tx reader, id string, of []generation) (has []uint64, err error) {
	stored, err := tx.Get(g.keys.id + id)
	if err != nil && !errors.Is(err, sievekv.ErrNotFound) {
		return nil, err
	}
	for len(stored) > 0 {
		number, n := binary.Uvarint(stored)
		if n <= 0 {
			return nil, fmt.Errorf("%w: key %q", sievekv.ErrCorrupt, g.keys.id+id)
		}
		if slices.ContainsFunc(of, func(f generation) bool { return f.number == number }) {
			has = append(has, number)
		}
		stored = stored[n:]
	}
	return has, nil
}

// hasNoRoom reports whether an id could not be added because the ids outgrew the filter.
func hasNoRoom(err error) bool {
	return errors.Is(err, sievekv.ErrFull) || errors.Is(err, sievekv.ErrCannotGrow)
}

// dropFull removes one of the filters, which has no room for an id that is there: it must refuse nothing any more. The
// caller writes the meta record.
func (g *Guard) dropFull(tx *sievekv.Tx, m *meta, filter generation) error {
	m.Full = filter.number
	if filter.number == m.InUse {
		m.InUse = 0
	} else {
		m.Next, m.Taken, m.After = 0, 0, nil
	}
	_, err := tx.Delete(filter.key)
	return err
}

// addEverywhere adds an id to every filter that there is. A filter whose key somebody has removed refuses nothing. A filter
// that has no room is removed, for the same reason, and its error is full: the row is more than the filter.
func (g *Guard) addEverywhere(tx *sievekv.Tx, id string) (full, err error) {
	m, err := g.readMeta(tx)
	if err != nil {
		return nil, err
	}
	if m.Version == 0 { // somebody has removed the meta record: a filter that nothing is added to must refuse nothing
		return nil, g.dropFilters(tx)
	}
	of := g.generations(&m)
	for _, filter := range of {
		err := g.add(tx, id, of, []generation{filter})
		switch {
		case hasNoRoom(err):
			if filter.number == m.InUse { // a rebuild tells of the next filter
				full = err
			}
			if err := g.dropFull(tx, &m, filter); err != nil {
				return nil, err
			}
			if err := g.writeMeta(tx, &m); err != nil {
				return nil, err
			}
		case err != nil && !errors.Is(err, sievekv.ErrNotFound):
			return nil, err
		}
	}
	return full, nil
}

// tellFull tells that the filter in use was removed because it had no room.
func (g *Guard) tellFull(err error) {
	g.counts.full.Add(1)
	g.passing.begin()
	g.opts.Logger.Warn("guard: the filter is full and was dropped, every lookup is let through; Rebuild with a larger Capacity",
		"guard", g.name, "capacity", g.opts.Capacity, "error", err)
}

// deleteEverywhere deletes an id from the filters that have it.
func (g *Guard) deleteEverywhere(tx *sievekv.Tx, id string) (full, err error) {
	if !g.deletes() {
		return nil, nil
	}
	m, err := g.readMeta(tx)
	if err != nil {
		return nil, err
	}
	of := g.generations(&m)
	has, err := g.record(tx, id, of)
	if err != nil {
		return nil, err
	}
	for _, filter := range of {
		if !slices.Contains(has, filter.number) {
			continue
		}
		var err error
		if g.opts.Filter == Cuckoo {
			_, err = tx.Cuckoo(filter.key).DeleteString(id)
		} else {
			_, err = tx.Counting(filter.key).DeleteString(id)
		}
		if err != nil && !errors.Is(err, sievekv.ErrNotFound) {
			return nil, err
		}
	}
	_, err = tx.Delete(g.keys.id + id)
	return nil, err
}
