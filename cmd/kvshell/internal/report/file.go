package report

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/portable"
)

// fileStats is what is told about a file of one filter, bitmap or string.
type fileStats struct {
	name   string
	info   portable.Info
	of     keyStats
	fields map[string]any
}

// File returns what is told about a file.
func File(name string, info portable.Info) (Result, error) {
	s := &fileStats{name: name, info: info, fields: fieldsOf(info.Facts)}
	maps.Copy(s.fields, map[string]any{
		"file": name, "type": info.Type, "bytes": info.Bytes, "file_bytes": info.FileBytes, "blocks": info.Blocks, "whole": info.Whole,
	})
	b, err := json.Marshal(s.fields)
	if err == nil {
		err = json.Unmarshal(b, &s.of)
	}
	return s, err
}

func fieldsOf(facts kv.FactList) map[string]any {
	fields := make(map[string]any)
	for _, f := range facts {
		if layers, ok := f.Value.([]kv.FactList); ok {
			list := make([]map[string]any, len(layers))
			for i, l := range layers {
				list[i] = fieldsOf(l)
			}
			fields[f.Name] = list
			continue
		}
		fields[f.Name] = f.Value
	}
	return fields
}

// MarshalJSON implements json.Marshaler.
func (s *fileStats) MarshalJSON() ([]byte, error) { return json.Marshal(s.fields) }

func (s *fileStats) Text() string {
	rows := append([][2]string{{"file", s.name}, {"type", s.info.Type}}, s.of.kindRows()...)
	switch {
	case s.info.Type != "string":
		rows = append(rows, [2]string{"bytes", fmt.Sprintf("%d reserved, %d in the file", s.info.Bytes, s.info.FileBytes)})
	case s.info.Whole || s.info.Bytes > 0:
		rows = append(rows, [2]string{"bytes", fmt.Sprintf("%d, %d in the file", s.info.Bytes, s.info.FileBytes)})
	}
	whole := "no, the file is cut or damaged"
	if s.info.Whole {
		whole = "yes, every checksum holds"
	}
	rows = append(rows, [2]string{"whole", whole})
	if s.info.Note != "" {
		rows = append(rows, [2]string{"note", s.info.Note})
	}
	return facts(rows) + s.of.layers()
}
