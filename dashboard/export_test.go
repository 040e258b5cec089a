package dashboard

import (
	"time"

	"github.com/sievekv/sievekv/kv"
)

// Forget has the next page begin a new pass over the keys.
func (d *Dashboard) Forget() {
	d.listing.mu.Lock()
	defer d.listing.mu.Unlock()
	d.listing.last, d.listing.now = nil, nil
}

// Read returns how many keys all passes have looked at.
func (d *Dashboard) Read() int {
	d.listing.mu.Lock()
	defer d.listing.mu.Unlock()
	return d.listing.read
}

// Stopped returns a Dashboard without its goroutine, for tests that do its work at times of their own.
func Stopped(db *kv.DB, o *Options, clock func() time.Time) (*Dashboard, error) {
	d, err := newDashboard(db, o)
	if err == nil {
		d.clock = clock
	}
	return d, err
}

// Step does a step of the listing, and Sample adds a point to the history.
func (d *Dashboard) Step() time.Duration  { return d.listing.goOn(d) }
func (d *Dashboard) Sample(now time.Time) { d.sample(now) }
func (d *Dashboard) Tracked() []string    { return d.history.keys() }
func (d *Dashboard) MostTracked() int     { return d.history.most }
func (d *Dashboard) Listed() (n int, whole bool) {
	d.listing.mu.Lock()
	defer d.listing.mu.Unlock()
	if d.listing.last == nil {
		return 0, false
	}
	return len(d.listing.last.rows), d.listing.now == nil
}

// ShortKey, Word and ShellWord show texts of clients.
var (
	ShortKey  = shortKey
	Word      = word
	ShellWord = shellWord
)
