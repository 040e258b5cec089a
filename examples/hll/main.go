package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// key is where the program counts.
const key = "words"

func main() {
	dir := flag.String("d", "", "directory of the store; without it, one in memory is used")
	without := flag.Bool("without", false,
		"open the store in -d without the module, show what it answers, and remove the counter")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: hll [-d DIR] [-]\n"+
			"       hll -d DIR -without\n"+
			"Counts the different words of standard input with -, else some of its own.")
		flag.PrintDefaults()
	}
	flag.Parse()
	stdin := flag.NArg() == 1 && flag.Arg(0) == "-"
	if flag.NArg() > 0 && !stdin || *without && (stdin || *dir == "") {
		flag.Usage()
		os.Exit(2)
	}
	var words io.Reader = os.Stdin
	if !stdin {
		words = strings.NewReader(builtInWords())
	}
	if err := run(os.Stdout, *dir, *without, words); err != nil {
		fmt.Fprintln(os.Stderr, "hll:", err)
		os.Exit(1)
	}
}

// builtInWords returns 100,000 words, 30,000 of them different.
func builtInWords() string {
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, "word%d ", i%30_000)
	}
	return b.String()
}

func run(out io.Writer, dir string, without bool, words io.Reader) (err error) {
	opts := &kv.Options{
		InMemory: dir == "", MustExist: without,
		Modules: coreext.With(bloomext.Module(), compaction.Module()),
	}
	if !without {
		opts.Modules = coreext.Add(opts.Modules, hllModule())
	}
	db, err := kv.Open(dir, opts)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := db.Close(); err == nil {
			err = cerr
		}
	}()
	if without {
		return showWithout(out, db)
	}
	if err := addWords(out, db, words); err != nil {
		return err
	}
	fmt.Fprintf(out, "> HLL.COUNT %s\n%s\n", key, do(module.NewSession(db), "HLL.COUNT", key))
	for _, c := range module.Of(db).Commands() {
		if c.Group == "hyperloglog" {
			fmt.Fprintf(out, "\n%s %s\n  %s\n  %s. For example: %s\n", c.Name, c.Syntax, c.Summary, c.Complexity, c.Example)
		}
	}
	return nil
}

// do runs a command.
func do(s *module.Session, words ...string) reply.Reply {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	return s.Do(context.Background(), args)
}

// addWords adds the words, a thousand in a commit, and prints what that wrote.
func addWords(out io.Writer, db *kv.DB, words io.Reader) error {
	before, err := db.LogBytesWritten()
	if err != nil {
		return err
	}
	s, n := module.NewSession(db), 0
	scanner := bufio.NewScanner(words)
	scanner.Buffer(nil, 1<<20)
	scanner.Split(bufio.ScanWords)
	for more := true; more; {
		command := []string{"HLL.ADD", key}
		for len(command) < 2+1000 && more {
			if more = scanner.Scan(); more {
				command = append(command, scanner.Text())
			}
		}
		if len(command) == 2 {
			break
		}
		if err := do(s, command...).Err(); err != nil {
			return err
		}
		n += len(command) - 2
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("reading words: %w", err)
	}
	after, err := db.LogBytesWritten()
	fmt.Fprintf(out, "added %d words: %d bytes of log\n", n, after-before)
	return err
}

// showWithout shows what a store does with a key of a module that it was opened
// without: whatever does not need to know what the blocks mean.
func showWithout(out io.Writer, db *kv.DB) error {
	o, err := db.Lookup([]byte(key))
	if err != nil {
		return err
	}
	if o == nil {
		return fmt.Errorf("no key %q in %s: run without -without first", key, db.Dir())
	}
	_, err = kv.As[*counter]([]byte(key), o)
	fmt.Fprintf(out, "kv.As: %v\n", err)

	report, err := db.Check(context.Background())
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "check: %d keys, %d blocks, %d problems\n", report.Keys, report.Blocks, len(report.Problems))
	for _, note := range report.Notes {
		fmt.Fprintln(out, "check:", note)
	}
	s := module.NewSession(db)
	for _, command := range [][]string{
		{"DBSIZE"}, {"TYPE", key}, {"HLL.COUNT", key},
		{"RENAME", key, key + ":old"}, {"TYPE", key + ":old"}, {"DEL", key + ":old"}, {"DBSIZE"},
	} {
		fmt.Fprintf(out, "> %s\n%s\n", strings.Join(command, " "), do(s, command...))
	}
	return nil
}
