package coreext

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// infoSection is a section of INFO.
type infoSection struct {
	name   string
	fields []module.InfoField
}

// info answers sections of INFO as lines "name:value" under titles "# Section": those named in the arguments, or all.
// It ignores unknown names.
func info(c *module.Call) reply.Reply {
	sections, err := infoSections(c.Host)
	if err != nil {
		return module.ErrorReply(err)
	}
	wanted := make(map[string]bool)
	for _, arg := range c.Args {
		wanted[text.FoldCase(arg)] = true
	}
	all := len(c.Args) == 0 || wanted["ALL"] || wanted["EVERYTHING"] || wanted["DEFAULT"]
	var b strings.Builder
	for _, s := range sections {
		if !all && !wanted[text.FoldString(s.name)] {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		fmt.Fprintf(&b, "# %s\r\n", s.name)
		for _, f := range s.fields {
			fmt.Fprintf(&b, "%s:%v\r\n", f.Name, f.Value)
		}
	}
	return reply.Verbatim(b.String())
}

// addSection adds fields to a section, and makes the section if necessary.
func addSection(sections []infoSection, name string, fields []module.InfoField) []infoSection {
	if len(fields) == 0 {
		return sections
	}
	i := slices.IndexFunc(sections, func(s infoSection) bool { return text.FoldString(s.name) == text.FoldString(name) })
	if i < 0 {
		return append(sections, infoSection{name, fields})
	}
	sections[i].fields = slices.Concat(sections[i].fields, fields)
	return sections
}

// infoSections returns the sections of the store and of the services. If the store has failed, it returns the
// sections that do not read the store, and why the store failed.
func infoSections(h *module.Host) ([]infoSection, error) {
	about := h.DB().About()
	sections, err := storeSections(h.DB(), about)
	if errors.Is(err, kv.ErrFailed) {
		failed := []module.InfoField{{Name: "directory", Value: about.Directory}, {Name: "failed", Value: err}, {Name: "tables_in_memory_bytes", Value: about.KeptBytes}}
		sections, err = []infoSection{versionSection(), {"Store", failed}}, nil
	}
	if err != nil {
		return nil, err
	}
	for _, s := range h.Services() {
		name, fields := s.Info()
		sections = addSection(sections, name, fields)
	}
	return sections, nil
}

// versionSection returns the section Server, to which a server adds fields.
func versionSection() infoSection {
	return infoSection{"Server", []module.InfoField{{Name: "sievekv_version", Value: module.Version()}}}
}

func storeSections(db *kv.DB, about kv.About) ([]infoSection, error) {
	m, err := db.Metrics()
	if err != nil {
		return nil, err
	}
	return []infoSection{
		versionSection(),
		{"Store", []module.InfoField{
			{Name: "directory", Value: about.Directory},
			{Name: "store_id", Value: about.StoreID},
			{Name: "format_version", Value: about.FormatVersion},
			{Name: "open_for_seconds", Value: int64(db.Options().Clock().Sub(about.Opened).Seconds())},
			{Name: "durability", Value: about.Durability},
			{Name: "disk_full", Value: about.DiskFull},
			{Name: "keys", Value: m.Keys},
			{Name: "open_objects", Value: m.OpenObjects},
		}},
		{"Cache", []module.InfoField{
			{Name: "cache_budget_bytes", Value: m.CacheBudget},
			{Name: "cache_used_bytes", Value: m.CacheUsed},
			{Name: "cache_evictions", Value: m.CacheEvictions},
			{Name: "blocks_read", Value: m.BlocksRead},
			{Name: "string_cache_budget_bytes", Value: m.Strings.Budget},
			{Name: "string_cache_used_bytes", Value: m.Strings.Used},
			{Name: "string_cache_keys", Value: m.Strings.Keys},
			{Name: "string_cache_hits", Value: m.Strings.Hits},
			{Name: "string_cache_misses", Value: m.Strings.Misses},
		}},
		{"Durability", []module.InfoField{
			{Name: "last_sequence", Value: m.LastSequence},
			{Name: "durable_sequence", Value: m.DurableSequence},
			{Name: "commits", Value: m.Commits},
			{Name: "commit_bytes", Value: m.CommitBytes},
			{Name: "growth_log_bytes", Value: m.GrowthLogBytes},
			{Name: "syncs", Value: m.Syncs},
		}},
		{"Pebble", []module.InfoField{
			{Name: "disk_bytes", Value: m.DiskBytes},
			{Name: "table_bytes", Value: m.TableBytes},
			{Name: "log_bytes", Value: m.LogBytes},
			{Name: "reserve_bytes", Value: m.ReserveBytes},
			{Name: "log_bytes_in", Value: m.LogBytesIn},
			{Name: "log_bytes_written", Value: m.LogBytesWritten},
			{Name: "memtable_bytes", Value: m.MemTableBytes},
			{Name: "flushes", Value: m.Flushes},
			{Name: "table_compactions", Value: m.TableCompactions},
			{Name: "read_amplification", Value: m.ReadAmp},
			{Name: "background_errors", Value: m.BackgroundErrors},
			{Name: "damaged_blocks", Value: m.DamagedBlocks},
			{Name: "damaged_reads", Value: m.DamagedReads},
		}},
	}, nil
}
