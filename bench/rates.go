package main

import (
	"fmt"

	"github.com/bits-and-blooms/bloom/v3"
	"github.com/cespare/xxhash/v2"
	"github.com/greatroar/blobloom"
	linvon "github.com/linvon/cuckoo-filter"
	seiflotfy "github.com/seiflotfy/cuckoofilter"

	"github.com/sievekv/sievekv"
)

const ratesAbout = `Bits for each item, and the share of absent items that a full filter takes for present ones, as counted
over a few million lookups. Bloom filters are made for the rate in the first column. Such figures do not depend on how busy
the machine is.`

// sized is a filter that has its items, and its size.
type sized struct {
	name string
	bits float64 // for each item
	has  func(item []byte) (bool, error)
}

// rates measures sizes and false positives.
func rates(b *bench) error {
	n := pick(b, uint64(100_000), 1_000_000, 1_000_000)
	asked := pick(b, uint64(500_000), 4_000_000, 20_000_000)
	p := picture{name: "rates", title: "False-positive rate measured, by size of the filter", x: "size (bits per item)", y: "false-positive rate", logY: true}
	curves := []line{{name: "sievekv Bloom"}, {name: "blobloom"}, {name: "bits-and-blooms"}}
	for _, rate := range []float64{0.1, 0.01, 0.001, 0.0001} {
		filters, end, err := b.bloomFilters(n, rate)
		if err != nil {
			return err
		}
		measured := make([]float64, len(filters))
		for i, f := range filters {
			if measured[i], err = b.falsePositives(f, asked); err != nil {
				break
			}
			curves[i].add(f.bits, measured[i])
		}
		end()
		if err != nil {
			return err
		}
		for i, f := range filters[1:] {
			what := fmt.Sprintf("Bloom, asked for %g", rate)
			b.row(row{what: what, unit: "bits/item", ours: series{filters[0].bits}, peer: f.name, theirs: series{f.bits}})
			b.row(row{what: what, unit: "false positives", ours: series{measured[0]}, peer: f.name, theirs: series{measured[i+1]}})
		}
	}
	p.lines = curves
	b.plot(p)
	return b.cuckooRates(n, asked)
}

// falsePositives looks up absent items.
func (b *bench) falsePositives(f sized, asked uint64) (float64, error) {
	b.progress("false positives of %s", f.name)
	found := 0
	var buf [16]byte
	for i := range asked {
		yes, err := f.has(key16(&buf, absent+i))
		if err != nil {
			return 0, err
		}
		if yes {
			found++
		}
	}
	return float64(found) / float64(asked), b.ctx.Err()
}

// bloomFilters makes filters for n items at a rate, and fills them. The caller calls end.
func (b *bench) bloomFilters(n uint64, rate float64) (filters []sized, end func(), err error) {
	s, err := b.openStore(nil)
	if err != nil {
		return nil, nil, err
	}
	f := s.Bloom("f")
	if err := f.Reserve(sievekv.Capacity(n, rate), &sievekv.BloomConfig{NonScaling: true}); err != nil {
		return nil, nil, err
	}
	if err := fill(f, 0, n); err != nil {
		return nil, nil, err
	}
	info, err := f.Info()
	if err != nil {
		return nil, nil, err
	}
	blob := blobloom.NewOptimized(blobloom.Config{Capacity: n, FPRate: rate})
	bits := bloom.NewWithEstimates(uint(n), rate)
	var buf [16]byte
	for i := range n {
		item := key16(&buf, i)
		blob.Add(xxhash.Sum64(item))
		bits.Add(item)
	}
	each := func(bits uint64) float64 { return float64(bits) / float64(n) }
	return []sized{
		{"sievekv", each(info.Bytes * 8), f.MayContain},
		{"blobloom with XXH64", each(blob.NumBits()), plain(func(item []byte) bool { return blob.Has(xxhash.Sum64(item)) })},
		{"bits-and-blooms", each(uint64(bits.Cap())), plain(bits.Test)},
	}, s.end, nil
}

// cuckooRates compares cuckoo filters.
func (b *bench) cuckooRates(n, asked uint64) error {
	s, err := b.openStore(nil)
	if err != nil {
		return err
	}
	defer s.end()
	f := s.Cuckoo("f")
	if err := f.Reserve(sievekv.Capacity(n, 1e-3), &sievekv.CuckooConfig{NonScaling: true}); err != nil {
		return err
	}
	if err := fill(f, 0, n); err != nil {
		return err
	}
	info, err := f.Info()
	if err != nil {
		return err
	}
	theirs := seiflotfy.NewFilter(uint(n))
	table := linvon.NewFilter(4, 16, uint(n), linvon.TableTypeSingle)
	var buf [16]byte
	for i := range n {
		theirs.Insert(key16(&buf, i))
		table.Add(key16(&buf, i))
	}
	filters := []sized{
		{"sievekv", float64(info.Bytes*8) / float64(n), f.MayContain},
		{"seiflotfy", float64(len(theirs.Encode())*8) / float64(n), plain(theirs.Lookup)},
		{"linvon", float64(table.SizeInBytes()*8) / float64(n), plain(table.Contain)},
	}
	measured := make(map[string]float64)
	for _, f := range filters {
		if measured[f.name], err = b.falsePositives(f, asked); err != nil {
			return err
		}
	}
	for _, peer := range filters[1:] {
		what := "cuckoo, asked for 0.001 (peers by fingerprint)"
		b.row(row{what: what, unit: "bits/item", ours: series{filters[0].bits}, peer: peer.name, theirs: series{peer.bits}})
		b.row(row{
			what: what, unit: "false positives", ours: series{measured["sievekv"]}, peer: peer.name, theirs: series{measured[peer.name]},
		})
	}
	return nil
}
