package tests_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// model is a store in plain memory. It foretells what every command answers.
type model struct {
	now      int64 // Unix milliseconds
	keys     map[string]*modelKey
	gone     map[string]bool // keys that have expired and may still be stored, which DBSIZE counts
	swept    map[string]bool // the ones that a sweep has removed, which a crash may bring back
	versions map[string]int  // changes of each key so far, which WATCH looks at

	settings map[string]string // that were set, see modelSettings
}

type modelKey struct {
	value  modelValue
	expiry int64 // Unix milliseconds; 0 for never
}

// modelValue is what is under a key.
type modelValue interface {
	typeName() string // as TYPE prints it
	clone() modelValue
	questions(key string) [][]string // lookups that read all of it
}

// family is a group of commands: the commands of a type, or of every key. A new type joins with a file that has its
// modelValue and its family, and a line in families.
type family interface {
	// draw returns commands, mostly one; look returns a lookup. They may lack nothing: a command that is refused for its
	// number of words is drawn elsewhere.
	draw(t *rapid.T, m *model) [][]string
	look(t *rapid.T, m *model) []string

	// answer does to the model what a command does, and returns what that answers; nil for a command of another family.
	answer(m *model, name string, args []string) want
}

var families = map[string]family{
	"strings": stringFamily{}, "bitmaps": bitmapFamily{}, "keys": keyFamily{},
	"bloom": bloomFamily{}, "counting": countingFamily{}, "cuckoo": cuckooFamily{}, "compatible": compatibleFamily{},
}

// modelKeys are few, so that commands meet.
var modelKeys = []string{"a", "b", "c", "d", "e:1"}

func drawKey(t *rapid.T) string { return rapid.SampledFrom(modelKeys).Draw(t, "key") }

func drawKeys(t *rapid.T) []string {
	return rapid.SliceOfN(rapid.SampledFrom(modelKeys), 1, 4).Draw(t, "keys")
}

func drawOne(t *rapid.T, of ...string) string { return rapid.SampledFrom(of).Draw(t, "word") }

// chance is true once in n times. It shrinks to false.
func chance(t *rapid.T, n int) bool { return rapid.IntRange(0, n-1).Draw(t, "chance") == n-1 }

// want says what is wrong with a reply.
type want func(got reply.Reply) error

// exactly wants one reply, in the forms of both protocols.
func exactly(r reply.Reply) want {
	return func(got reply.Reply) error {
		if same(got, r) {
			return nil
		}
		return fmt.Errorf("want %v, in RESP3 %s", r, reply.AppendJSON(nil, r))
	}
}

// same reports whether clients of either protocol get the same bytes.
func same(a, b reply.Reply) bool {
	return bytes.Equal(resp.Append(nil, a, 2), resp.Append(nil, b, 2)) && bytes.Equal(resp.Append(nil, a, 3), resp.Append(nil, b, 3))
}

func fails(text string) want { return exactly(reply.Error(text)) }

// inAnyOrder wants an array of these strings.
func inAnyOrder(list []string) want {
	slices.Sort(list)
	return func(got reply.Reply) error {
		var have []string
		for _, e := range got.Elems() {
			have = append(have, string(e.Bytes()))
		}
		slices.Sort(have)
		if got.Kind() != reply.KindArray || !slices.Equal(have, list) {
			return fmt.Errorf("want %q in any order", list)
		}
		return nil
	}
}

// each wants an array.
func each(wants ...want) want {
	return func(got reply.Reply) error {
		if got.Kind() != reply.KindArray || len(got.Elems()) != len(wants) {
			return fmt.Errorf("want an array of %d", len(wants))
		}
		for i, w := range wants {
			if err := w(got.Elems()[i]); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
		return nil
	}
}

const (
	wrongType  = "WRONGTYPE Operation against a key holding the wrong kind of value"
	notInteger = "ERR value is not an integer or out of range"
	notFloat   = "ERR value is not a valid float"
	syntax     = "ERR syntax error"
)

func newModel() *model {
	return &model{
		now: 1_700_000_000_000, keys: make(map[string]*modelKey),
		gone: make(map[string]bool), swept: make(map[string]bool), versions: make(map[string]int),
	}
}

func (m *model) clone() *model {
	c := newModel()
	c.now, c.settings = m.now, m.settings
	for key, k := range m.keys {
		c.keys[key] = &modelKey{k.value.clone(), k.expiry}
	}
	for _, pair := range [][2]map[string]bool{{c.gone, m.gone}, {c.swept, m.swept}} {
		for key := range pair[1] {
			pair[0][key] = true
		}
	}
	for key, n := range m.versions {
		c.versions[key] = n
	}
	return c
}

// answer does a command that is no part of MULTI.
func (m *model) answer(words []string) want {
	if w := (compatibleFamily{}).answer(m, words[0], words[1:]); w != nil {
		return w // filters with the compatible layout
	}
	for _, f := range families {
		if w := f.answer(m, words[0], words[1:]); w != nil {
			return w
		}
	}
	panic("no family answers " + words[0])
}

func (m *model) touch(key string) { m.versions[key]++ }

// set puts a value under a key.
func (m *model) set(key string, v modelValue, expiry int64) {
	if expiry != 0 && expiry <= m.now {
		m.remove(key)
		return
	}
	m.keys[key] = &modelKey{v, expiry}
	delete(m.gone, key)
	delete(m.swept, key)
	m.touch(key)
}

func (m *model) remove(key string) {
	if m.keys[key] != nil {
		delete(m.keys, key)
		m.touch(key)
	}
}

// advance moves the clock.
func (m *model) advance(milliseconds int64) {
	m.now += milliseconds
	for key, k := range m.keys {
		if k.expiry != 0 && k.expiry <= m.now {
			delete(m.keys, key)
			m.gone[key] = true
		}
	}
}

// sweep notes that what has expired was removed.
func (m *model) sweep() {
	for key := range m.gone {
		m.swept[key] = true
	}
	clear(m.gone)
}

// crash notes that what was swept may be back.
func (m *model) crash() {
	for key := range m.swept {
		m.gone[key] = true
	}
	clear(m.swept)
}

// names returns the keys there are, in order.
func (m *model) names() []string {
	var list []string
	for key := range m.keys {
		list = append(list, key)
	}
	slices.Sort(list)
	return list
}

// questions returns lookups that read everything there is, and what is not there.
func (m *model) questions() [][]string {
	list := [][]string{{"DBSIZE"}, {"KEYS", "*"}, append([]string{"EXISTS"}, modelKeys...)}
	for _, key := range modelKeys {
		list = append(list, []string{"TYPE", key}, []string{"PEXPIRETIME", key}, []string{"PTTL", key})
		if k := m.keys[key]; k != nil {
			list = append(list, k.value.questions(key)...)
		}
	}
	return list
}

// modelRun is a model beside stores with different options, which all have to answer as it foretells.
type modelRun struct {
	model    *model
	sessions []*modelSession
	stores   []*modelStore
	view     *model // what the open views see, nil if none are open
	random   *rapid.T
}

func (r *modelRun) failf(s *modelStore, words []string, got reply.Reply, err error) {
	r.random.Helper()
	r.random.Fatalf("store %s: %q answers\n%v, in RESP3 %s: %v", s.name, words, got, reply.AppendJSON(nil, got), err)
}

// do runs a command in a session of each store.
func (r *modelRun) do(session int, words []string) {
	w := r.model.do(r.sessions[session], words)
	for _, s := range r.stores {
		got := s.sessions[session].Do(r.random.Context(), wordsOf(words))
		if err := w(got); err != nil {
			r.failf(s, words, got, err)
		}
	}
}

func wordsOf(words []string) [][]byte {
	line := make([][]byte, len(words))
	for i, word := range words {
		line[i] = []byte(word)
	}
	return line
}

// commandsOf are commands of a family, mostly one; for an empty name, of any family. What is drawn as a whole shrinks
// well, and is printed in a line.
func (r *modelRun) commandsOf(name string) *rapid.Generator[[][]string] {
	return rapid.Custom(func(t *rapid.T) [][]string { return drawFamily(t, name).draw(t, r.model) })
}

func (r *modelRun) anyLook() *rapid.Generator[[]string] {
	return rapid.Custom(func(t *rapid.T) []string { return drawFamily(t, "").look(t, r.model) })
}

func drawFamily(t *rapid.T, name string) family {
	if name == "" {
		name = rapid.SampledFrom(familyNames()).Draw(t, "family")
	}
	return families[name]
}

func familyNames() []string {
	var names []string
	for name := range families {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// aFew draws some.
func aFew[V any](t *rapid.T, of *rapid.Generator[V]) []V {
	return rapid.SliceOfN(of, 1, 6).Draw(t, "some")
}

func drawSession(t *rapid.T) int { return rapid.IntRange(0, modelSessions-1).Draw(t, "session") }

// moveClock moves the time on, often to when a key expires, or just before.
func (r *modelRun) moveClock(t *rapid.T) {
	d := rapid.Int64Range(1, 20_000).Draw(t, "milliseconds")
	if names := r.model.names(); len(names) > 0 {
		key := rapid.SampledFrom(names).Draw(t, "until the end of")
		if left := r.model.keys[key].expiry - r.model.now; left > 0 && left < 1e9 {
			d = max(1, left+rapid.SampledFrom([]int64{0, -1, 1}).Draw(t, "and"))
		}
	}
	r.model.advance(d)
	for _, s := range r.stores {
		s.now.Store(r.model.now)
	}
}

// scan reads the keys in parts.
func (r *modelRun) scan(t *rapid.T) {
	count := drawOne(t, "1", "2", "3", "100")
	w := inAnyOrder(r.model.names())
	for _, s := range r.stores {
		var keys []reply.Reply
		for cursor := "0"; cursor != "0" || keys == nil; {
			words := []string{"SCAN", cursor, "COUNT", count}
			got := s.outside.Do(t.Context(), wordsOf(words))
			if len(got.Elems()) != 2 {
				r.failf(s, words, got, errors.New("want a cursor and keys"))
			}
			cursor = string(got.Elems()[0].Bytes())
			keys = append(append([]reply.Reply{}, keys...), got.Elems()[1].Elems()...)
		}
		if err := w(reply.Array(keys...)); err != nil {
			r.failf(s, []string{"SCAN", "... COUNT", count}, reply.Array(keys...), err)
		}
	}
}

// verify compares everything there is, and has the stores check themselves.
func (r *modelRun) verify() {
	for _, words := range r.model.questions() {
		w := r.model.answer(words)
		for _, s := range r.stores {
			got := s.outside.Do(r.random.Context(), wordsOf(words))
			if err := w(got); err != nil {
				r.failf(s, words, got, err)
			}
		}
	}
	for _, s := range r.stores {
		if err := checkStore(s.db); err != nil {
			r.random.Fatalf("store %s: %v", s.name, err)
		}
	}
}

// TestModel runs random commands on strings, keys and filters, in sessions, in MULTI, in txntest.Update and in views, with a
// clock that the test moves, maintenance, reopening and crashes between them. Stores with different options have to
// give the replies that a model in plain memory foretells, byte for byte, and have to hold what it holds afterwards.
//
// A failing sequence is shrunk, printed, and kept under testdata/rapid, where the next run begins. Shrinking ends after
// half a minute; -rapid.shrinktime=5m makes it thorough. A long run:
//
//	go test ./tests -run '^TestModel$' -timeout 0 -rapid.checks=20000 -rapid.steps=100
func TestModel(t *testing.T) {
	checks := "60"
	if raceEnabled {
		checks = "10"
	}
	unlessGiven(t, "rapid.checks", checks)
	rapid.Check(t, func(t *rapid.T) {
		r := newModelRun(t)
		actions := map[string]func(*rapid.T){
			"multi": r.multi, "session": r.session, "update": r.update, "view": r.lookBack,
			"clock": r.moveClock, "scan": r.scan, "maintenance": r.maintain, "reopen": r.reopen,
		}
		for name := range families {
			actions[name] = func(t *rapid.T) {
				session := drawSession(t)
				for _, words := range slices.Concat(aFew(t, r.commandsOf(name))...) {
					r.do(session, words)
				}
			}
		}
		t.Repeat(actions)
		r.endViews()
		r.verify()
		r.reopenAll(100)
		r.verify() // reads everything, and so finds what is to be folded
		for _, s := range r.stores {
			if _, err := s.db.Fold(t.Context(), 1<<20); err != nil {
				t.Fatalf("store %s: Fold = %v", s.name, err)
			}
		}
		r.reopenAll(100)
		r.verify()
	})
}

// given reports whether the command line sets a flag.
func given(name string) (is bool) {
	flag.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// unlessGiven sets a flag for a test if the command line does not.
func unlessGiven(t *testing.T, name, value string) {
	t.Helper()
	if given(name) {
		return
	}
	f := flag.Lookup(name)
	old := f.Value.String()
	must(t, f.Value.Set(value)) // past flag.Set, which would mark it as given
	t.Cleanup(func() { must(t, f.Value.Set(old)) })
}

// ask has a transaction of a store run a command. CONFIG is no part of it.
func (s *modelStore) ask(t *rapid.T, tx *kv.Transaction, words []string) reply.Reply {
	cmd := s.commands[strings.ToUpper(words[0])]
	if words[0] == "CONFIG" {
		return s.outside.Do(t.Context(), wordsOf(words))
	}
	return s.outside.Run(t.Context(), tx, cmd, wordsOf(words[1:]))
}

var errRollback = errors.New("rolled back")

// takenBack is what a program stages in a transaction and takes back.
type takenBack struct {
	Set, Delete, From, To, Filter string // keys
	Items                         []string
}

func drawTakenBack(t *rapid.T) takenBack {
	return takenBack{drawKey(t), drawKey(t), drawKey(t), drawKey(t), drawKey(t), drawItems(t, 40)}
}

// stageAndRefuse stages a change in a transaction, as far as it goes, and takes it back.
func (s *modelStore) stageAndRefuse(tx *kv.Transaction, c takenBack) error {
	var errs []error
	err := tx.Write(func(w *kv.Writer) error {
		_, err1 := bloomext.New(s.db, c.Filter).AddStaged(w, wordsOf(c.Items), make([]bool, len(c.Items)))
		_, err5 := cuckooext.New(s.db, c.Filter).AddIfAbsentStaged(w, wordsOf(c.Items), make([]bool, len(c.Items)))
		_, err6 := countingext.New(s.db, c.Filter).AddStaged(w, wordsOf(c.Items), make([]bool, len(c.Items)))
		err7 := countingext.New(s.db, c.Filter).DeleteStaged(w, wordsOf(c.Items[:1]), make([]bool, 1))
		_, err2 := w.Set([]byte(c.Set), []byte("staged"), kv.SetOptions{})
		_, err3 := w.Delete([]byte(c.Delete))
		err4 := w.Rename([]byte(c.From), []byte(c.To))
		errs = []error{err1, err2, err3, err4, err5, err6, err7}
		return errRollback
	})
	if !errors.Is(err, errRollback) {
		return fmt.Errorf("Write = %w", err)
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, kv.ErrNotFound) && !errors.Is(err, kv.ErrWrongType) && !errors.Is(err, scalableext.ErrFull) &&
			!errors.Is(err, scalableext.ErrFull) && !errors.Is(err, scalableext.ErrCannotGrow) {
			return err
		}
	}
	return nil
}

// update runs commands in a transaction, which sometimes ends in an error, so that nothing was done. Between them
// changes are staged that are taken back. Lookups outside see nothing of it before its end.
func (r *modelRun) update(t *rapid.T) {
	lines := slices.Concat(aFew(t, r.commandsOf(""))...)
	outside := r.anyLook().Draw(t, "outside")
	refused := rapid.MapOfN(rapid.IntRange(0, len(lines)-1), rapid.Custom(drawTakenBack), 0, 2).Draw(t, "taken back")
	roll := rapid.Bool().Draw(t, "roll back")
	before := r.model.clone()
	wantOutside := before.answer(outside)
	var wants []want
	for _, words := range lines {
		wants = append(wants, r.model.answer(words))
	}
	if roll {
		r.model = before
	}
	for _, s := range r.stores {
		err := txntest.Update(t.Context(), s.db, kv.DurabilityDefault, func(tx *txntest.Tx) error {
			for i, words := range lines {
				if c, ok := refused[i]; ok {
					if err := s.stageAndRefuse(tx.Transaction, c); err != nil {
						t.Fatalf("store %s: %+v in Update: %v", s.name, c, err)
					}
				}
				got := s.ask(t, tx.Transaction, words)
				if err := wants[i](got); err != nil {
					r.failf(s, words, got, fmt.Errorf("in Update: %w", err))
				}
			}
			got := s.outside.Do(t.Context(), wordsOf(outside))
			if err := wantOutside(got); err != nil {
				r.failf(s, outside, got, fmt.Errorf("outside of Update: %w", err))
			}
			if roll {
				return errRollback
			}
			return nil
		})
		if roll && !errors.Is(err, errRollback) || !roll && err != nil {
			t.Fatalf("store %s: Update = %v, rolled back: %v", s.name, err, roll)
		}
	}
}

// lookBack opens a view of each store, asks the open ones, which see what there was then, or ends them.
func (r *modelRun) lookBack(t *rapid.T) {
	switch {
	case r.view == nil:
		r.view = r.model.clone()
		for _, s := range r.stores {
			if err := s.openView(); err != nil {
				t.Fatalf("store %s: View = %v", s.name, err)
			}
		}
	case chance(t, 4):
		r.endViews()
	default:
		for _, words := range aFew(t, r.anyLook()) {
			r.askViews(words)
		}
	}
}

func (r *modelRun) askViews(words []string) {
	w := r.view.answer(words)
	for _, s := range r.stores {
		got := s.ask(r.random, s.view.snapshot.Transaction, words)
		if err := w(got); err != nil {
			r.failf(s, words, got, fmt.Errorf("in View: %w", err))
		}
	}
}

// endViews asks the open views for everything there was, and ends them.
func (r *modelRun) endViews() {
	if r.view == nil {
		return
	}
	for _, words := range r.view.questions() {
		r.askViews(words)
	}
	r.view = nil
	for _, s := range r.stores {
		if err := s.endView(); err != nil {
			r.random.Fatalf("store %s: View = %v", s.name, err)
		}
	}
}
