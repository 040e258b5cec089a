package module_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// named is a module with a command that answers the module's name, and a service that records its calls.
func named(name string, log *[]string) module.Module {
	return module.Module{
		Name: name,
		Commands: []module.Command{{
			Name: "NAME." + name, Arity: 1, Summary: "Answers the name.",
			Handler: func(*module.Call) reply.Reply { return reply.BulkString(name) },
		}},
		Services: []module.Service{&noted{name, log}},
	}
}

type noted struct {
	name string
	log  *[]string
}

func (n *noted) Start(*kv.DB) error {
	*n.log = append(*n.log, "start "+n.name)
	if n.name == "bad" {
		return errors.New("no")
	}
	return nil
}
func (n *noted) Stop()                              { *n.log = append(*n.log, "stop "+n.name) }
func (n *noted) Info() (string, []module.InfoField) { return "", nil }

// A table finds commands without a store, in any case, and the same for several stores.
func TestTable(t *testing.T) {
	var log []string
	table := module.New(named("B", &log), named("A", &log))
	if c := table.Command([]byte("name.a")); c == nil || c.Name != "NAME.A" || c.Module() != "A" {
		t.Errorf("the command name.a is %v", c)
	}
	if c := table.Command([]byte("name.c")); c != nil {
		t.Errorf("the command name.c is %v", c)
	}
	var names []string
	for _, c := range table.Commands() {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, []string{"NAME.A", "NAME.B"}) {
		t.Errorf("the commands are %v", names)
	}
	for range 2 {
		log = nil
		db, err := kv.Open("", &kv.Options{InMemory: true, Modules: table})
		if err != nil {
			t.Fatal(err)
		}
		if r := module.NewSession(db).Do(t.Context(), [][]byte{[]byte("NAME.B")}); string(r.Bytes()) != "B" {
			t.Errorf("NAME.B = %v", r)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if want := []string{"start B", "start A", "stop A", "stop B"}; !slices.Equal(log, want) {
			t.Errorf("services: %v, want %v", log, want)
		}
	}
}

// If a service does not start, those started before it are stopped, and no others.
func TestTable_serviceFails(t *testing.T) {
	var log []string
	_, err := kv.Open("", &kv.Options{InMemory: true, Modules: module.New(named("A", &log), named("bad", &log), named("C", &log))})
	if err == nil {
		t.Fatal("the store opened")
	}
	if want := []string{"start A", "start bad", "stop A"}; !slices.Equal(log, want) {
		t.Errorf("services: %v, want %v", log, want)
	}
}

// A store that was opened without modules has no commands and no settings.
func TestOf_noModules(t *testing.T) {
	db, err := kv.Open("", &kv.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	host := module.Of(db)
	if len(host.Commands()) != 0 || len(host.Settings()) != 0 || host.Setting("dir") != "" || host.DB() != db {
		t.Errorf("a store without modules has %v, %v", host.Commands(), host.Settings())
	}
	if r := module.NewSession(db).Do(t.Context(), [][]byte{[]byte("GET"), []byte("k")}); !r.IsError() {
		t.Errorf("GET = %v, want an error", r)
	}
}

// The services of a table work for one store at a time: a second store that would have them is refused, which does not
// disturb the first.
func TestTable_twoStores(t *testing.T) {
	var log []string
	table := module.New(named("A", &log))
	open := func() (*kv.DB, error) { return kv.Open("", &kv.Options{InMemory: true, Modules: table}) }
	first, err := open()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := open(); err == nil || !strings.Contains(err.Error(), "for each store") {
			t.Errorf("a second store with the same services: %v", err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"start A", "stop A", "start A", "stop A"}; !slices.Equal(log, want) {
		t.Errorf("services: %v, want %v", log, want)
	}
	// Without services any number of stores may have it.
	plain := module.New()
	for range 2 {
		db, err := kv.Open("", &kv.Options{InMemory: true, Modules: plain})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
	}
}
