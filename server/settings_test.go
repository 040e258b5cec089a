package server_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/module"
)

// The tables of docs/SERVER.md have every setting that can be changed, with its default and the values that its error
// message allows.
func TestSettings_documented(t *testing.T) {
	text, err := os.ReadFile("../docs/SERVER.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string][2]string) // default and values, by name
	row := regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| ([^|]*) \\| ([^|]*) \\| [^|]+ \\|$")
	for _, cells := range row.FindAllStringSubmatch(string(text), -1) {
		if _, twice := rows[cells[1]]; twice {
			t.Errorf("%s is there twice", cells[1])
		}
		rows[cells[1]] = [2]string{cells[2], cells[3]}
	}
	for _, s := range module.Of(serve(t, nil).db.Store()).Settings() {
		if s.Check == nil {
			continue
		}
		if want := [2]string{s.Default, valuesOf(t, s)}; rows[s.Name] != want {
			t.Errorf("%s is documented as %q, and is %q", s.Name, rows[s.Name], want)
		}
		delete(rows, s.Name)
	}
	for name := range rows {
		t.Errorf("%s is documented, and is no setting that can be changed", name)
	}
}

// valuesOf returns the allowed values of a setting in the words of the tables.
func valuesOf(t *testing.T, s module.Setting) string {
	t.Helper()
	const mostNegative, highest = "-9223372036854775808", "9223372036854775807"
	_, err := s.Check(mostNegative)
	if err == nil { // any text, unless it is too long
		_, err = s.Check(strings.Repeat("x", 1<<10))
	}
	if err == nil {
		t.Fatalf("%s takes %s", s.Name, mostNegative)
	}
	if words, found := strings.CutPrefix(err.Error(), "argument(s) must be one of the following: "); found {
		return words
	}
	said, found := strings.CutPrefix(err.Error(), "argument must be ")
	var low, high string
	if _, err := fmt.Sscanf(said, "between %s and %s inclusive", &low, &high); err != nil {
		return said // a number's
	}
	if !found {
		t.Fatalf("%s refuses %s with %v", s.Name, mostNegative, err)
	}
	for _, value := range []string{low, high} {
		if _, err := s.Check(value); err != nil {
			t.Errorf("%s refuses %s: %v", s.Name, value, err)
		}
	}
	if high == highest {
		return low + " or more"
	}
	return low + " to " + high
}
