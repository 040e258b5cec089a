package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"golang.org/x/term"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/module/reply"
)

// inFlight is how many commands load has a server work on before it waits for the reply to the first. It is less than
// a connection keeps replies, so that neither end waits for the other to read.
const inFlight = 4

// loadWords are the commands by which load makes a filter of a kind and adds lines to it. Lines are added with
// NOCREATE, so that one that was deleted meanwhile is not made anew, with other parameters.
type loadWords struct {
	reserve, insert string
	exists          string // asked first, where insert would count a line again; "" if it does not
	info, items     string // and the field that has the number of items
}

var loadWordsOf = map[string]loadWords{
	bloomKind:  {reserve: "BF.RESERVE", insert: "BF.INSERT", info: "BF.INFO", items: "Number of items inserted"},
	cuckooKind: {reserve: "CF.RESERVE", insert: "CF.INSERTNX", info: "CF.INFO", items: "Number of items inserted"},
	countingKind: {
		reserve: "CBF.RESERVE", insert: "CBF.INSERT", exists: "CBF.MEXISTS", info: "CBF.INFO", items: "Number of items",
	},
}

// serverLoading is one run of load over a connection. As adding a line again changes nothing, the same command again
// completes what an interruption leaves.
type serverLoading struct {
	client   *client
	key      string
	kind     string // of the filter
	words    loadWords
	in       *input
	flags    loadFlags
	notes    io.Writer
	progress *progress

	started  time.Time
	took     time.Duration
	missing  bool
	done     counts // of the lines behind those skipped: acknowledged, and new ones among them
	unasked  []insertion
	finished error // why the server adds no more lines
}

// loadToServer is load for a server.
func (sh *shell) loadToServer(ctx context.Context, key, file string, f loadFlags) (err error) {
	if f.replace {
		return exit.Usagef("load --replace needs the store in a directory: over a connection (%s) it could not tell what a killed run left "+
			"from other keys; give -d DIR", sh.server.given())
	}
	in, err := openInput(file, sh.stdin, f.batch)
	if err != nil {
		return exit.WithCode(exit.Local, err)
	}
	defer func() { err = joinLocal(err, in.close()) }()
	in.skip = f.skip
	l := &serverLoading{client: sh.client(), key: key, kind: f.kind, in: in, flags: f, notes: sh.stderr}
	defer l.client.close(&err)
	if term.IsTerminal(int(sh.stderr.Fd())) {
		l.progress = newProgress(sh.stderr, in.size)
	}
	err = l.run(ctx)
	l.progress.clear()
	if err != nil {
		return l.explain(err)
	}
	text, err := l.summary(ctx)
	if err != nil {
		return err
	}
	return sh.write(text)
}

func (l *serverLoading) run(ctx context.Context) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	l.started = time.Now()
	l.in.start(nil)
	err := l.addAll(ctx)
	l.took = time.Since(l.started)
	if err == nil {
		err = ctx.Err() // an input that Ctrl-C cut short must not pass for one that is done
	}
	return err
}

// begin finds out what is under the key.
func (l *serverLoading) begin(ctx context.Context) error {
	r, err := l.ask(ctx, commandWords("TYPE", l.key))
	if err != nil {
		return err
	}
	kinds := map[string]string{bloomTypeName: bloomKind, cuckooTypeName: cuckooKind, countingTypeName: countingKind}
	name := string(r.Bytes())
	kind, isFilter := kinds[name]
	switch {
	case name == "none":
		l.missing = true
	case !isFilter:
		return exit.Refusef("the key %q holds no filter, but a value of type %s", l.key, name)
	case l.flags.kindGiven && l.flags.kind != kind:
		return exit.Refusef("the filter %q was made with --type %s, and keeps it: leave it out, or use another KEY", l.key, kind)
	default:
		l.kind = kind
		l.tellKept()
	}
	l.words = loadWordsOf[l.kind]
	return nil
}

// tellKept notes that a filter that is there keeps what it was made with: a server does not tell what that is.
func (l *serverLoading) tellKept() {
	f := &l.flags
	if f.rateGiven || f.capacityGiven || f.nonScalingGiven || f.ttlGiven || f.hash != "" {
		fmt.Fprintf(l.notes, "note: the filter %q is there already and keeps what it was made with: "+
			"--error, --capacity, --non-scaling, --ttl and --hash are for one that is made\n", l.key)
	}
}

// make makes the filter if it is missing. It is not made before there is something to be said of the input.
func (l *serverLoading) make(ctx context.Context) error {
	if !l.missing {
		return nil
	}
	f := &l.flags
	rate, capacity := strconv.FormatFloat(f.rate, 'g', -1, 64), strconv.FormatUint(f.capacity, 10)
	words := []string{l.words.reserve, l.key, rate, capacity}
	if l.kind == cuckooKind {
		words = []string{l.words.reserve, l.key, capacity, "ERROR", rate}
	}
	switch {
	case f.nonScaling && l.kind == cuckooKind:
		words = append(words, "EXPANSION", "0")
	case f.nonScaling:
		words = append(words, "NONSCALING")
	}
	if f.hash != "" {
		words = append(words, "HASH", f.hash)
	}
	if _, err := l.ask(ctx, commandWords(words...)); err != nil {
		return err
	}
	l.missing = false
	if f.ttl == 0 {
		return nil
	}
	_, err := l.ask(ctx, commandWords("EXPIRE", l.key, strconv.FormatUint(f.ttl, 10)))
	return err
}

// ask asks for a reply that is no error.
func (l *serverLoading) ask(ctx context.Context, words [][]byte) (reply.Reply, error) {
	r, err := l.client.do(ctx, words)
	if err == nil && r.IsError() {
		err = exit.WithCode(exit.ReplyCode(r), fmt.Errorf("%s: %s", words[0], r.Bytes()))
	}
	return r, err
}

// addAll adds all lines.
func (l *serverLoading) addAll(ctx context.Context) error {
	for l.finished == nil {
		b, err := l.in.await(ctx, l.show)
		if err != nil {
			return err
		}
		if b.err != nil && !errors.Is(b.err, io.EOF) {
			return withInput(l.in, b.err)
		}
		if err := l.make(ctx); err != nil {
			return err
		}
		if b.err != nil {
			break
		}
		if err := l.add(ctx, b); err != nil {
			return err
		}
		l.in.free <- b
		l.show()
	}
	for len(l.unasked) > 0 {
		if err := l.receive(ctx); err != nil {
			return err
		}
	}
	return l.finished
}

// add sends the lines of a batch, and waits for a reply if too many are outstanding.
func (l *serverLoading) add(ctx context.Context, b *batch) error {
	lines, known := b.items, []int(nil)
	if l.words.exists != "" {
		var err error
		if lines, known, err = l.absent(ctx, lines); err != nil {
			return err
		}
		if len(lines) == 0 {
			l.done.lines += uint64(len(b.items))
			return nil
		}
	}
	words := append(commandWords(l.words.insert, l.key, "NOCREATE", "ITEMS"), lines...)
	if err := l.client.send(ctx, words); err != nil {
		return err
	}
	l.unasked = append(l.unasked, insertion{lines: len(lines), known: known, after: len(b.items) - len(lines)})
	if len(l.unasked) < inFlight && l.words.exists == "" {
		return nil
	}
	return l.receive(ctx)
}

// insertion is a command that adds lines, whose reply has not come yet.
type insertion struct {
	lines int

	// Of a batch of which only the lines that are new were sent: how many were left out before each line, and
	// in all.
	known []int
	after int
}

// knownBefore returns how many lines of the batch were left out before the i-th line sent.
func (s *insertion) knownBefore(i int) int {
	if s.known == nil {
		return 0
	}
	return s.known[i]
}

// absent returns those of the lines that the filter does not have, each once, and how many others are before each.
func (l *serverLoading) absent(ctx context.Context, lines [][]byte) (absent [][]byte, known []int, err error) {
	r, err := l.ask(ctx, append(commandWords(l.words.exists, l.key), lines...))
	if err != nil {
		return nil, nil, err
	}
	answers := r.Elems()
	if len(answers) != len(lines) {
		return nil, nil, fmt.Errorf("%s: %d answers for %d lines", l.words.exists, len(answers), len(lines))
	}
	seen := make(map[string]bool)
	for i, line := range lines {
		if answers[i].Int() == 0 && !seen[string(line)] {
			seen[string(line)] = true
			known = append(known, i-len(absent))
			absent = append(absent, line)
		}
	}
	return absent, known, nil
}

// receive counts by the reply to the first command that has none yet.
func (l *serverLoading) receive(ctx context.Context) error {
	r, err := l.client.receive(ctx)
	if err != nil {
		return err
	}
	sent := l.unasked[0]
	l.unasked = l.unasked[1:]
	if l.finished != nil {
		return nil // what came after the line without room does not count
	}
	if r.IsError() {
		l.finished = exit.WithCode(exit.ReplyCode(r), fmt.Errorf("%s: %s", l.words.insert, r.Bytes()))
		l.done.lines += uint64(sent.knownBefore(0))
		return nil
	}
	answers := r.Elems()
	for i, answer := range answers[:min(len(answers), sent.lines)] {
		switch {
		case answer.IsError():
			l.finished = exit.Refusef("%s: %s", l.words.insert, answer.Bytes())
		case answer.Int() < 0:
			l.finished = exit.Refusef("%s: the filter is full", l.words.insert)
		}
		if l.finished != nil { // the lines before it count, those after it do not, also where they are there
			l.done.lines += uint64(i + sent.knownBefore(i))
			return nil
		}
		l.done.newLines += uint64(answer.Int())
	}
	if len(answers) != sent.lines {
		return fmt.Errorf("%s: %d answers for %d lines", l.words.insert, len(answers), sent.lines)
	}
	l.done.lines += uint64(sent.lines + sent.after)
	return nil
}

func (l *serverLoading) show() {
	rate := perSecond(l.done.lines, time.Since(l.started))
	l.progress.show(l.in.bytesRead.Load(), "%d lines, %.0f/s", l.done.lines, rate)
}

// explain adds to the error that ended a run how far it got and how to go on.
func (l *serverLoading) explain(err error) error {
	if l.started.IsZero() {
		return err
	}
	line := l.flags.skip + l.done.lines
	kept := fmt.Sprintf("%q has the lines up to line %d, %d of them new; to go on, add --skip %d to the same command",
		l.key, line, l.done.newLines, line)
	if l.missing {
		kept = "nothing was added"
	}
	if errors.Is(err, context.Canceled) {
		return exit.WithCode(exit.Interrupted, fmt.Errorf("interrupted; %s", kept))
	}
	return exit.WithCode(exit.Code(err), fmt.Errorf("%w; %s", err, kept))
}

// summary tells what a finished run did.
func (l *serverLoading) summary(ctx context.Context) (string, error) {
	r, err := l.ask(ctx, commandWords(l.words.info, l.key))
	if err != nil {
		return "", err
	}
	facts := fields(r)
	read := fmt.Sprint(l.done.lines)
	if l.flags.skip > 0 {
		read += fmt.Sprintf(" (after %d skipped)", l.flags.skip)
	}
	return fmt.Sprintf(`lines read           %s
added                %d
known before         %d
rate                 %.0f lines/s
filter               %d lines in %d layers, %d bytes
`,
		read, l.done.newLines, l.done.lines-l.done.newLines, perSecond(l.done.lines, l.took),
		facts[l.words.items].Int(), facts["Number of filters"].Int(), facts["Size"].Int()), nil
}
