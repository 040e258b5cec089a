package serve

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cliflags"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/suggest"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/text"
)

// ConfigFlag is the name of the flag that names a configuration file.
const ConfigFlag = "config"

// maxConfig is the most bytes of a configuration file.
const maxConfig = 1 << 20

// Config is a configuration file: flags, one a line, as they are named but without dashes, each followed by blanks and
// its value. A value of "" is an empty one. Empty lines, and lines that begin with #, say nothing. A flag of the
// command line replaces the file's. Of a flag that may be given several times both hold, except that for a setting the
// command line's value wins.
type Config struct {
	path  string
	lines map[string]int // of what the file has set, by how errors name it: --NAME, or --NAME VALUE
}

// ReadConfig sets flags that were not given as a file has them. Its errors name the file and the line.
func ReadConfig(ctx context.Context, flags *pflag.FlagSet, path string) (*Config, error) {
	file, err := system.ReadFile(ctx, path, maxConfig)
	var data []byte
	if err == nil {
		data, err = text.DecodeAll(file.Data)
	}
	if err != nil {
		return nil, exit.WithCode(exit.Local, fmt.Errorf("serve: %w", fileError("--"+ConfigFlag, path, err)))
	}
	c := &Config{path: path, lines: make(map[string]int)}
	return c, c.read(flags, data)
}

// read reads the lines of the file.
func (c *Config) read(flags *pflag.FlagSet, data []byte) error {
	r := configReader{Config: c, flags: flags, given: make(map[string]bool), seen: make(map[string]int), several: make(map[string][]string)}
	flags.Visit(func(f *pflag.Flag) { r.given[f.Name] = true })
	number := 0
	for line := range bytes.Lines(data) {
		number++
		words := strings.TrimSpace(string(line))
		if words == "" || words[0] == '#' {
			continue
		}
		if err := r.take(number, words); err != nil {
			return exit.Usagef("serve: --%s %s:%d: %w", ConfigFlag, c.path, number, err)
		}
	}
	for name, values := range r.several {
		f := flags.Lookup(name)
		list := f.Value.(pflag.SliceValue)
		if err := list.Replace(append(values, list.GetSlice()...)); err != nil { // of several values of a setting the last holds
			return err
		}
		f.Changed = true
	}
	return nil
}

// configReader reads a configuration file.
type configReader struct {
	*Config
	flags   *pflag.FlagSet
	given   map[string]bool     // names of flags that the command line has
	seen    map[string]int      // lines by what they say something about
	several map[string][]string // values of flags that may be given several times
}

// take takes a line.
func (r *configReader) take(number int, line string) error {
	name, value, valued := line, "", false
	if i := strings.IndexAny(line, " \t"); i > 0 {
		name, value, valued = line[:i], strings.TrimSpace(line[i:]), true
	}
	f := r.flags.Lookup(name)
	switch {
	case f == nil || !isConfigurable(f):
		return r.unknown(name)
	case !valued && f.NoOptDefVal == "":
		return fmt.Errorf("%s needs a value behind it", name)
	case !valued:
		value = f.NoOptDefVal
	case value == `""`:
		value = ""
	}
	_, isList := f.Value.(pflag.SliceValue)
	about, key := name, "--"+name
	if isList {
		about, key = name+" "+value, key+" "+value
	}
	if of, _, ok := setting(value); ok && name == settingFlag {
		about = name + " " + strings.ToLower(of)
	}
	if before := r.seen[about]; before > 0 {
		return fmt.Errorf("%s is in line %d already", about, before)
	}
	r.seen[about] = number
	switch {
	case isList:
		r.several[name] = append(r.several[name], value)
	case r.given[name]:
		return nil
	default:
		if err := r.flags.Set(name, value); err != nil {
			return cliflags.Invalid(err)
		}
	}
	r.lines[key] = number
	return nil
}

// isConfigurable reports whether a file may have a flag. The flags for clients are hidden.
func isConfigurable(f *pflag.Flag) bool {
	return !f.Hidden && f.Name != ConfigFlag && f.Name != "help"
}

// unknown returns the error for a key that is no flag.
func (r *configReader) unknown(name string) error {
	var names []string
	r.flags.VisitAll(func(f *pflag.Flag) {
		if isConfigurable(f) {
			names = append(names, f.Name)
		}
	})
	if near := suggest.Closest(strings.TrimLeft(name, "-"), names); len(near) > 0 {
		return fmt.Errorf("unknown key %q; did you mean %s?", name, near[0])
	}
	return fmt.Errorf("unknown key %q: want a flag of serve without its dashes, see kvshell serve --help", name)
}

// Explain adds to an error of usage about a flag where the file has it. A nil Config explains nothing.
func (c *Config) Explain(err error) error {
	if c == nil || exit.Code(err) != exit.Usage && exit.Code(err) != exit.Local && exit.Code(err) != exit.Open {
		return err
	}
	longest := ""
	for key := range c.lines {
		at := strings.Index(err.Error(), key)
		if at >= 0 && len(key) > len(longest) && !continues(err.Error()[at+len(key):]) {
			longest = key
		}
	}
	if longest == "" {
		return err
	}
	return exit.WithCode(exit.Code(err), fmt.Errorf("%w (--%s %s:%d)", err, ConfigFlag, c.path, c.lines[longest]))
}

// continues reports whether a text goes on with the rest of a flag's name.
func continues(rest string) bool {
	return rest != "" && (rest[0] == '-' || rest[0] >= 'a' && rest[0] <= 'z')
}
