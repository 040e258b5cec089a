package guard

import (
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
)

// passRate measures which share of absent ids the filter in use lets through, and tells when it is above the rate asked
// for, and not by chance.
//
// Each id counts once, because it passes always or never: asking for one id often tells nothing new. So a sketch counts
// the refused ids, and the hashes of ids that passed are kept. Both are for a window, which grows until it tells
// enough. Let n be its different absent ids, k those that passed, and p the rate asked for. The window compares the
// rate p with 2p by the likelihood ratio of Poisson's law, 2^k * e^(-n*p):
//
//   - If the ratio reaches 1/falseAlarm, the filter is above the rate. If the true rate is at most p, a window says so
//     with a probability of at most falseAlarm, however often one looks: then the expected ratio is never above 1, as
//     (1+p) * e^(-p) < 1, and Ville's inequality holds (J. Ville, Étude critique de la notion de collectif, 1939).
//   - If the ratio falls to falseAlarm, the window has nothing to tell, and another begins. So a long time without false
//     positives does not hide that a filter becomes worse.
//
// This is the sequential test of A. Wald (Sequential Tests of Statistical Hypotheses, 1945), begun again and again. In
// logarithms each id that passes adds ln(2), and each absent id takes p. With n larger by sketchError the mean of a
// filter with the rate 2p is 2*ln(2)*p - 1.1*p = 0.286*p an id. So such a filter is found after -ln(falseAlarm)/0.286/p =
// 72/p different absent ids in the mean, with a standard deviation of 29/p, and fewer if its rate is higher. Before,
// a window that began when the filter was good may have to end, which takes about 51/p more. Less than 1.1*p/ln(2) = 1.6
// times the rate asked for is not found. At least 30 ids must pass.
type passRate struct {
	asked float64 // the rate asked for
	seed  maphash.Seed

	refused sketch // ids that the filter refused, in the window

	mu     sync.Mutex          // guards what follows
	passed map[uint64]struct{} // hashes of absent ids that passed, in the window
	found  [2]float64          // absent ids that passed, and all, in the windows of this filter that have ended
	above  bool                // a window of this filter has said that it is above the rate
}

const (
	// falseAlarm is the probability with which a window says wrongly that a filter is above the rate. A filter with
	// exactly the rate asked for has a window for each 51/p different absent ids.
	falseAlarm = 1e-9

	// maxPassed is the most hashes kept: another window begins then. The ratio of a filter that is above the rate goes on
	// growing, and so would its window. Other filters end theirs at some fifty.
	maxPassed = 1 << 14

	// sketchError is by how much the sketch may count too few: six standard deviations.
	sketchError = 0.1
)

func newPassRate(asked float64) *passRate {
	return &passRate{asked: asked, seed: maphash.MakeSeed(), passed: make(map[uint64]struct{})}
}

// refuse notes that the filter has refused an id.
func (r *passRate) refuse(id string) { r.refused.add(maphash.String(r.seed, id)) }

// pass notes that the filter has let an absent id through. It reports whether that shows, for the first time, that the
// filter is above the rate, and then the measured rate.
func (r *passRate) pass(id string) (rate float64, alarm bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hash := maphash.String(r.seed, id)
	if _, again := r.passed[hash]; again {
		return 0, false
	}
	r.passed[hash] = struct{}{}
	passed, all := r.window()
	enough := -math.Log(falseAlarm)
	switch ratio := passed*math.Ln2 - all*(1+sketchError)*r.asked; {
	case ratio >= enough:
		alarm, r.above = !r.above, true
	case ratio <= -enough:
		r.endWindow()
	}
	if len(r.passed) == maxPassed {
		r.endWindow()
	}
	return r.rate(), alarm
}

// begin begins the measurement again, because there is another filter.
func (r *passRate) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endWindow()
	r.found, r.above = [2]float64{}, false
}

// read returns the measured rate, and whether the filter is above the rate asked for.
func (r *passRate) read() (rate float64, above bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rate(), r.above
}

// rate returns the share of absent ids that passed, of all windows of this filter. The caller holds mu.
func (r *passRate) rate() float64 {
	passed, all := r.window()
	if all += r.found[1]; all == 0 {
		return 0
	}
	return (r.found[0] + passed) / all
}

// window returns the absent ids of the window that passed, and all of them. The caller holds mu.
func (r *passRate) window() (passed, all float64) {
	passed = float64(len(r.passed))
	return passed, passed + r.refused.count()
}

// endWindow begins another window. The caller holds mu.
func (r *passRate) endWindow() {
	passed, all := r.window()
	r.found[0], r.found[1] = r.found[0]+passed, r.found[1]+all
	clear(r.passed)
	r.refused.clear()
}

// sketch counts different ids by their hashes, in a few kilobytes: HyperLogLog (P. Flajolet, É. Fusy, O. Gandouet, F.
// Meunier, 2007). A register has the most leading zeros of the hashes that belong to it, and one more. The standard
// deviation of the count is 1.04/sqrt(registers), 1.6 %. An id that was added before costs a load of one word.
type sketch struct{ ranks [registers]atomic.Uint32 }

const registers = 1 << 12

func (s *sketch) add(hash uint64) {
	register := &s.ranks[hash%registers]
	rank := uint32(bits.LeadingZeros64(hash|(registers-1))) + 1
	for old := register.Load(); rank > old; old = register.Load() {
		if register.CompareAndSwap(old, rank) {
			return
		}
	}
}

// count returns about how many different hashes were added.
func (s *sketch) count() float64 {
	sum, unused := 0.0, 0
	for i := range s.ranks {
		rank := s.ranks[i].Load()
		sum += math.Ldexp(1, -int(rank))
		if rank == 0 {
			unused++
		}
	}
	const m = float64(registers)
	n := 0.7213 / (1 + 1.079/m) * m * m / sum
	if n <= 2.5*m && unused > 0 { // linear counting is more precise for few
		n = m * math.Log(m/float64(unused))
	}
	return n
}

// clear takes all away. An id that is added meanwhile may be counted or not.
func (s *sketch) clear() {
	for i := range s.ranks {
		s.ranks[i].Store(0)
	}
}
