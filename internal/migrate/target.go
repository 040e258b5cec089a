package migrate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/sievekv/sievekv/internal/dump"
	"github.com/sievekv/sievekv/internal/migrate/rdb"
	"github.com/sievekv/sievekv/module/reply"
)

// attempts is how often a key is copied that changes meanwhile.
const attempts = 3

var errChanges = &itemError{fmt.Sprintf("it changed %d times while it was copied", attempts)}

// sameExpiry is how far apart two times may be at which a key expires.
const sameExpiry = time.Second

// putStrings copies strings.
func (r *run) putStrings(ctx context.Context, items []item) error {
	var left []item
	var sets [][][]byte
	for _, i := range items {
		words, ok := r.set(i)
		if !ok {
			r.report.Expired++
			continue
		}
		left, sets = append(left, i), append(sets, append(words, []byte("NX")))
	}
	if len(sets) == 0 {
		return nil
	}
	replies, err := doAll(ctx, r.to, sets)
	if err != nil {
		return err
	}
	for n, answer := range replies {
		err := replyError(sets[n], answer)
		switch {
		case isTooLarge(err):
			err = r.failing(ctx, left[n], r.putLong(ctx, left[n]))
		case err == nil && isNone(answer):
			err = r.existing(ctx, left[n])
		case err == nil:
			r.report.Strings++
		}
		if err != nil {
			return err
		}
	}
	r.Step("strings")
	return nil
}

// set returns the SET of a string, unless it has expired.
func (r *run) set(i item) (words [][]byte, ok bool) {
	words = command("SET", r.target(i.key), i.value)
	life, ok := r.life(i)
	if ok && life > 0 {
		words = append(words, []byte("PX"), number(life))
	}
	return words, ok
}

// latest is the latest time at which a key is made to expire, in milliseconds since 1970: a year before the latest that a
// server takes, whose clock may differ.
const latest = math.MaxInt64 - 366*24*3600*1000

// life returns for how many milliseconds a key still lives, 0 for ever. It is not ok if the key has expired.
func (r *run) life(i item) (life int64, ok bool) {
	if i.expires.IsZero() {
		return 0, true
	}
	at, now := min(i.expires.UnixMilli(), latest), r.Now().UnixMilli()
	if at <= now {
		return 0, false
	}
	return at - now, true
}

func number(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// existing deals with a string whose key exists at the target.
func (r *run) existing(ctx context.Context, i item) error {
	got, err := do(ctx, r.to, command("GET", r.target(i.key)))
	if err != nil && (!isRefusal(err) || isDenied(err)) {
		return err
	}
	if err == nil && !isNone(got) && bytes.Equal(got.Bytes(), i.value) {
		return r.unchanged(ctx, i)
	}
	if replace, err := r.conflict(i); !replace {
		return err
	}
	words, ok := r.set(i)
	if !ok {
		r.report.Expired++
		return nil
	}
	if _, err := do(ctx, r.to, words); isTooLarge(err) {
		return r.failing(ctx, i, r.inPieces(ctx, i, false))
	} else if err != nil {
		return err
	}
	r.report.Strings++
	return nil
}

// pieceSize is how many bytes of a long string become one commit of a store, however little memory that has.
const pieceSize = 32 << 10

// putLong copies a string that the target does not take by a SET.
func (r *run) putLong(ctx context.Context, i item) error {
	got, err := do(ctx, r.to, command("TYPE", r.target(i.key)))
	switch {
	case err != nil:
		return err
	case string(got.Bytes()) != "none":
		if err := r.removeCopy(ctx, i); err != nil {
			return err
		}
		return r.existing(ctx, i)
	}
	return r.inPieces(ctx, i, true)
}

// inPieces writes a string piece by piece under another key, as a filter is loaded, and renames it.
func (r *run) inPieces(ctx context.Context, i item, missing bool) error {
	beside := append(r.target(i.key), Suffix...)
	if _, err := do(ctx, r.to, command("DEL", beside)); err != nil {
		return err
	}
	length := 0
	for pieces := range slices.Chunk(slices.Collect(slices.Chunk(i.value, pieceSize)), most/pieceSize) {
		var appends [][][]byte
		for _, piece := range pieces {
			appends = append(appends, command("APPEND", beside, piece))
		}
		replies, err := doAll(ctx, r.to, appends)
		if err != nil {
			return err
		}
		for n, answer := range replies {
			if err := replyError(appends[n], answer); err != nil {
				return err
			}
			if length += len(pieces[n]); answer.Int() != int64(length) {
				return &itemError{"what the target has is not what was sent"}
			}
		}
		r.Step("piece")
	}
	return r.finish(ctx, i, beside, missing)
}

// conflict reports whether to replace the value at the target.
func (r *run) conflict(i item) (replace bool, err error) {
	switch r.OnConflict {
	case Replace:
		return true, nil
	case Skip:
		r.report.Skipped++
		return false, nil
	}
	return false, refuse("%s exists with another value: nothing more is copied; --on-conflict skip or replace goes on",
		shown(r.target(i.key)))
}

// unchanged sees to the expiry of a key whose value is equal already, unless existing keys are left alone.
func (r *run) unchanged(ctx context.Context, i item) error {
	r.report.Unchanged++
	if r.OnConflict == Skip {
		return nil
	}
	got, err := do(ctx, r.to, command("PTTL", r.target(i.key)))
	if err != nil {
		return err
	}
	life, ok := r.life(i)
	if !ok || sameTime(i.expires, expiry(r.Now(), got)) {
		return nil
	}
	return r.expire(ctx, r.target(i.key), life)
}

func (r *run) expire(ctx context.Context, key []byte, life int64) error {
	words := command("PERSIST", key)
	if life > 0 {
		words = command("PEXPIRE", key, number(life))
	}
	_, err := do(ctx, r.to, words)
	return err
}

// putFilter copies a filter.
func (r *run) putFilter(ctx context.Context, i item) error {
	return r.failing(ctx, i, r.tryFilter(ctx, i))
}

// failing reports an error that concerns a key alone, and returns any other.
func (r *run) failing(ctx context.Context, i item, err error) error {
	var failed *itemError
	if isRefusal(err) {
		failed = &itemError{err.Error()}
	}
	if failed == nil && !errors.As(err, &failed) {
		return err
	}
	r.report.fail(i.key, failed.text)
	return r.removeCopy(ctx, i)
}

// removeCopy removes what a run has left that did not finish.
func (r *run) removeCopy(ctx context.Context, i item) error {
	_, err := do(ctx, r.to, command("DEL", append(r.target(i.key), Suffix...)))
	if isTooLarge(err) { // the key is too long, so there is nothing to remove
		return nil
	}
	return err
}

// itemError is why a key is not copied.
type itemError struct{ text string }

func (e *itemError) Error() string { return e.text }

func (r *run) tryFilter(ctx context.Context, i item) error {
	if _, ok := r.life(i); !ok {
		r.report.Expired++
		return nil
	}
	key := r.target(i.key)
	got, err := do(ctx, r.to, command("TYPE", key))
	if err != nil {
		return err
	}
	missing := string(got.Bytes()) == "none"
	if !missing {
		if err := r.removeCopy(ctx, i); err != nil { // load does so for others
			return err
		}
		equal := false
		if words(string(got.Bytes())) == i.filter.words() {
			if equal, err = r.equal(ctx, i); err != nil {
				return err
			}
		}
		if equal {
			if there, err := r.askAgain(ctx, &i); !there || err != nil {
				return err
			}
			return r.unchanged(ctx, i)
		}
		if replace, err := r.conflict(i); !replace {
			return err
		}
	}
	beside := append(bytes.Clone(key), Suffix...)
	if err := r.load(ctx, i, beside); err != nil {
		return err
	}
	r.Step("loaded")
	if there, err := r.askAgain(ctx, &i); err != nil {
		return err
	} else if !there {
		return r.removeCopy(ctx, i)
	}
	return r.finish(ctx, i, beside, missing)
}

// finish renames a filter that was loaded, or a long string.
func (r *run) finish(ctx context.Context, i item, beside []byte, missing bool) error {
	life, ok := r.life(i)
	if !ok {
		r.report.Expired++
		_, err := do(ctx, r.to, command("DEL", beside))
		return err
	}
	if life > 0 {
		if err := r.expire(ctx, beside, life); err != nil {
			return err
		}
	}
	name := "RENAME"
	if missing && r.OnConflict != Replace {
		name = "RENAMENX"
	}
	got, err := do(ctx, r.to, command(name, beside, r.target(i.key)))
	if err != nil {
		return err
	}
	if name == "RENAMENX" && got.Int() == 0 { // somebody made the key meanwhile
		return &itemError{"the key was made meanwhile"}
	}
	if i.filter == nil {
		r.report.Strings++
		r.Step("long string")
		return nil
	}
	r.report.Filters++
	r.Step("filter")
	return nil
}

// load loads a filter under a key, and checks it.
func (r *run) load(ctx context.Context, i item, beside []byte) error {
	for range attempts {
		if _, err := do(ctx, r.to, command("DEL", beside)); err != nil {
			return err
		}
		sent := newDigest()
		err := i.filter.chunks(ctx, func(c rdb.Chunk) error {
			sent.add(c)
			_, err := do(ctx, r.to, command(i.filter.words()+".LOADCHUNK", beside, number(c.Iter), c.Data))
			if err == nil {
				r.Step("chunk")
			}
			return err
		})
		if err != nil {
			return err
		}
		changed, err := i.filter.changed(ctx)
		if err != nil {
			return err
		}
		if changed {
			continue
		}
		got := newDigest()
		loaded := &serverFilter{from: r.to, key: beside, name: i.filter.words()}
		if err := loaded.chunks(ctx, got.addNext); err != nil {
			return err
		}
		if !bytes.Equal(got.sum(), sent.sum()) {
			return &itemError{"what the target has is not what was sent"}
		}
		if from, ok := i.filter.(*serverFilter); ok {
			return sameInfo(ctx, from, loaded)
		}
		return nil
	}
	return errChanges
}

// equal reports whether the target has the same filter already.
func (r *run) equal(ctx context.Context, i item) (bool, error) {
	at := &serverFilter{from: r.to, key: r.target(i.key), name: i.filter.words()}
	errDiffers := errors.New("differs")
	var first [2]*digest
	header := func(n int) func(rdb.Chunk) error {
		first[n] = newDigest()
		return func(c rdb.Chunk) error {
			first[n].add(c)
			return errDiffers // the header is enough
		}
	}
	if err := at.chunks(ctx, header(0)); err != nil && err != errDiffers {
		if isRefusal(err) { // a filter that has no dump is another one
			return false, nil
		}
		return false, err
	}
	if err := i.filter.chunks(ctx, header(1)); err != nil && err != errDiffers {
		return false, err
	}
	if !bytes.Equal(first[0].sum(), first[1].sum()) {
		return false, nil
	}
	var sums [2]*digest
	for n, f := range []filter{at, i.filter} {
		sums[n] = newDigest()
		if err := f.chunks(ctx, sums[n].addNext); err != nil {
			return false, err
		}
	}
	return bytes.Equal(sums[0].sum(), sums[1].sum()), nil
}

// digest is of what a dump says of a filter, however that is cut into chunks.
type digest struct {
	hash.Hash
	native bool // it is a dump of a filter with the native layout, whose chunks also name their filter
}

func newDigest() *digest { return &digest{Hash: sha256.New()} }

func (d *digest) add(c rdb.Chunk) {
	if c.Iter == 1 {
		d.native = dump.IsNativeDump(c.Data)
	}
	if d.native {
		c.Data = dump.DumpContent(c.Data, c.Iter == 1)
	}
	d.Write(c.Data)
}

func (d *digest) addNext(c rdb.Chunk) error {
	d.add(c)
	return nil
}

func (d *digest) sum() []byte { return d.Sum(nil) }

// sameInfo compares what INFO tells of two filters. Size counts memory, which differs between versions of RedisBloom.
func sameInfo(ctx context.Context, a, b *serverFilter) error {
	var infos [2]map[string]reply.Reply
	for i, f := range []*serverFilter{a, b} {
		r, err := do(ctx, f.from, command(f.name+".INFO", f.key))
		if err != nil {
			return err
		}
		infos[i] = map[string]reply.Reply{}
		elems := r.Elems()
		for n := 0; n+1 < len(elems); n += 2 {
			infos[i][string(elems[n].Bytes())] = elems[n+1]
		}
	}
	for name, value := range infos[0] {
		other, ok := infos[1][name]
		if ok && name != "Size" && value.String() != other.String() {
			return &itemError{fmt.Sprintf("%s.INFO tells %s of %s, and of the copy %s", a.name, name, value, other)}
		}
	}
	return nil
}
