package kv

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode"
)

// ErrSetting is returned for a setting that does not exist, cannot be changed, or cannot
// have the value. The message names it, the value, and what is allowed.
var ErrSetting = errors.New("kv: bad setting")

// Setting is a value that a store's users can look at, and most of them change, while it
// is open: what CONFIG GET and CONFIG SET are about. Values are kept in the open store, in
// memory: the next Open begins with the defaults again, as a Redis server without CONFIG
// REWRITE does.
type Setting struct {
	// Name is as CONFIG has it, in lower case, 1 to 64 bytes.
	Name string

	// Summary says what the setting is for, in one sentence.
	Summary string

	// Default is the value when the store is opened, in the form Check gives it.
	Default string

	// Check returns the form in which a value is kept and shown. Its error says what is
	// allowed, and is the end of a sentence of CONFIG SET: "argument must be ...". Nil
	// means that the setting cannot be changed.
	Check func(text string) (canonical string, err error)

	// Fits, if set, is asked after Check, about the values that all settings are to have:
	// it refuses one that does not go with the others, in words as those of Check.
	Fits func(value func(name string) string) error

	// FitsCall, if set, is asked after Fits by CONFIG SET alone, with its call: it refuses what the
	// program may set and a client must not.
	FitsCall func(c *Call, value func(name string) string) error
}

// setting is a Setting and its value, which is read without a lock.
type setting struct {
	Setting
	value atomic.Pointer[settingValue]
}

// settingValue is a value in the forms it is asked for.
type settingValue struct {
	text   string
	number int64
	float  float64
}

func newSettingValue(text string) *settingValue {
	v := &settingValue{text: text}
	v.number, _ = strconv.ParseInt(text, 10, 64)
	v.float, _ = strconv.ParseFloat(text, 64)
	return v
}

// IntegerSetting returns a check of values that are integers from low to high.
func IntegerSetting(low, high int64) func(text string) (string, error) {
	return func(text string) (string, error) {
		n, ok := ParseInt([]byte(text))
		switch {
		case !ok:
			return "", errors.New("argument couldn't be parsed into an integer")
		case n < low || n > high:
			return "", fmt.Errorf("argument must be between %d and %d inclusive", low, high)
		}
		return text, nil
	}
}

// FloatSetting returns a check of values that are numbers above low and below high. Those
// above most are taken for most.
func FloatSetting(low, high, most float64) func(text string) (string, error) {
	return func(text string) (string, error) {
		x, ok := ParseFloat([]byte(text))
		switch {
		case !ok || math.IsNaN(x):
			return "", errors.New("argument couldn't be parsed into a number")
		case x <= low || x >= high:
			return "", fmt.Errorf("argument must be above %v and below %v", low, high)
		}
		return strconv.FormatFloat(min(x, most), 'g', -1, 64), nil
	}
}

// WordSetting returns a check of values that are one of some words, in lower case; how
// they are written does not matter.
func WordSetting(words ...string) func(text string) (string, error) {
	return func(text string) (string, error) {
		if i := slices.IndexFunc(words, func(w string) bool { return fold(w) == fold(text) }); i >= 0 {
			return words[i], nil
		}
		return "", fmt.Errorf("argument(s) must be one of the following: %s", strings.Join(words, ", "))
	}
}

// Setting returns the value of a setting, "" if there is none of the name, which is in
// lower case.
func (db *DB) Setting(name string) string {
	if v := db.registry.settingValue(name); v != nil {
		return v.text
	}
	return ""
}

// SettingInt returns the value of a setting that is an integer, 0 for any other.
func (db *DB) SettingInt(name string) int64 {
	if v := db.registry.settingValue(name); v != nil {
		return v.number
	}
	return 0
}

// SettingFloat returns the value of a setting that is a number, 0 for any other.
func (db *DB) SettingFloat(name string) float64 {
	if v := db.registry.settingValue(name); v != nil {
		return v.float
	}
	return 0
}

// SetSetting changes a setting until the store is closed. The case of the name does not
// matter. The error wraps ErrSetting.
func (db *DB) SetSetting(name, value string) error {
	if failed, why := db.registry.change(nil, [][2]string{{name, value}}); why != nil {
		return fmt.Errorf("%w: %s %q: %w", ErrSetting, failed, value, why)
	}
	return nil
}

// Settings returns all settings, sorted by name.
func (db *DB) Settings() []Setting {
	list := make([]Setting, len(db.registry.settingNames))
	for i, name := range db.registry.settingNames {
		list[i] = db.registry.settings[name].Setting
	}
	return list
}

func (r *registry) addSettings(settings []Setting) {
	for _, s := range settings {
		one := &setting{Setting: s}
		one.value.Store(newSettingValue(s.Default))
		r.settings[s.Name] = one
		r.settingNames = append(r.settingNames, s.Name)
	}
}

func (r *registry) settingValue(name string) *settingValue {
	if s := r.settings[name]; s != nil {
		return s.value.Load()
	}
	return nil
}

// The reasons why a setting is not changed that are not about the value.
var (
	errNoSetting        = errors.New("there is no such setting")
	errImmutableSetting = errors.New("can't set immutable config")
	errSettingTwice     = errors.New("duplicate parameter")
)

// change sets settings to values, all or none, and returns the name of that which is
// refused, and why. The call is that of CONFIG SET, nil if the program changes them.
func (r *registry) change(c *Call, pairs [][2]string) (failed string, why error) {
	names := make([]string, len(pairs))
	for i, pair := range pairs {
		j := slices.IndexFunc(r.settingNames, func(name string) bool { return fold(name) == fold(pair[0]) })
		if j < 0 {
			return pair[0], errNoSetting
		}
		names[i] = r.settingNames[j]
		switch {
		case r.settings[names[i]].Check == nil:
			return names[i], errImmutableSetting
		case slices.Contains(names[:i], names[i]):
			return names[i], errSettingTwice
		}
	}
	r.settingsMu.Lock()
	defer r.settingsMu.Unlock()
	values := make(map[string]*settingValue)
	for i, pair := range pairs {
		text, err := r.settings[names[i]].Check(pair[1])
		if err != nil {
			return names[i], err
		}
		values[names[i]] = newSettingValue(text)
	}
	toBe := func(name string) string {
		if v := values[name]; v != nil {
			return v.text
		}
		if v := r.settingValue(name); v != nil {
			return v.text
		}
		return ""
	}
	for _, name := range names {
		s := r.settings[name]
		if s.Fits != nil {
			if err := s.Fits(toBe); err != nil {
				return name, err
			}
		}
		if s.FitsCall != nil && c != nil {
			if err := s.FitsCall(c, toBe); err != nil {
				return name, err
			}
		}
	}
	for name, v := range values {
		r.settings[name].value.Store(v)
	}
	return "", nil
}

// validateSetting finds what is wrong with a setting by itself.
func validateSetting(s *Setting) error {
	if strings.ContainsFunc(s.Name, unicode.IsUpper) || s.Summary == "" {
		return fmt.Errorf("setting %q: needs a name in lower case and a Summary", s.Name)
	}
	if s.Check == nil {
		return nil
	}
	switch canonical, err := s.Check(s.Default); {
	case err != nil:
		return fmt.Errorf("setting %q: default %q: %w", s.Name, s.Default, err)
	case canonical != s.Default:
		return fmt.Errorf("setting %q: default %q: its Check makes that %q", s.Name, s.Default, canonical)
	}
	return nil
}

// ownSettings are the store's own: how it was opened.
func (o *Options) ownSettings(dir string) []Setting {
	fixed := func(name, value, summary string) Setting {
		return Setting{Name: name, Default: value, Summary: summary}
	}
	return []Setting{
		fixed("appendfsync", o.Durability.String(), "When a write is reported as done: always, everysec or no."),
		fixed("appendonly", "yes", "Every write goes to a log."),
		fixed("cache-size", strconv.FormatInt(o.CacheSize, 10), "Budget of resident blocks and open objects, in bytes."),
		fixed("databases", "1", "There is database 0 alone."),
		fixed("dir", dir, "The directory of the store."),
		fixed("max-filter-bytes", strconv.FormatUint(o.MaxFilterBytes, 10), "The most bytes a filter may be made for."),
		fixed("maxmemory", "0", "Data is on disk: its size is not limited by memory."),
		fixed("maxmemory-policy", "noeviction", "Keys stay until they are removed or expire."),
		fixed("save", "", "There are no snapshots to save: the log and the tables are all there is."),
	}
}
