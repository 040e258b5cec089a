package dashboard

import (
	"context"
	"embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sievekv/sievekv/internal/live"
	"github.com/sievekv/sievekv/kv"
)

// Options configure a Dashboard. The zero value and nil mean the defaults.
type Options struct {
	// Prefix is the path under which the pages are served, such as /filters. Default none.
	Prefix string

	// Logger receives what an operator should know. Default: the store's logger.
	Logger *slog.Logger

	// Authorize returns the viewer that sends a request; nil stands for a viewer that may see everything. An error
	// refuses the request. A *live.Refusal says how. Default: requests of this machine see everything, and all others
	// are refused.
	Authorize func(*http.Request) (live.Viewer, error)

	// Hosts are the host names that requests may use, besides localhost and IP addresses. All others are refused, because a web page
	// can make its own host name resolve to this machine. Default none.
	Hosts []string

	// Server is the server that serves the store, if there is one.
	Server live.Server

	// HistoryBytes is the memory for what was at earlier times, in bytes, 1 MiB to 1 GiB. Default 8 MiB.
	HistoryBytes int64
}

// Dashboard serves pages about a store. It is an http.Handler. Any goroutine may call its methods.
type Dashboard struct {
	db      *kv.DB
	o       Options
	pages   map[string]*template.Template
	listing listing
	history *history
	fills   fills
	began   time.Time
	clock   func() time.Time // tests replace it

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

const (
	defaultHistory = 8 << 20
	leastHistory   = 1 << 20
	mostHistory    = 1 << 30
)

//go:embed templates static
var files embed.FS

// New returns a Dashboard of a store. Close ends it, and must be called before the store is closed. The error says what is wrong with
// the options.
func New(db *kv.DB, o *Options) (*Dashboard, error) {
	d, err := newDashboard(db, o)
	if err != nil {
		return nil, err
	}
	d.ended.Go(d.run)
	return d, nil
}

// newDashboard is New without the goroutine.
func newDashboard(db *kv.DB, o *Options) (*Dashboard, error) {
	d := &Dashboard{db: db, clock: time.Now}
	if o != nil {
		d.o = *o
	}
	if d.o.HistoryBytes == 0 {
		d.o.HistoryBytes = defaultHistory
	}
	switch {
	case d.o.Prefix != "" && (d.o.Prefix[0] != '/' || strings.HasSuffix(d.o.Prefix, "/")):
		return nil, fmt.Errorf("dashboard: Options.Prefix is %q, must begin with a slash and not end with one", d.o.Prefix)
	case d.o.HistoryBytes < leastHistory || d.o.HistoryBytes > mostHistory:
		return nil, fmt.Errorf("dashboard: Options.HistoryBytes is %d, must be %d to %d", d.o.HistoryBytes, leastHistory, mostHistory)
	}
	if d.o.Logger == nil {
		d.o.Logger = db.Logger()
	}
	if d.o.Authorize == nil {
		d.o.Authorize = ofThisMachine
	}
	d.began = d.clock()
	d.history = newHistory(d.o.HistoryBytes)
	d.listing.wake = make(chan struct{}, 1)
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d, d.parse()
}

// Close ends what the Dashboard does in the background, and waits for it. Requests that come later are refused.
func (d *Dashboard) Close() {
	d.cancel()
	d.ended.Wait()
}

// run keeps the history and the listing until Close.
func (d *Dashboard) run() {
	sample := time.NewTicker(finePeriod)
	defer sample.Stop()
	step := time.NewTimer(0)
	defer step.Stop()
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-sample.C:
			d.sample(d.clock())
		case <-d.listing.wake: // a page has begun a pass
			step.Reset(0)
		case <-step.C:
			step.Reset(d.listing.goOn(d))
		}
	}
}

// views are the pages by their paths below the prefix.
var views = map[string]view{
	"/":        {"overview", "Overview", (*Dashboard).overview},
	"/filters": {"filters", "Filters", (*Dashboard).filters},
	"/filter":  {"filter", "Filter", (*Dashboard).filter},
	"/plan":    {"plan", "Plan", (*Dashboard).plan},
	"/busy":    {"busy", "Slow and busy", (*Dashboard).busy},
}

// view is a page. Data returns what its template shows; its error is shown in place of the page.
type view struct {
	name, title string
	data        func(*Dashboard, *request) (any, error)
}

// request is a request that was allowed.
type request struct {
	*http.Request
	viewer live.Viewer // nil for one that may see everything
	now    time.Time
}

// may reports whether the viewer may run a command.
func (r *request) may(words ...string) bool { return r.viewer == nil || r.viewer.May(words...) }

// mayRead reports whether the viewer may see a key.
func (r *request) mayRead(key string) bool { return r.may("SIEVE.STATS", key) }

// mayReadAll reports whether the viewer may see every key.
func (r *request) mayReadAll() bool { return r.may("SIEVE.STATS", "LIMIT", "1") }

// ServeHTTP implements http.Handler.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	viewer, refused := d.allow(r)
	if refused != nil {
		writeRefusal(w, refused)
		return
	}
	if err := r.ParseForm(); err != nil {
		writeRefusal(w, refuse(http.StatusBadRequest, "the query cannot be read"))
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, d.o.Prefix)
	switch v, known := views[path]; {
	case ok && path == "" && d.o.Prefix != "":
		http.Redirect(w, r, d.o.Prefix+"/", http.StatusFound)
	case ok && known:
		d.show(w, &request{r, viewer, d.clock()}, v)
	case ok && strings.HasPrefix(path, "/static/"):
		serveStatic(w, r, strings.TrimPrefix(path, "/"))
	default:
		http.Error(w, "there is no such page", http.StatusNotFound)
	}
}

func serveStatic(w http.ResponseWriter, r *http.Request, name string) {
	data, err := files.ReadFile(name)
	if err != nil {
		http.Error(w, "there is no such file", http.StatusNotFound)
		return
	}
	kind := "text/css; charset=utf-8"
	if strings.HasSuffix(name, ".js") {
		kind = "text/javascript; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	if r.Method != http.MethodHead {
		_, _ = w.Write(data) // the client is gone
	}
}
