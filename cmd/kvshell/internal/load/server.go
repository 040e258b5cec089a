package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/client"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/cmdline"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/filters"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/input"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/progress"
	"github.com/sievekv/sievekv/module/reply"
)

// inFlight is how many commands load sends before it waits for the reply to the first of them. It is less than the
// number of replies that a connection keeps, so that the client and the server never wait for each other to read.
const inFlight = 4

// loadWords are the commands by which load makes a filter of a type and adds lines to it. Lines are added with
// NOCREATE: if the filter is deleted meanwhile, the server must not make another one with its defaults.
type loadWords struct {
	reserve, insert string
	exists          string // asks which lines are there, if insert would count these once more; "" if it would not
	info, items     string // items is the field of info that has the number of items
}

var loadWordsOf = map[string]loadWords{
	filters.Bloom:  {reserve: "BF.RESERVE", insert: "BF.INSERT", info: "BF.INFO", items: "Number of items inserted"},
	filters.Cuckoo: {reserve: "CF.RESERVE", insert: "CF.INSERTNX", info: "CF.INFO", items: "Number of items inserted"},
	filters.Counting: {
		reserve: "CBF.RESERVE", insert: "CBF.INSERT", exists: "CBF.MEXISTS", info: "CBF.INFO", items: "Number of items",
	},
}

// ServerLoading is one run of load over a connection. Adding a line again changes nothing: so the same command
// completes what an interrupted run has left.
type ServerLoading struct {
	client   *client.Client
	key      string
	kind     string // of the filter
	words    loadWords
	in       *input.Input
	flags    Flags
	Notes    io.Writer
	Progress *progress.Bar

	started  time.Time
	took     time.Duration
	missing  bool
	done     progress.Counts // the lines acknowledged, without those skipped
	unasked  []insertion     // sent, without a reply yet
	finished error           // why the server adds no more lines
}

// NewOnServer returns a run that adds the lines of an input to a filter on a server.
func NewOnServer(c *client.Client, key string, in *input.Input, f Flags) *ServerLoading {
	in.Skip = f.skip
	return &ServerLoading{client: c, key: key, kind: f.Kind, in: in, flags: f, Notes: io.Discard}
}

// Do runs load and returns what it did, as text. Its error says how to go on.
func (l *ServerLoading) Do(ctx context.Context) (string, error) {
	err := l.run(ctx)
	l.Progress.Clear()
	if err != nil {
		return "", l.explain(err)
	}
	fmt.Fprint(l.Notes, l.in.DamageNote(l.flags.skip+l.done.Lines))
	return l.summary(ctx)
}

func (l *ServerLoading) run(ctx context.Context) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	l.started = time.Now()
	l.in.Start(nil)
	err := l.addAll(ctx)
	l.took = time.Since(l.started)
	if err == nil {
		err = ctx.Err() // an input that Ctrl-C cut short must not pass for one that is done
	}
	return err
}

// begin finds out what is under the key.
func (l *ServerLoading) begin(ctx context.Context) error {
	r, err := l.ask(ctx, cmdline.Words("TYPE", l.key))
	if err != nil {
		return err
	}
	name := string(r.Bytes())
	kind, isFilter := filters.KindOf(name)
	switch {
	case name == "none":
		l.missing = true
	case !isFilter:
		return exit.Refusef("the key %q holds no filter, but a value of type %s", l.key, name)
	case l.flags.KindGiven && l.flags.Kind != kind:
		return exit.Refusef("the filter %q was made with --type %s, and keeps it: leave it out, or use another KEY", l.key, kind)
	default:
		l.kind = kind
		l.tellKept()
	}
	l.words = loadWordsOf[l.kind]
	return nil
}

// tellKept notes that flags do not change a filter that exists. The server does not tell what the filter was made
// with, so that they cannot be compared.
func (l *ServerLoading) tellKept() {
	f := &l.flags
	if f.RateGiven || f.CapacityGiven || f.NonScalingGiven || f.TTLGiven || f.Hash != "" || f.Group != "" || f.Window != 0 {
		fmt.Fprintf(l.Notes, "note: the filter %q is there already and keeps what it was made with: "+
			"--error, --capacity, --non-scaling, --ttl, --hash, --group, --window and --slices are for one that is made\n", l.key)
	}
}

// make makes the filter if it is missing. It is called when the first lines were read.
func (l *ServerLoading) make(ctx context.Context) error {
	if !l.missing {
		return nil
	}
	f := &l.flags
	rate, capacity := strconv.FormatFloat(f.Rate, 'g', -1, 64), strconv.FormatUint(f.Capacity, 10)
	words := []string{l.words.reserve, l.key, rate, capacity}
	if l.kind == filters.Cuckoo {
		words = []string{l.words.reserve, l.key, capacity, "ERROR", rate}
	}
	switch {
	case f.NonScaling && l.kind == filters.Cuckoo:
		words = append(words, "EXPANSION", "0")
	case f.NonScaling:
		words = append(words, "NONSCALING")
	}
	if f.Hash != "" {
		words = append(words, "HASH", f.Hash)
	}
	if f.Group != "" {
		words = append(words, "GROUP", f.Group)
	}
	if f.Window != 0 {
		words = append(words, "WINDOW", strconv.FormatInt(int64(f.Window/time.Second), 10))
	}
	if f.Slices != 0 {
		words = append(words, "SLICES", strconv.Itoa(f.Slices))
	}
	if _, err := l.ask(ctx, cmdline.Words(words...)); err != nil {
		return err
	}
	l.missing = false
	if f.TTL == 0 {
		return nil
	}
	_, err := l.ask(ctx, cmdline.Words("EXPIRE", l.key, strconv.FormatUint(f.TTL, 10)))
	return err
}

// ask runs a command and returns its reply. An error reply is an error.
func (l *ServerLoading) ask(ctx context.Context, words [][]byte) (reply.Reply, error) {
	r, err := l.client.Do(ctx, words)
	if err == nil && r.IsError() {
		err = exit.WithCode(exit.ReplyCode(r), fmt.Errorf("%s: %s", words[0], r.Bytes()))
	}
	return r, err
}

// addAll adds all lines.
func (l *ServerLoading) addAll(ctx context.Context) error {
	for l.finished == nil {
		b, err := l.in.Await(ctx, l.show)
		if err != nil {
			return err
		}
		if b.Err != nil && !errors.Is(b.Err, io.EOF) {
			return b.Err
		}
		if err := l.make(ctx); err != nil {
			return err
		}
		if b.Err != nil {
			break
		}
		if err := l.add(ctx, b); err != nil {
			return err
		}
		l.in.GiveBack(b)
		l.show()
	}
	for len(l.unasked) > 0 {
		if err := l.receive(ctx); err != nil {
			return err
		}
	}
	return l.finished
}

// add sends the lines of a batch. It waits for a reply if inFlight commands have none.
func (l *ServerLoading) add(ctx context.Context, b *input.Batch) error {
	lines, known := b.Items, []int(nil)
	if l.words.exists != "" {
		var err error
		if lines, known, err = l.absent(ctx, lines); err != nil {
			return err
		}
		if len(lines) == 0 {
			l.done.Lines += uint64(len(b.Items))
			return nil
		}
	}
	words := append(cmdline.Words(l.words.insert, l.key, "NOCREATE", "ITEMS"), lines...)
	if err := l.client.Send(ctx, words); err != nil {
		return err
	}
	l.unasked = append(l.unasked, insertion{lines: len(lines), known: known, after: len(b.Items) - len(lines)})
	if len(l.unasked) < inFlight && l.words.exists == "" {
		return nil
	}
	return l.receive(ctx)
}

// insertion is a command that adds lines and has no reply yet.
type insertion struct {
	lines int

	// If only the new lines of a batch were sent: how many others were left out before each of them, and in all.
	known []int
	after int
}

// knownBefore returns how many lines of the batch were left out before line i of those sent.
func (s *insertion) knownBefore(i int) int {
	if s.known == nil {
		return 0
	}
	return s.known[i]
}

// absent returns the lines that the filter does not have, each once, and how many other lines are before each of them.
func (l *ServerLoading) absent(ctx context.Context, lines [][]byte) (absent [][]byte, known []int, err error) {
	r, err := l.ask(ctx, append(cmdline.Words(l.words.exists, l.key), lines...))
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

// receive waits for the reply to the oldest command without one, and counts the lines that it acknowledges.
func (l *ServerLoading) receive(ctx context.Context) error {
	r, err := l.client.Receive(ctx)
	if err != nil {
		return err
	}
	sent := l.unasked[0]
	l.unasked = l.unasked[1:]
	if l.finished != nil {
		return nil // lines after the first without room do not count
	}
	if r.IsError() {
		l.finished = exit.WithCode(exit.ReplyCode(r), fmt.Errorf("%s: %s", l.words.insert, r.Bytes()))
		l.done.Lines += uint64(sent.knownBefore(0))
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
		if l.finished != nil { // lines before this one count; lines after it do not, even if the filter has them
			l.done.Lines += uint64(i + sent.knownBefore(i))
			return nil
		}
		l.done.New += uint64(answer.Int())
	}
	if len(answers) != sent.lines {
		return fmt.Errorf("%s: %d answers for %d lines", l.words.insert, len(answers), sent.lines)
	}
	l.done.Lines += uint64(sent.lines + sent.after)
	return nil
}

func (l *ServerLoading) show() {
	rate := progress.PerSecond(l.done.Lines, time.Since(l.started))
	l.Progress.Show(l.in.BytesRead(), "%d lines, %.0f/s", l.done.Lines, rate)
}

// explain adds to the error that ended a run how far the run came, and how to go on.
func (l *ServerLoading) explain(err error) error {
	if l.started.IsZero() {
		return err
	}
	line := l.flags.skip + l.done.Lines
	kept := fmt.Sprintf("%q has the lines up to line %d, %d of them new; to go on, add --skip %d to the same command",
		l.key, line, l.done.New, line)
	if l.missing {
		kept = "nothing was added"
	}
	switch {
	case errors.Is(err, context.Canceled):
		return exit.WithCode(exit.Interrupted, fmt.Errorf("interrupted; %s", kept))
	case errors.Is(err, input.ErrUnreadable):
		kept += "; " + input.WayOut
	}
	return exit.WithCode(exit.Code(err), fmt.Errorf("%w; %s", err, kept))
}

// summary tells what a finished run did.
func (l *ServerLoading) summary(ctx context.Context) (string, error) {
	r, err := l.ask(ctx, cmdline.Words(l.words.info, l.key))
	if err != nil {
		return "", err
	}
	facts := client.Fields(r)
	read := fmt.Sprint(l.done.Lines)
	if l.flags.skip > 0 {
		read += fmt.Sprintf(" (after %d skipped)", l.flags.skip)
	}
	return fmt.Sprintf(`lines read           %s
added                %d
known before         %d
rate                 %.0f lines/s
filter               %d lines in %d layers, %d bytes
`,
		read, l.done.New, l.done.Lines-l.done.New, progress.PerSecond(l.done.Lines, l.took),
		facts[l.words.items].Int(), facts["Number of filters"].Int(), facts["Size"].Int()), nil
}
