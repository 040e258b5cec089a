package module

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
)

// The errors of settings, for errors.Is.
var (
	// ErrSetting is returned by SetSetting and CheckSettings for a setting that does not exist, cannot be changed, or
	// cannot have the value. The message names the setting and the value, and says what is allowed.
	ErrSetting = errors.New("module: bad setting")

	// ErrNoSetting is the reason if no module has a setting of the name. ChangeSettings returns it alone; an
	// ErrSetting wraps it.
	ErrNoSetting = errors.New("there is no such setting")

	errImmutableSetting = errors.New("can't set immutable config")
	errSettingTwice     = errors.New("duplicate parameter")
)

// Setting is a value that users of an open store can read with CONFIG GET and, for most settings, change with CONFIG
// SET. Values are in memory only: the next Open starts with the defaults, as a Redis server without CONFIG REWRITE
// does.
type Setting struct {
	// Name is the name that CONFIG uses, in lower case, 1 to 64 bytes.
	Name string

	// Summary says what the setting is for, in one sentence.
	Summary string

	// Default is the value when the store is opened, in the form that Check returns.
	Default string

	// Unset, if set, returns the value until the setting is set, given the values of others. Default is what it returns
	// when the store is opened.
	Unset func(value func(name string) string) string

	// Value, if set, returns the value instead of Default, for a setting that cannot be changed.
	Value func(db *kv.DB) string

	// Check returns a value in the form in which it is kept and shown. Its error says what is allowed, such as
	// "argument must be between 1 and 10 inclusive": CONFIG SET ends its error with it. A nil Check means that the
	// setting cannot be changed.
	Check func(text string) (canonical string, err error)

	// Fits, if set, is called after Check with the new values of all settings. It refuses values that do not go
	// together, with an error like Check's.
	Fits func(value func(name string) string) error

	// FitsCall, if set, is called after Fits, but only for CONFIG SET. It refuses values that a program may set and a
	// client may not.
	FitsCall func(c *Call, value func(name string) string) error
}

// setting is a Setting and its value, which is read without a lock.
type setting struct {
	Setting
	value atomic.Pointer[settingValue]
}

// settingValue is a value in the three forms that callers need.
type settingValue struct {
	text   string
	number int64
	float  float64
}

func newSettingValue(word string) *settingValue {
	v := &settingValue{text: word}
	v.number, _ = strconv.ParseInt(word, 10, 64)
	v.float, _ = strconv.ParseFloat(word, 64)
	return v
}

// IntegerSetting returns a Check of values that are integers from low to high.
func IntegerSetting(low, high int64) func(word string) (string, error) {
	return func(word string) (string, error) {
		n, ok := text.ParseInt([]byte(word))
		switch {
		case !ok:
			return "", errors.New("argument couldn't be parsed into an integer")
		case n < low || n > high:
			return "", fmt.Errorf("argument must be between %d and %d inclusive", low, high)
		}
		return word, nil
	}
}

// FloatSetting returns a Check of values that are numbers above low and below high. Numbers above most become most.
func FloatSetting(low, high, most float64) func(word string) (string, error) {
	return func(word string) (string, error) {
		x, ok := text.ParseFloat([]byte(word))
		switch {
		case !ok || math.IsNaN(x):
			return "", errors.New("argument couldn't be parsed into a number")
		case x <= low || x >= high:
			return "", fmt.Errorf("argument must be above %v and below %v", low, high)
		}
		return strconv.FormatFloat(min(x, most), 'g', -1, 64), nil
	}
}

// WordSetting returns a Check of values that are one of these words, in any case. words are in lower case.
func WordSetting(words ...string) func(word string) (string, error) {
	return func(word string) (string, error) {
		if i := slices.IndexFunc(words, func(w string) bool { return text.FoldString(w) == text.FoldString(word) }); i >= 0 {
			return words[i], nil
		}
		return "", fmt.Errorf("argument(s) must be one of the following: %s", strings.Join(words, ", "))
	}
}

// Setting returns the value of a setting, "" if there is none. name is in lower case.
func (h *Host) Setting(name string) string {
	if v := h.settingValue(name); v != nil {
		return v.text
	}
	return ""
}

// SettingInt returns the value of a setting that is an integer, 0 for any other.
func (h *Host) SettingInt(name string) int64 {
	if v := h.settingValue(name); v != nil {
		return v.number
	}
	return 0
}

// IntReader returns a function that does what SettingInt does for this setting, but does not look for its name each time.
func (h *Host) IntReader(name string) func() int64 {
	s := h.settings[name]
	return func() int64 {
		if v := s.current(h); v != nil {
			return v.number
		}
		return 0
	}
}

// SettingFloat returns the value of a setting that is a number, 0 for any other.
func (h *Host) SettingFloat(name string) float64 {
	if v := h.settingValue(name); v != nil {
		return v.float
	}
	return 0
}

// SetSetting changes a setting until the store is closed. name may be in any case. The error wraps ErrSetting.
func (h *Host) SetSetting(name, value string) error {
	if refused, why := h.ChangeSettings(nil, [][2]string{{name, value}}); why != nil {
		return settingError(refused, value, why)
	}
	return nil
}

// Settings returns all settings, sorted by name.
func (h *Host) Settings() []Setting {
	list := make([]Setting, len(h.settingNames))
	for i, name := range h.settingNames {
		list[i] = h.settings[name].Setting
	}
	return list
}

func (h *Host) settingValue(name string) *settingValue { return h.settings[name].current(h) }

// current returns the setting's value, nil if s is nil.
func (s *setting) current(h *Host) *settingValue {
	switch {
	case s == nil:
		return nil
	case s.Value != nil:
		return newSettingValue(s.Value(h.db))
	}
	if v := s.value.Load(); v != nil || s.Unset == nil {
		return v
	}
	return newSettingValue(s.Unset(h.Setting))
}

// ChangeSettings sets several settings, all or none. If one is refused, it returns its name and the reason. c is the
// call of CONFIG SET, nil if the program makes the change.
func (h *Host) ChangeSettings(c *Call, pairs [][2]string) (refused string, why error) {
	h.settingsMu.Lock()
	defer h.settingsMu.Unlock()
	values, refused, why := h.checkSettings(c, pairs, h.Setting)
	if why != nil {
		return refused, why
	}
	for name, v := range values {
		h.settings[name].value.Store(newSettingValue(v))
	}
	return "", nil
}

// CheckSettings tells, without a store, what a newly opened store would answer to Host.SetSetting for each of these
// names and values, one after the other: how many it would take before the first that it refuses, and the error for
// that one.
func (t *Table) CheckSettings(pairs [][2]string) (taken int, err error) {
	values := make(map[string]string)
	var current func(name string) string
	current = func(name string) string {
		v, set := values[name]
		switch s := t.setting(name); {
		case set || s == nil:
			return v
		case s.Unset != nil:
			return s.Unset(current)
		default:
			return s.Default
		}
	}
	for i, pair := range pairs {
		changed, refused, why := t.checkSettings(nil, [][2]string{pair}, current)
		if why != nil {
			return i, settingError(refused, pair[1], why)
		}
		maps.Copy(values, changed)
	}
	return len(pairs), nil
}

func settingError(name, value string, why error) error {
	return fmt.Errorf("%w: %s %q: %w", ErrSetting, name, value, why)
}

// checkSettings returns the values for ChangeSettings to store, by names, or the name of the setting that it refuses,
// and the reason. Current returns the value of a setting now.
func (t *Table) checkSettings(c *Call, pairs [][2]string, current func(name string) string) (values map[string]string, refused string, why error) {
	changed := make([]*Setting, len(pairs))
	for i, pair := range pairs {
		s := t.setting(pair[0])
		switch {
		case s == nil:
			return nil, pair[0], ErrNoSetting
		case s.Check == nil:
			return nil, s.Name, errImmutableSetting
		case slices.Contains(changed[:i], s):
			return nil, s.Name, errSettingTwice
		}
		changed[i] = s
	}
	values = make(map[string]string)
	for i, s := range changed {
		canonical, err := s.Check(pairs[i][1])
		if err != nil {
			return nil, s.Name, err
		}
		values[s.Name] = canonical
	}
	toBe := func(name string) string {
		if v, ok := values[name]; ok {
			return v
		}
		return current(name)
	}
	for _, s := range changed {
		if s.Fits != nil {
			if err := s.Fits(toBe); err != nil {
				return nil, s.Name, err
			}
		}
		if s.FitsCall != nil && c != nil {
			if err := s.FitsCall(c, toBe); err != nil {
				return nil, s.Name, err
			}
		}
	}
	return values, "", nil
}

// setting returns the setting of a name, in any case; nil if there is none.
func (t *Table) setting(name string) *Setting {
	i := slices.IndexFunc(t.settings, func(s Setting) bool { return text.FoldString(s.Name) == text.FoldString(name) })
	if i < 0 {
		return nil
	}
	return &t.settings[i]
}

// validateSetting returns what is wrong with the definition of a setting.
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
