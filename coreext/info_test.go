package coreext_test

import (
	"strings"
	"testing"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// section is a service with nothing but a section of INFO.
type section struct {
	name   string
	fields []module.InfoField
}

func (section) Start(*kv.DB) error                   { return nil }
func (section) Stop()                                {}
func (s section) Info() (string, []module.InfoField) { return s.name, s.fields }

func TestInfo_sections(t *testing.T) {
	db := openWith(t, module.Module{Name: "test", Services: []module.Service{
		section{"Clients", []module.InfoField{{Name: "connected_clients", Value: 1}}},
		section{"cache", []module.InfoField{{Name: "more", Value: "x"}}},
		section{"Clients", []module.InfoField{{Name: "blocked_clients", Value: 0}}},
		section{"Nothing", nil},
	}})
	ask := func(words ...string) string {
		return string(module.NewSession(db).Do(t.Context(), toWords("INFO", words...)).Bytes())
	}
	const clients = "# Clients\r\nconnected_clients:1\r\nblocked_clients:0\r\n"
	if got := ask("CLIENTS"); got != clients {
		t.Errorf("INFO CLIENTS = %q, want %q", got, clients)
	}
	if got := ask("cache"); !strings.HasPrefix(got, "# Cache\r\n") || !strings.HasSuffix(got, "\r\nmore:x\r\n") {
		t.Errorf("INFO cache = %q, want the store's fields and then more", got)
	}
	var titles []string
	for line := range strings.Lines(ask()) {
		if title, ok := strings.CutPrefix(line, "# "); ok {
			titles = append(titles, strings.TrimSpace(title))
		}
	}
	if got, want := strings.Join(titles, " "), "Server Store Cache Durability Pebble Clients"; got != want {
		t.Errorf("INFO has the sections %s, want %s", got, want)
	}
	for _, words := range []string{"default", "all", "everything", "nosuch all", "clients DEFAULT"} {
		if got := ask(strings.Fields(words)...); strings.Count(got, "# ") != len(titles) {
			t.Errorf("INFO %s = %q, want all sections", words, got)
		}
	}
	if got := ask("nosuch"); got != "" {
		t.Errorf("INFO nosuch = %q, want nothing", got)
	}
	if got := ask("clients", "nosuch", "cache", "clients"); strings.Count(got, "# ") != 2 || !strings.HasSuffix(got, "\r\n\r\n"+clients) {
		t.Errorf("INFO of two sections = %q, want each once, in the order of all", got)
	}
}

func toWords(name string, rest ...string) [][]byte {
	words := [][]byte{[]byte(name)}
	for _, word := range rest {
		words = append(words, []byte(word))
	}
	return words
}
