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
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/backup"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// event is what a process tells of its workload, before it is done or after: one of its fields is set.
type event struct {
	Step    *stepEvent // about to be committed
	Ended   *endEvent
	Acked   *ackEvent
	Backup  int    // about to be made; the first is 1
	Made    int    // this backup was made
	Held    bool   // the backup that was begun last goes no further
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
	Hold  int64 // the call to the file system that backups make before which they stop; 0 for none
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
	disk := vfs.Default
	var hold *holding
	if j.Hold > 0 {
		hold = &holding{left: j.Hold, tell: w.tell}
		disk = &faultfs.FS{FS: vfs.Default, Before: hold.before}
	}
	for w.err() == nil {
		if w.db, err = kv.Open(j.Dir, w.options(disk)); err != nil {
			w.fail(fmt.Errorf("%w: %w", ErrRefused, err))
			break
		}
		w.use(w.db)
		done, backups := make(chan struct{}), sync.WaitGroup{}
		if hold != nil || rng.IntN(3) == 0 {
			backups.Go(func() { w.backUp(j.Dir, done) })
		}
		w.run(1 + rng.IntN(actions))
		close(done)
		backups.Wait()
		if err := w.db.Close(); err != nil {
			w.fail(err)
		}
	}
	w.tell(event{Failure: w.err().Error()})
	return w.err()
}

// backUp makes backups of a store beside its directory until done is closed.
func (w *workload) backUp(dir string, done <-chan struct{}) {
	for w.err() == nil {
		select {
		case <-done:
			return
		default:
		}
		w.backups++
		w.tell(event{Backup: w.backups})
		if err := backup.Make(background, w.db, backupDir(dir, w.backups), backup.Options{Copy: w.backups%2 == 0}); err != nil {
			w.fail(err)
			return
		}
		w.tell(event{Made: w.backups})
	}
}

// holding stops a backup in the middle, for ever, and tells of it.
type holding struct {
	left  int64 // calls that are let through; guarded by mu
	begun bool  // the unfinished backup is there; guarded by mu
	mu    sync.Mutex
	tell  func(event)
}

// before is called before each call to the file system. It counts those in a backup from when it has a directory until
// it gets its name.
func (h *holding) before(s faultfs.Site, name string) error {
	if !strings.Contains(name, backupName) {
		return nil
	}
	h.mu.Lock()
	switch unfinished := strings.Contains(name, ".partial-"); {
	case unfinished && s.Op == "mkdir":
		h.begun = true
	case h.begun:
		if h.left--; h.left == 0 {
			h.tell(event{Held: true})
		}
		if h.left <= 0 {
			h.mu.Unlock()
			select {}
		}
		h.begun = s.Op != "rename" || unfinished
	}
	h.mu.Unlock()
	return nil
}

// backupName is between the name of a store's directory and the number of a backup.
const backupName = ".backup-"

func backupDir(dir string, n int) string { return fmt.Sprint(dir, backupName, n) }

// verifyBackups checks that each backup has what was acknowledged before, and a state that the store had, that each one
// that was made is there, and that one that was not finished does not open. It removes them, and counts them.
func (w *workload) verifyBackups(dir string, least [][]int, made int) (verified, unfinished int, err error) {
	var s span
	for _, h := range w.histories() {
		s.most = append(s.most, h.len())
	}
	for i := range least {
		s.least = least[i]
		name := backupDir(dir, i+1)
		opened, err := w.verifyBackup(name, s)
		switch {
		case err != nil:
			return verified, unfinished, err
		case opened:
			verified++
		case i < made:
			return verified, unfinished, fmt.Errorf("%w: backup %d, which was made, is not there", ErrLost, i+1)
		}
		parts, err := filepath.Glob(name + ".partial-*")
		if err != nil {
			return verified, unfinished, err
		}
		for _, part := range parts {
			// If it opens, it only lacked its name. If not, it may have parts of a database.
			if opened, err := w.verifyBackup(part, s); err != nil && (opened || !errors.Is(err, kv.ErrCorrupt)) {
				return verified, unfinished, err
			}
			unfinished++
		}
	}
	left, err := filepath.Glob(dir + backupName + "*")
	for _, name := range left {
		err = errors.Join(err, os.RemoveAll(name))
	}
	return verified, unfinished, err
}

// verifyBackup checks the store in a directory, if it opens as one.
func (w *workload) verifyBackup(dir string, s span) (opened bool, err error) {
	db, err := kv.Open(dir, w.backupOptions())
	switch {
	case errors.Is(err, kv.ErrNotExist), errors.Is(err, kv.ErrUnfinished):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%w: %s: %w", ErrRefused, filepath.Base(dir), err)
	}
	_, err = w.verify(db, s)
	if err := errors.Join(err, db.Close()); err != nil {
		return true, fmt.Errorf("%s: %w", filepath.Base(dir), err)
	}
	return true, nil
}

func (w *workload) backupOptions() *kv.Options {
	o := w.options(vfs.Default)
	o.MustExist = true
	return o
}

// replay makes of what a process told the histories it had. It calls told after each event, with its number. It returns how far each
// history was acknowledged when each backup was begun, and how many backups were made.
func (w *workload) replay(r io.Reader, told func(n int, held bool)) (backups [][]int, made int, err error) {
	dec := gob.NewDecoder(r)
	commits := make(map[uint64]*commit)
	histories := w.histories()
	for n := 1; ; n++ {
		var e event
		if err := dec.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return backups, made, nil // killed, perhaps in the middle of a word
			}
			return backups, made, err
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
			return backups, made, fmt.Errorf("the process that was to be killed: %s", e.Failure)
		case e.Backup > 0:
			var least []int
			for _, h := range histories {
				least = append(least, int(h.acked.Load()))
			}
			backups = append(backups, least)
		case e.Made > 0:
			made = e.Made
		case e.Held:
		default:
			w.now.Store(e.Now)
		}
		told(n, e.Held)
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
	backups int // that were there after a kill
	cut     int // that were not finished then
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

// Backups returns how many backups were verified that those processes made.
func (k *Kills) Backups() int { return k.backups }

// Cut returns how many backups were unfinished when their process was killed.
func (k *Kills) Cut() int { return k.cut }

// Restart has the next cycle begin without a store, after one that was wrong.
func (k *Kills) Restart() { k.age = 0 }

// storesLive is the number of crashes after which a new store is begun.
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
	backups, made, err := k.kill(w)
	if err != nil {
		return err
	}
	verified, unfinished, err := w.verifyBackups(k.dir, backups, made)
	k.backups, k.cut = k.backups+verified, k.cut+unfinished
	if err != nil {
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

// backupCalls is about how many calls to the file system two backups make.
const backupCalls = 250

// kill runs a process, kills it at a random moment, and puts what it told into w. It returns what replay does.
func (k *Kills) kill(w *workload) (backups [][]int, made int, err error) {
	cmd := k.command()
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	// One in four dies at a time, which may be while it opens the store, one in a backup, the others after some events.
	after := 1 + k.rng.IntN(1+k.rng.IntN(600))
	j := job{Dir: k.dir, Seeds: [2]uint64{k.rng.Uint64(), k.rng.Uint64()}, Start: k.start, Now: k.now}
	switch k.rng.IntN(4) {
	case 0:
		after = 0
		timer := time.AfterFunc(time.Duration(k.rng.Int64N(int64(80*time.Millisecond))), func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	case 1:
		after, j.Hold = 0, 1+k.rng.Int64N(backupCalls)
	}
	// It may be dead before it has read this.
	_ = gob.NewEncoder(in).Encode(j)
	_ = in.Close()
	backups, made, err = w.replay(out, func(n int, held bool) {
		if n == after || held {
			_ = cmd.Process.Kill()
		}
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	return backups, made, err
}
