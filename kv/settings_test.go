package kv_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/reply"
)

// openWith opens a store in memory with the module.
func openWith(t *testing.T, m kv.Module) *kv.DB {
	t.Helper()
	db, err := kv.Open("store", &kv.Options{FS: vfs.NewMem(), BallastSize: -1, MinFreeSpace: -1, Modules: []kv.Module{m}})
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

// lowAndHigh has two settings of which one must not be above the other, and others.
func lowAndHigh() kv.Module {
	inOrder := func(value func(string) string) error {
		if len(value("low")) > len(value("high")) {
			return errors.New("argument must not be longer than high")
		}
		return nil
	}
	anyText := func(text string) (string, error) { return text, nil }
	return kv.Module{Name: "test", Settings: []kv.Setting{
		{Name: "low", Summary: "L.", Default: "a", Check: anyText, Fits: inOrder},
		{Name: "high", Summary: "H.", Default: "aa", Check: anyText, Fits: inOrder},
		{Name: "number", Summary: "N.", Default: "7", Check: kv.IntegerSetting(-3, 10)},
		{Name: "rate", Summary: "R.", Default: "0.01", Check: kv.FloatSetting(0, 1, 0.25)},
		{Name: "word", Summary: "W.", Default: "no", Check: kv.WordSetting("yes", "no")},
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
		err := db.SetSetting(tc.name, tc.value)
		if (err != nil) != (tc.refused != "") || err != nil && (!errors.Is(err, kv.ErrSetting) || !strings.Contains(err.Error(), tc.refused)) {
			t.Errorf("SetSetting(%q, %q) = %v, want %q in it", tc.name, tc.value, err, tc.refused)
		}
		if got := db.Setting(strings.ToLower(tc.name)); got != tc.want {
			t.Errorf("after SetSetting(%q, %q) it is %q, want %q", tc.name, tc.value, got, tc.want)
		}
	}
	if n, x := db.SettingInt("number"), db.SettingFloat("rate"); n != 10 || x != 0.25 {
		t.Errorf("number and rate are %d and %v, want 10 and 0.25", n, x)
	}
	if n, x := db.SettingInt("word"), db.SettingFloat("missing"); n != 0 || x != 0 {
		t.Errorf("a word is the integer %d, a missing setting the number %v, want 0 and 0", n, x)
	}
}

// Settings that are changed together are looked at as they are to be, and none of them is changed if one is refused.
func TestDB_SetSetting_together(t *testing.T) {
	db := openWith(t, lowAndHigh())
	session := db.NewSession()
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
		if low, high := db.Setting("low"), db.Setting("high"); low != tc.low || high != tc.high {
			t.Errorf("after CONFIG SET %s they are %q and %q, want %q and %q", tc.words, low, high, tc.low, tc.high)
		}
	}
}

// A value is seen whole, in each of its forms, by those who do not wait for whom changes it.
func TestDB_Setting_concurrent(t *testing.T) {
	db := openWith(t, lowAndHigh())
	var wg sync.WaitGroup
	for _, value := range []string{"-3", "10"} {
		wg.Go(func() {
			for range 200 {
				if err := db.SetSetting("number", value); err != nil {
					t.Error(err)
				}
				if n := db.SettingInt("number"); n != -3 && n != 10 {
					t.Errorf("number is %d, want -3 or 10", n)
				}
			}
		})
	}
	wg.Wait()
}

func TestDB_Settings(t *testing.T) {
	var names []string
	for _, s := range openWith(t, lowAndHigh()).Settings() {
		names = append(names, s.Name)
	}
	if !slices.IsSorted(names) || !slices.Contains(names, "low") || !slices.Contains(names, "appendfsync") {
		t.Errorf("Settings are %q, want those of the store and the module, sorted", names)
	}
}

func TestOptions_settings(t *testing.T) {
	for name, tc := range map[string]struct {
		settings []kv.Setting
		want     string
	}{
		"twice":      {[]kv.Setting{{Name: "a", Summary: "A."}, {Name: "a", Summary: "A."}}, `setting "a" is registered twice`},
		"built in":   {[]kv.Setting{{Name: "save", Summary: "A."}}, `setting "save" is registered twice`},
		"no name":    {[]kv.Setting{{Summary: "A."}}, "1 to 64 bytes"},
		"upper case": {[]kv.Setting{{Name: "aB", Summary: "A."}}, "lower case"},
		"no summary": {[]kv.Setting{{Name: "a"}}, "Summary"},
		"default":    {[]kv.Setting{{Name: "a", Summary: "A.", Default: "5", Check: kv.IntegerSetting(1, 4)}}, `default "5": argument must be between 1 and 4`},
		"form":       {[]kv.Setting{{Name: "a", Summary: "A.", Default: "1e-2", Check: kv.FloatSetting(0, 1, 1)}}, `"0.01"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kv.Open("store", &kv.Options{FS: vfs.NewMem(), Modules: []kv.Module{{Name: "test", Settings: tc.settings}}})
			if !errors.Is(err, kv.ErrOptions) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Open = %v, want ErrOptions with %q", err, tc.want)
			}
		})
	}
}

// What FitsCall refuses CONFIG SET may not set, and the program may.
func TestSetting_FitsCall(t *testing.T) {
	refuse := func(c *kv.Call, value func(string) string) error {
		return errors.New("argument must not be " + value("mine") + " for " + c.Command.LowerName())
	}
	db := openWith(t, kv.Module{Name: "test", Settings: []kv.Setting{
		{Name: "mine", Summary: "M.", Default: "1", Check: kv.IntegerSetting(0, 10), FitsCall: refuse},
	}})
	if err := db.SetSetting("mine", "2"); err != nil || db.Setting("mine") != "2" {
		t.Errorf("SetSetting = %v, and it is %s", err, db.Setting("mine"))
	}
	r := db.NewSession().Do(t.Context(), [][]byte{[]byte("CONFIG"), []byte("SET"), []byte("mine"), []byte("3")})
	if got := string(r.Bytes()); !strings.HasSuffix(got, " - argument must not be 3 for config|set") || db.Setting("mine") != "2" {
		t.Errorf("CONFIG SET = %s, and it is %s", got, db.Setting("mine"))
	}
}
