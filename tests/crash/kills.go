package crash

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv"
)

// event is what a process tells of its workload, before it is done or after: one of its fields is set.
type event struct {
	Step    *stepEvent // about to be committed
	Ended   *endEvent
	Acked   *ackEvent
	Now     int64  // the time is about to be this
	Failure string // what went wrong
}

type stepEvent struct {
	Commit  uint64
	History int
	What    string
	Added   [][]byte
	After   contents
}

type endEvent struct{ Commit, At uint64 }

type ackEvent struct{ History, Steps int }

// job is what a process is to do.
type job struct {
	Dir   string
	Seeds [2]uint64
	Start []contents
	Now   int64
}

// Child works on a store until it is killed. What it is to do it reads from in, and what it does it tells to out. It
// is the other process of Kills.
func Child(in io.Reader, out io.Writer) error {
	var j job
	if err := gob.NewDecoder(in).Decode(&j); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(j.Seeds[0], j.Seeds[1]))
	var err error
	w := newWorkload(rng, workers, j.Start, j.Now)
	var mu sync.Mutex
	var buf bytes.Buffer
	enc := gob.NewEncoder(&buf) // guarded by mu
	w.tell = func(e event) {
		mu.Lock()
		defer mu.Unlock()
		buf.Reset()
		err := enc.Encode(e)
		if err == nil {
			_, err = out.Write(buf.Bytes())
		}
		if err != nil {
			panic(err) // nobody listens, so nothing this process does can be verified
		}
	}
	for w.err() == nil {
		if w.db, err = kv.Open(j.Dir, w.options(vfs.Default)); err != nil {
			w.fail(fmt.Errorf("%w: %w", ErrRefused, err))
			break
		}
		w.run(1 + rng.IntN(actions))
		if err := w.db.Close(); err != nil {
			w.fail(err)
		}
	}
	w.tell(event{Failure: w.err().Error()})
	return w.err()
}

// replay makes of what a process told the histories it had. It calls told after each event.
func (w *workload) replay(r io.Reader, told func(n int)) error {
	dec := gob.NewDecoder(r)
	commits := make(map[uint64]*commit)
	histories := w.histories()
	for n := 1; ; n++ {
		var e event
		if err := dec.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil // killed, perhaps in the middle of a word
			}
			return err
		}
		switch {
		case e.Step != nil:
			c := commits[e.Step.Commit]
			if c == nil {
				c = &commit{id: e.Step.Commit}
				commits[c.id] = c
			}
			if e.Step.After == nil {
				e.Step.After = contents{}
			}
			histories[e.Step.History].add(step{commit: c, what: e.Step.What, added: e.Step.Added, after: e.Step.After}, nil)
		case e.Ended != nil:
			commits[e.Ended.Commit].ended.Store(e.Ended.At)
		case e.Acked != nil:
			histories[e.Acked.History].acknowledge(e.Acked.Steps)
		case e.Failure != "":
			return fmt.Errorf("the process that was to be killed: %s", e.Failure)
		default:
			w.now.Store(e.Now)
		}
		told(n)
	}
}

// Kills kills, with kill -9, processes that work on a store, one after the other.
type Kills struct {
	rng     *rand.Rand
	command func() *exec.Cmd
	dir     string
	start   []contents
	now     int64
	cycles  int
	age     int // of the store, in crashes
}

// NewKills returns a store that is not there yet, in a directory of its own below parent, which Close removes. Command
// returns the command of a process that runs Child with its standard input and output.
func NewKills(rng *rand.Rand, parent string, command func() *exec.Cmd) (*Kills, error) {
	dir, err := os.MkdirTemp(parent, "store")
	return &Kills{rng: rng, command: command, dir: dir, now: firstMoment}, err
}

// Close removes the store.
func (k *Kills) Close() error { return os.RemoveAll(k.dir) }

// Count returns how many processes were killed.
func (k *Kills) Count() int { return k.cycles }

// Restart has the next cycle begin without a store, after one that was wrong.
func (k *Kills) Restart() { k.age = 0 }

// storesLive is after how many crashes a store is begun anew.
const storesLive = 50

// Cycle has a process work on the store, kills it, and verifies what it left. It returns all that is wrong.
func (k *Kills) Cycle() error {
	if k.age == 0 {
		if err := os.RemoveAll(k.dir); err != nil {
			return err
		}
		k.start = nil
	}
	k.age = (k.age + 1) % storesLive
	k.cycles++
	w := newWorkload(k.rng, workers, k.start, k.now)
	if err := k.kill(w); err != nil {
		return err
	}
	var s span
	for _, h := range w.histories() {
		s.least, s.most = append(s.least, int(h.acked.Load())), append(s.most, h.len())
	}
	db, err := kv.Open(k.dir, w.options(vfs.Default))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	at, err := w.verify(db, s)
	if err := errors.Join(err, WriteAndForget(db), db.Close()); err != nil {
		return err
	}
	k.start, k.now = nil, w.now.Load()
	for i, h := range w.histories() {
		k.start = append(k.start, h.state(at.least[i]).at(k.now))
	}
	return nil
}

// kill runs a process, kills it at a random moment, and puts what it told into w.
func (k *Kills) kill(w *workload) error {
	cmd := k.command()
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	// One in four dies at a time, which may be while it opens the store; the others after some events.
	after := 1 + k.rng.IntN(1+k.rng.IntN(600))
	if k.rng.IntN(4) == 0 {
		after = 0
		timer := time.AfterFunc(time.Duration(k.rng.Int64N(int64(80*time.Millisecond))), func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	j := job{Dir: k.dir, Seeds: [2]uint64{k.rng.Uint64(), k.rng.Uint64()}, Start: k.start, Now: k.now}
	// It may be dead before it has read this.
	_ = gob.NewEncoder(in).Encode(j)
	_ = in.Close()
	err = w.replay(out, func(n int) {
		if n == after {
			_ = cmd.Process.Kill()
		}
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	return err
}
