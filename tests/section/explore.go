package main

// explore runs every order of the threads' steps from a state, and returns how many states there are, and what went
// wrong with the steps that led there, "" for nothing.
func (x *explorer) explore(from *state) (states int, wrong string, trace []string) {
	seen := make(map[[2]uint64]bool)
	h := newHasher()
	type frame struct {
		s    state
		next int // the thread to run next
	}
	stack := []*frame{{s: *from}}
	for len(stack) > 0 {
		top := stack[len(stack)-1]
		if top.next == maxThreads {
			stack = stack[:len(stack)-1]
			continue
		}
		t := top.next
		top.next++
		s := top.s
		s.ways = append(ways(nil), s.ways...)
		if s.threads[t].ended || !x.step(&s, t) {
			continue
		}
		if s.wrong != "" {
			for _, f := range stack {
				th := f.s.threads[f.next-1]
				trace = append(trace, th.op.String()+" "+stepName(th))
			}
			return len(seen), s.wrong, trace
		}
		key := h.sum(&s)
		if seen[key] {
			continue
		}
		seen[key] = true
		stack = append(stack, &frame{s: s})
	}
	return len(seen), "", nil
}

var lookupSteps = []string{
	"begins", "looks at the word", "looks at the clock", "notes a version", "reads a block", "notes the version", "looks whether that is valid",
	"waits for a commit", "finds the object", "takes apply", "reads the header", "puts the object into the map",
	"looks for a failure", "looks at the sequence", "looks at the word", "looks at the clock", "notes a version", "looks for a block", "registers a load",
	"waits for a load", "reads the disk", "installs", "looks whether that is valid",
	"reads a snapshot",
}

func stepName(th thread) string {
	if th.op.lookup() {
		return lookupSteps[th.step]
	}
	return "step " + string(rune('0'+th.step))
}
