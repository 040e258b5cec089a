package replica

import (
	"sync"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/member"
)

// runner runs a member: the three goroutines that package member speaks of. Each has a queue, so none of them waits for another.
type runner struct {
	m       *member.Member
	send    func([]*pb.Message)
	reads   func(key string, index uint64)
	looked  func() // raft's goroutine has done something: what it publishes may have changed
	failed  func(error)
	applied func()
	pace    pace // of the log

	steps   *queue[func()]       // for raft's goroutine
	appends *queue[*pb.Message]  // for the log's
	cuts    *queue[cut]          // for the log's
	tasks   *queue[*member.Task] // for the applier's

	stop  chan struct{}
	ended sync.WaitGroup
	fail  sync.Once
	told  chan struct{} // closed when the machine was told that the member has failed
	tell  sync.Once
}

// cut is the index up to which to cut the log, and the channel of the waiting caller.
type cut struct {
	index uint64
	done  chan error
}

func newRunner(m *member.Member) *runner {
	return &runner{
		m: m, steps: newQueue[func()](), appends: newQueue[*pb.Message](), tasks: newQueue[*member.Task](), cuts: newQueue[cut](),
		stop: make(chan struct{}), told: make(chan struct{}),
	}
}

func (r *runner) start() {
	r.ended.Go(r.raft)
	r.ended.Go(r.log)
	r.ended.Go(r.apply)
}

// end ends the goroutines, and waits for them. Work that is not done is forgotten, as in a crash.
func (r *runner) end() {
	close(r.stop)
	r.ended.Wait()
}

// cut cuts the log up to an index, and returns when that is done.
func (r *runner) cut(index uint64) error {
	c := cut{index, make(chan error, 1)}
	r.cuts.add(c)
	select {
	case err := <-c.done:
		return err
	case <-r.stop:
		return ErrClosed
	}
}

// do makes raft's goroutine call a method of the member.
func (r *runner) do(step func()) { r.steps.add(step) }

// raft is raft's goroutine.
func (r *runner) raft() {
	tick := time.NewTicker(member.TickMillis * time.Millisecond)
	defer tick.Stop()
	for {
		r.ready()
		select {
		case <-r.stop:
			return
		case <-tick.C:
			r.m.Tick()
		case <-r.steps.ready:
			for _, step := range r.steps.take() {
				step()
				r.ready()
			}
		}
	}
}

// ready passes on the work from raft.
func (r *runner) ready() {
	for {
		w, ok := r.m.Ready()
		if !ok {
			break
		}
		r.send(w.Send) // before the log has it: raft holds back what must come after
		r.appends.add(w.Append...)
		r.tasks.add(w.Apply...)
		for _, read := range w.Reads {
			r.reads(string(read.RequestCtx), read.Index)
		}
	}
	r.looked()
	if err := r.m.Failed(); err != nil {
		r.fail.Do(func() {
			r.failed(err)
			r.tasks.add(&member.Task{}) // tells the machine
		})
	}
}

// log is the log's goroutine. What has gathered while it wrote is written with one sync.
func (r *runner) log() {
	for {
		select {
		case <-r.stop:
			return
		case <-r.appends.ready:
		case <-r.cuts.ready:
			for _, c := range r.cuts.take() {
				c.done <- r.m.Truncate(c.index)
			}
		}
		work := r.appends.take()
		if len(work) == 0 {
			continue
		}
		ended := r.pace.begin()
		err := r.m.Persist(work)
		ended()
		if err != nil {
			r.do(func() {}) // sees that the member has failed
			continue
		}
		r.applied() // by a snapshot
		r.do(func() {
			for _, w := range work {
				r.send(r.m.Deliver(w.GetResponses()))
			}
		})
	}
}

// apply is the applier's goroutine.
func (r *runner) apply() {
	for {
		select {
		case <-r.stop:
			return
		case <-r.tasks.ready:
		}
		for _, t := range r.tasks.take() {
			if r.m.Apply(t) != nil {
				r.tell.Do(func() { close(r.told) })
				r.do(func() {})
				continue
			}
			r.applied()
			if t.Message != nil {
				r.do(func() { r.m.DeliverApplied(t) })
			}
		}
	}
}
