package dashboard

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// functions are what templates call.
var functions = template.FuncMap{
	"count": count, "size": size, "percent": percent, "rate": showRate, "perSecond": perSecond, "span": showSpan, "key": shortKey, "link": link,
	"micros": showMicros, "fixed": fixed, "many": many, "shell": shellWord, "kind": shortType,
	"query":    func(q string) template.URL { return template.URL(q) }, // of url.Values, which has escaped it
	"barWidth": func(share float64) float64 { return math.Round(600*min(1, max(0, share))) / 10 },
	"behind":   func(committed, applied uint64) uint64 { return committed - min(committed, applied) },
}

// parse makes the templates, one for each page.
func (d *Dashboard) parse() error {
	d.pages = make(map[string]*template.Template)
	for _, v := range views {
		t, err := template.New("page.html").Funcs(functions).ParseFS(files, "templates/page.html", "templates/"+v.name+".html")
		if err != nil {
			return err
		}
		d.pages[v.name] = t
	}
	return nil
}

// frame is what all pages show around theirs.
type frame struct {
	Title, Prefix, Here string
	Viewer              string // "" for one without a name
	Error               string
	At                  string
	Data                any
	Refresh             int // seconds, 0 for never
}

// refreshEvery is how often the script asks for a page again, in seconds.
const refreshEvery = 2

// show writes a page.
func (d *Dashboard) show(w http.ResponseWriter, r *request, v view) {
	f := frame{Title: v.title, Prefix: d.o.Prefix, Here: v.name, At: r.now.UTC().Format("2006-01-02 15:04:05 UTC"), Refresh: refreshEvery}
	if v.name == "plan" || r.Form.Has("item") {
		f.Refresh = 0 // a plan depends on what was asked alone, and an item that is asked for again and again counts as lookups
	}
	if r.viewer != nil {
		f.Viewer = shortKey(r.viewer.Name())
	}
	status := http.StatusOK
	data, err := v.data(d, r)
	f.Data = data
	if err != nil {
		status, f.Error, f.Data = statusOf(err), plain(err), nil
	}
	var page bytes.Buffer
	if err := d.pages[v.name].Execute(&page, f); err != nil {
		d.o.Logger.Error("sievekv: a page of the dashboard failed", "page", v.name, "error", err)
		http.Error(w, "the page failed; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(page.Len()))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = page.WriteTo(w) // the client is gone
	}
}

// count shows a number with spaces between thousands, which no line breaks at.
func count(n any) string {
	digits := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return sign + digits
}

// size shows bytes with three digits.
func size(n any) string {
	var v float64
	switch n := n.(type) {
	case uint64:
		v = float64(n)
	case int64:
		v = float64(n)
	case int:
		v = float64(n)
	case float64:
		v = n
	}
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for ; v >= 1024 && i < len(units)-1; i++ {
		v /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%.0f bytes", v)
	}
	return fixed(v) + " " + units[i]
}

// fixed shows a number with about three digits.
func fixed(v float64) string {
	switch {
	case v >= 1000:
		return count(uint64(math.Round(v)))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	case v == 0:
		return "0"
	case v < 0.001:
		return fmt.Sprintf("%.2g", v)
	}
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
}

func percent(share float64) string {
	switch p := 100 * share; {
	case p == 0:
		return "0 %"
	case p < 0.01:
		return "< 0.01 %"
	case p < 10:
		return fmt.Sprintf("%.2f %%", p)
	default:
		return fmt.Sprintf("%.1f %%", p)
	}
}

// showRate shows an error rate.
func showRate(p float64) string {
	switch {
	case p <= 0:
		return "0 %"
	case p >= 1e-5:
		return fmt.Sprintf("%.3g %%", 100*p)
	}
	return fmt.Sprintf("%.2g", p)
}

// perSecond shows a rate of events, which may not be known yet.
func perSecond(v float64) string {
	if v < 0 {
		return "–"
	}
	return fixed(v) + "/s"
}

// showMicros shows a time given in microseconds.
func showMicros(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v < 1000:
		return fixed(v) + " µs"
	case v < 1e6:
		return fixed(v/1000) + " ms"
	}
	return fixed(v/1e6) + " s"
}

// showSpan shows a time roughly.
func showSpan(d time.Duration) string {
	switch s := d.Seconds(); {
	case s < 1:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	case s < 2*3600:
		return fmt.Sprintf("%.0f min", s/60)
	case s < 48*3600:
		return fmt.Sprintf("%.0f h", s/3600)
	case s < 2*365*86400:
		return fmt.Sprintf("%.0f days", s/86400)
	default:
		return fmt.Sprintf("%.0f years", s/(365*86400))
	}
}

// Of a key of more than shownKey characters the first shownHead and the last shownTail are shown.
const (
	shownKey  = 90
	shownHead = 60
	shownTail = 20
)

// shortKey shows a key, or anything else that comes from clients, as text: what does not show as itself as escapes in quotes, and what is
// long shortened in the middle.
func shortKey(key string) string {
	shown := key
	const enough = utf8.UTFMax * shownKey
	if len(key) > 2*enough { // what is between is not shown
		shown = key[:enough] + key[len(key)-enough:]
	}
	if !isPlain(shown) {
		shown = strconv.Quote(shown)
	}
	runes := []rune(shown)
	if len(runes) <= shownKey && len(shown) >= len(key) {
		return shown
	}
	return string(runes[:shownHead]) + "…" + string(runes[len(runes)-shownTail:]) + " (" + count(len(key)) + " bytes)"
}

// isPlain reports whether a text shows as itself: no control characters, none that change the direction of others, no spaces at the
// ends, nothing that is not UTF-8.
func isPlain(text string) bool {
	if text == "" || !utf8.ValidString(text) || text[0] == '"' || strings.TrimSpace(text) != text {
		return false
	}
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// maxAddress is the most bytes of a key that is its own address.
const maxAddress = 512

// link is address for templates, which would escape what it has anyway in a form for queries.
func link(key string) template.URL { return template.URL(address(key)) }

// address returns the query that leads to the page of a key: the key, or of a long one its hash, since a page may have many links.
func address(key string) string {
	if len(key) > maxAddress {
		sum := sha256.Sum256([]byte(key))
		return "sum=" + hex.EncodeToString(sum[:])
	}
	return "key=" + base64.RawURLEncoding.EncodeToString([]byte(key))
}

// addressed returns the key that a query leads to. It is not ok if there is none.
func (d *Dashboard) addressed(q url.Values, now time.Time) (key string, ok bool) {
	if sum := q.Get("sum"); sum != "" {
		for _, r := range d.listing.see(d, now).rows {
			if len(r.key) > maxAddress && address(r.key) == "sum="+sum {
				return r.key, true
			}
		}
		return "", false
	}
	if name := q.Get("name"); name != "" {
		return name, true
	}
	data, err := base64.RawURLEncoding.DecodeString(q.Get("key"))
	return string(data), err == nil && q.Has("key")
}

// word returns a word as kvshell's prompt and redis-cli take it.
func word(text string) string {
	special := func(r rune) bool {
		return r < '!' || r > '~' || strings.ContainsRune(`"'\`+"`$&|;<>()*?[]{}#!~", r)
	}
	if text != "" && strings.IndexFunc(text, special) < 0 {
		return text
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + `"`
}

// shellWord returns a word as a shell takes it.
func shellWord(text string) string {
	if text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:") == "" {
		return text
	}
	if text == "" || isPlain(text) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, `\x%02x`, text[i])
	}
	return "$'" + b.String() + "'"
}
