package serve

import (
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// Settings may have the names that arguments of RedisBloom's module once had, in any case.
func TestFlags_oldNames(t *testing.T) {
	modules := coreext.With(bloomext.Module(), cuckooext.Module())
	db, err := kv.Open("", &kv.Options{InMemory: true, Modules: modules})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	f := &Flags{settings: []string{"ERROR_RATE=0.2", "initial_size=500", "CF_MAX_EXPANSIONS=7", "cf-bucket-size=4"}}
	if err := f.checkSettings(modules); err != nil {
		t.Fatal(err)
	}
	if err := f.Set(db); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"bf-error-rate": "0.2", "bf-initial-size": "500", "cf-max-expansions": "7", "cf-bucket-size": "4"} {
		if got := module.Of(db).Setting(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
