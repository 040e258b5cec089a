package coreext_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// openWith opens a store in memory with the module.
func openWith(t *testing.T, m module.Module) *kv.DB {
	t.Helper()
	db, err := kv.Open("store", &kv.Options{FS: vfs.NewMem(), BallastSize: -1, MinFreeSpace: -1, Modules: coreext.With(m)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// lowAndHigh has two settings, and more; one of the two must not exceed the other.
func lowAndHigh() module.Module {
	inOrder := func(value func(string) string) error {
		if len(value("low")) > len(value("high")) {
			return errors.New("argument must not be longer than high")
		}
		return nil
	}
	anyText := func(text string) (string, error) { return text, nil }
	return module.Module{Name: "test", Settings: []module.Setting{
		{Name: "low", Summary: "L.", Default: "a", Check: anyText, Fits: inOrder},
		{Name: "high", Summary: "H.", Default: "aa", Check: anyText, Fits: inOrder},
		{Name: "number", Summary: "N.", Default: "7", Check: module.IntegerSetting(-3, 10)},
		{Name: "rate", Summary: "R.", Default: "0.01", Check: module.FloatSetting(0, 1, 0.25)},
		{Name: "word", Summary: "W.", Default: "no", Check: module.WordSetting("yes", "no")},
		{Name: "fixed", Summary: "F.", Default: "x"},
	}}
}

func TestDB_SetSetting(t *testing.T) {
	db := openWith(t, lowAndHigh())
	for _, tc := range []struct{ name, value, want, refused string }{
		{name: "number", value: "-3", want: "-3"},
		{name: "NUMBER", value: "10", want: "10"},
		{name: "number", value: "11", want: "10", refused: "between -3 and 10"},
		{name: "number", value: "+1", want: "10", refused: `number "+1": argument couldn't be parsed into an integer`},
		{name: "rate", value: "1e-3", want: "0.001"},
		{name: "rate", value: "0.9", want: "0.25"},
		{name: "rate", value: "1", want: "0.25", refused: "above 0 and below 1"},
		{name: "rate", value: "nan", want: "0.25", refused: "into a number"},
		{name: "word", value: "YES", want: "yes"},
		{name: "word", value: "maybe", want: "yes", refused: "yes, no"},
		{name: "fixed", value: "x", want: "x", refused: "immutable"},
		{name: "other", value: "x", want: "", refused: "no such setting"},
		{name: "low", value: "bbb", want: "a", refused: "longer than high"},
		{name: "high", value: "", want: "aa", refused: "longer than high"},
		{name: "high", value: "bbb", want: "bbb"},
		{name: "low", value: "bbb", want: "bbb"},
	} {
		err := module.Of(db).SetSetting(tc.name, tc.value)
		if (err != nil) != (tc.refused != "") || err != nil && (!errors.Is(err, module.ErrSetting) || !strings.Contains(err.Error(), tc.refused)) {
			t.Errorf("SetSetting(%q, %q) = %v, want %q in it", tc.name, tc.value, err, tc.refused)
		}
		if got := module.Of(db).Setting(strings.ToLower(tc.name)); got != tc.want {
			t.Errorf("after SetSetting(%q, %q) it is %q, want %q", tc.name, tc.value, got, tc.want)
		}
	}
	if n, x := module.Of(db).SettingInt("number"), module.Of(db).SettingFloat("rate"); n != 10 || x != 0.25 {
		t.Errorf("number and rate are %d and %v, want 10 and 0.25", n, x)
	}
	if n, x := module.Of(db).SettingInt("word"), module.Of(db).SettingFloat("missing"); n != 0 || x != 0 {
		t.Errorf("a word is the integer %d, a missing setting the number %v, want 0 and 0", n, x)
	}
}

// A table knows without a store what SetSetting would answer, one setting after the other.
func TestTable_CheckSettings(t *testing.T) {
	table := coreext.With(lowAndHigh())
	for _, tc := range []struct {
		pairs   [][2]string
		taken   int
		refused string
	}{
		{nil, 0, ""},
		{[][2]string{{"number", "1"}, {"NUMBER", "2"}}, 2, ""},
		{[][2]string{{"number", "1"}, {"number", "11"}}, 1, `number "11": argument must be between -3 and 10`},
		{[][2]string{{"low", "bbb"}, {"high", "bbb"}}, 0, `low "bbb": argument must not be longer than high`},
		{[][2]string{{"high", "bbb"}, {"low", "bbb"}}, 2, ""},
		{[][2]string{{"fixed", "x"}}, 0, "immutable"},
		{[][2]string{{"dir", "x"}}, 0, "immutable"},
		{[][2]string{{"other", "x"}}, 0, "no such setting"},
	} {
		taken, err := table.CheckSettings(tc.pairs)
		if taken != tc.taken || (err != nil) != (tc.refused != "") ||
			err != nil && (!errors.Is(err, module.ErrSetting) || !strings.Contains(err.Error(), tc.refused)) {
			t.Errorf("CheckSettings(%q) = %d, %v, want %d, %q", tc.pairs, taken, err, tc.taken, tc.refused)
		}
	}
}

// Settings that change together are checked with their new values, and none changes if one is refused.
func TestDB_SetSetting_together(t *testing.T) {
	db := openWith(t, lowAndHigh())
	session := module.NewSession(db)
	for _, tc := range []struct {
		words, low, high string
		refused          bool
	}{
		{"low bbbb high bbb", "a", "aa", true},
		{"high bbb low bbbb", "a", "aa", true},
		{"low bbb high bbb", "bbb", "bbb", false},
		{"high a low bb", "bbb", "bbb", true},
		{"number 11 low a", "bbb", "bbb", true},
		{"low a number 11", "bbb", "bbb", true},
		{"low a high a", "a", "a", false},
	} {
		var words [][]byte
		for word := range strings.FieldsSeq("CONFIG SET " + tc.words) {
			words = append(words, []byte(word))
		}
		r := session.Do(t.Context(), words)
		if refused := r.Kind() == reply.KindError; refused != tc.refused {
			t.Errorf("CONFIG SET %s = %v", tc.words, r)
		}
		if low, high := module.Of(db).Setting("low"), module.Of(db).Setting("high"); low != tc.low || high != tc.high {
			t.Errorf("after CONFIG SET %s they are %q and %q, want %q and %q", tc.words, low, high, tc.low, tc.high)
		}
	}
}

// Concurrent readers see a value as a whole, in each of its forms, without waiting.
func TestDB_Setting_concurrent(t *testing.T) {
	db := openWith(t, lowAndHigh())
	var wg sync.WaitGroup
	for _, value := range []string{"-3", "10"} {
		wg.Go(func() {
			for range 200 {
				if err := module.Of(db).SetSetting("number", value); err != nil {
					t.Error(err)
				}
				if n := module.Of(db).SettingInt("number"); n != -3 && n != 10 {
					t.Errorf("number is %d, want -3 or 10", n)
				}
			}
		})
	}
	wg.Wait()
}

func TestDB_Settings(t *testing.T) {
	var names []string
	for _, s := range module.Of(openWith(t, lowAndHigh())).Settings() {
		names = append(names, s.Name)
	}
	if !slices.IsSorted(names) || !slices.Contains(names, "low") || !slices.Contains(names, "appendfsync") {
		t.Errorf("Settings are %q, want those of the store and the module, sorted", names)
	}
}

func TestOptions_settings(t *testing.T) {
	for name, tc := range map[string]struct {
		settings []module.Setting
		want     string
	}{
		"twice":      {[]module.Setting{{Name: "a", Summary: "A."}, {Name: "a", Summary: "A."}}, `setting "a" is registered twice`},
		"built in":   {[]module.Setting{{Name: "save", Summary: "A."}}, `setting "save" is registered twice`},
		"no name":    {[]module.Setting{{Summary: "A."}}, "1 to 64 bytes"},
		"upper case": {[]module.Setting{{Name: "aB", Summary: "A."}}, "lower case"},
		"no summary": {[]module.Setting{{Name: "a"}}, "Summary"},
		"default":    {[]module.Setting{{Name: "a", Summary: "A.", Default: "5", Check: module.IntegerSetting(1, 4)}}, `default "5": argument must be between 1 and 4`},
		"form":       {[]module.Setting{{Name: "a", Summary: "A.", Default: "1e-2", Check: module.FloatSetting(0, 1, 1)}}, `"0.01"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kv.Open("store", &kv.Options{FS: vfs.NewMem(), Modules: coreext.With(module.Module{Name: "test", Settings: tc.settings})})
			if !errors.Is(err, kv.ErrOptions) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Open = %v, want ErrOptions with %q", err, tc.want)
			}
		})
	}
}

// CONFIG SET may not set what FitsCall refuses; the program may.
func TestSetting_FitsCall(t *testing.T) {
	refuse := func(c *module.Call, value func(string) string) error {
		return errors.New("argument must not be " + value("mine") + " for " + c.Command.LowerName())
	}
	db := openWith(t, module.Module{Name: "test", Settings: []module.Setting{
		{Name: "mine", Summary: "M.", Default: "1", Check: module.IntegerSetting(0, 10), FitsCall: refuse},
	}})
	if err := module.Of(db).SetSetting("mine", "2"); err != nil || module.Of(db).Setting("mine") != "2" {
		t.Errorf("SetSetting = %v, and it is %s", err, module.Of(db).Setting("mine"))
	}
	r := module.NewSession(db).Do(t.Context(), [][]byte{[]byte("CONFIG"), []byte("SET"), []byte("mine"), []byte("3")})
	if got := string(r.Bytes()); !strings.HasSuffix(got, " - argument must not be 3 for config|set") || module.Of(db).Setting("mine") != "2" {
		t.Errorf("CONFIG SET = %s, and it is %s", got, module.Of(db).Setting("mine"))
	}
}
