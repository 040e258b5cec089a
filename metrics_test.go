package sievekv_test

import (
	"fmt"
	"log"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sievekv/sievekv"
)

// A program registers its store's metrics with its own.
func ExampleNewCollector() {
	db := inMemory()
	defer db.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(sievekv.NewCollector(db))
	if err := db.Set("key", nil); err != nil {
		log.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		if name := f.GetName(); name == "sievekv_keys" || name == "sievekv_up" {
			fmt.Println(name, f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output:
	// sievekv_keys 1
	// sievekv_up 1
}

// The collector describes every metric that it collects, and for a closed store collects only sievekv_up.
func TestNewCollector(t *testing.T) {
	db := inMemory()
	registry := prometheus.NewPedanticRegistry() // refuses what was not described
	registry.MustRegister(sievekv.NewCollector(db))
	families, err := registry.Gather()
	if err != nil || len(families) < 30 {
		t.Errorf("%d metrics, %v", len(families), err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "sievekv_") {
			t.Errorf("the name of %s", f.GetName())
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	families, err = registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "sievekv_up" || families[0].GetMetric()[0].GetGauge().GetValue() != 0 {
		t.Errorf("of a closed store: %v, %v", families, err)
	}
}
