// Package cliflags has types of flags that package pflag lacks, and error texts about flags that are easier to
// understand.
package cliflags

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/suggest"
)

// countValue is a flag that takes a count: see parseCount.
type countValue[T int | uint32 | uint64] struct{ n *T }

// CountVar makes a flag that takes a count.
func CountVar[T int | uint32 | uint64](flags *pflag.FlagSet, n *T, name string, value T, usage string) {
	*n = value
	flags.Var(countValue[T]{n}, name, usage)
}

func (c countValue[T]) String() string {
	if c.n == nil { // pflag makes a zero value, to compare defaults with
		return "0"
	}
	return fmt.Sprint(*c.n)
}

func (c countValue[T]) Type() string { return "COUNT" }

func (c countValue[T]) Set(text string) error {
	most := uint64(^T(0))
	if ^T(0) < 0 { // signed
		most = math.MaxInt
	}
	n, err := parseCount(text, most)
	if err != nil {
		return err
	}
	*c.n = T(n)
	return nil
}

// rangeValue is a flag that takes a whole number of a range.
type rangeValue[T int | uint64] struct {
	n           *T
	least, most T
}

// RangeVar makes a flag that takes a whole number of a range. If it is not given, n stays what it is.
func RangeVar[T int | uint64](flags *pflag.FlagSet, n *T, name string, least, most T, usage string) {
	flags.Var(rangeValue[T]{n, least, most}, name, usage)
}

func (r rangeValue[T]) String() string {
	if r.n == nil { // pflag makes a zero value, to compare defaults with
		return "0"
	}
	return fmt.Sprint(*r.n)
}

func (r rangeValue[T]) Type() string { return "NUMBER" }

func (r rangeValue[T]) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n < uint64(r.least) || n > uint64(r.most) {
		return fmt.Errorf("must be a whole number, %d to %d", r.least, r.most)
	}
	*r.n = T(n)
	return nil
}

// countForm is what a count looks like.
var countForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?(?:[eE]\+?[0-9]{1,2})?)([kKmMgGtT]?)$`)
})

// countUnits are the powers of 1000 that a count's last letter stands for.
var countUnits = map[string]int64{"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

var errCount = errors.New("must be a whole number, such as 64000, 64k, 1M or 1e6")

// parseCount reads a whole number that is at most most. It may have an exponent, as 1e6, or one of the units k, M, G
// and T in either case, each a power of 1000. 1.5k is 1500.
func parseCount(text string, most uint64) (uint64, error) {
	parts := countForm().FindStringSubmatch(text)
	if parts == nil {
		return 0, errCount
	}
	n, ok := new(big.Rat).SetString(parts[1])
	if !ok {
		return 0, errCount
	}
	n.Mul(n, new(big.Rat).SetInt64(countUnits[strings.ToUpper(parts[2])]))
	switch {
	case !n.IsInt():
		return 0, errCount
	case !n.Num().IsUint64(), n.Num().Uint64() > most:
		return 0, fmt.Errorf("must be at most %d", most)
	}
	return n.Num().Uint64(), nil
}

// Error turns an error of parsing flags into a usage error. -h without a host is a request for help.
func Error(cmd *cobra.Command, err error) error {
	var missing *pflag.ValueRequiredError
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	needsValue := errors.As(err, &missing)
	switch {
	case errors.Is(err, pflag.ErrHelp), needsValue && missing.GetSpecifiedName() == "h":
		return pflag.ErrHelp
	case needsValue:
		value, _ := pflag.UnquoteUsage(missing.GetFlag())
		err = fmt.Errorf("flag needs an argument: %s %s", dashed(missing.GetSpecifiedName()), value)
	case errors.As(err, &unknown):
		err = unknownFlag(cmd, unknown)
	case errors.As(err, &invalid):
		err = invalidFlag(invalid)
	}
	return exit.Usagef("%w; see %s --help", err, cmd.CommandPath())
}

// dashed returns a flag as it is typed.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func unknownFlag(cmd *cobra.Command, err *pflag.NotExistError) error {
	name := dashed(err.GetSpecifiedName())
	if all := err.GetSpecifiedShortnames(); len(all) > 1 {
		if word, _, _ := strings.Cut(all, "="); cmd.Flags().Lookup(word) != nil {
			return fmt.Errorf("unknown flag: -%s; did you mean --%s?", all, all)
		}
		name += " in -" + all
	}
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	if near := suggest.Closest(err.GetSpecifiedName(), names); len(near) > 0 && len(err.GetSpecifiedName()) > 2 {
		return fmt.Errorf("unknown flag: %s; did you mean --%s?", name, near[0])
	}
	return fmt.Errorf("unknown flag: %s", name)
}

// Invalid turns an error of setting a flag, outside of the command line, into one without dashes.
func Invalid(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	return errors.New(strings.TrimLeft(invalidFlag(invalid).Error(), "-"))
}

// invalidFlag says which values a flag takes. It replaces errors of packages strconv and time, which flags of pflag's own
// types have.
func invalidFlag(err *pflag.InvalidValueError) error {
	flag, cause := err.GetFlag(), err.Unwrap()
	if number := (*strconv.NumError)(nil); errors.As(cause, &number) {
		cause = errors.New(map[string]string{
			"uint": "must be a whole number, 0 or more", "uint64": "must be a whole number, 0 to 18446744073709551615",
			"int": "must be a whole number", "int64": "must be a whole number", "float64": "must be a number, such as 0.01", "bool": "must be true or false",
		}[flag.Value.Type()])
	}
	if flag.Value.Type() == "duration" {
		cause = errors.New("must be a time, such as 500ms, 10s or 5m")
	}
	name := dashed(flag.Name)
	if flag.Shorthand != "" {
		name = dashed(flag.Shorthand)
	}
	value := err.GetValue()
	if value == "" {
		value = `""`
	}
	return fmt.Errorf("%s %s: %w", name, value, cause)
}

// Exclusive returns a usage error if more than one of the flags was given.
func Exclusive(flags *pflag.FlagSet, names ...string) error {
	given := ""
	for _, name := range names {
		switch {
		case !flags.Changed(name):
		case given == "":
			given = name
		default:
			return exit.Usagef("%s and %s exclude each other", dashed(given), dashed(name))
		}
	}
	return nil
}
