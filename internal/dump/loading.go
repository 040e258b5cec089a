package dump

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sievekv/sievekv/internal/filtercmd"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// A filter that is loaded from a dump is half-loaded until all of its bytes have come. It is an object that is hidden
// (see kv.Writer.Hidden): every lookup finds its key missing. It has the layers and parameters of the filter to be, so
// that at the end only its header changes. It survives a restart. It is removed by DEL, by a command that makes the
// key, by another header, or when nothing has come for LoadTime. Only blocks with bytes that have come are stored.
//
// A type of filter has a Loading, which says how bytes become bits or slots. LOADCHUNK with a header calls BeginLoad, with
// data Loading.Load. Both commands have the flag module.NoMulti.

// LoadTime is how long a half-loaded filter waits for more bytes.
const LoadTime = time.Hour

// The errors of loading, for errors.Is.
var (
	// ErrBadData is returned for a header that is none, and for data at an impossible place.
	ErrBadData = errors.New("received bad data")

	// ErrOffset is returned for data that begins before the first layer or behind the last.
	ErrOffset = errors.New("invalid offset - no link found")

	// ErrChunk is returned for data that goes beyond the end of its layer.
	ErrChunk = errors.New("invalid chunk - Too big for current filter")

	// ErrGaps is returned if the data that has come would have more gaps than are kept.
	ErrGaps = fmt.Errorf("more than %d gaps in the data that has come", maxSpans)
)

// LoadReply is ErrorReply for the errors of loading, in RedisBloom's words for Bloom filters.
func LoadReply(err error) reply.Reply {
	for _, known := range []error{ErrBadData, ErrOffset, ErrChunk, ErrGaps, errDumpSum} {
		if errors.Is(err, known) {
			return reply.Error("ERR " + known.Error())
		}
	}
	return filtercmd.ErrorReply(err)
}

// Loading says how the data of a dump becomes a filter of type F. In a dump the arrays of the layers follow each other, the
// oldest first.
type Loading[F any] struct {
	// Native reports whether the filter has the native layout. See NewDump for its dump.
	Native func(f *F) bool

	// Bytes returns how many bytes of a dump layer i has; 0 is the oldest. It is 0 if there is no such layer.
	Bytes func(f *F, i int) uint64

	// Counted is the counter of a layer that Put keeps.
	Counted int

	// Put stages bytes of layer i of a half-loaded filter. They begin at the given byte of the layer. For a filter with
	// the native layout they are whole blocks.
	Put func(w *kv.Writer, f *F, i int, at uint64, data []byte) error

	// PutWhole is Put for a filter that is complete: a client may repeat what it has sent. It may refuse.
	PutWhole func(w *kv.Writer, f *F, i int, at uint64, data []byte) error

	// Done, if set, stages what remains to be done when all bytes have come.
	Done func(w *kv.Writer, f *F) error
}

// BeginLoad makes a half-loaded filter, and calls fill to stage its counters. If the key exists, it returns kv.ErrExists,
// as Reserve does, and does not call spec. A filter that is half-loaded under the key is removed.
func BeginLoad[F any](h *scalableext.Handle[F], level kv.Durability, spec scalableext.Spec, fill func(*kv.Writer, *F) error) error {
	return h.Write(level, func(w *kv.Writer) error {
		hidden := func(db *kv.DB) (kv.Spec, error) {
			s, err := spec(db)
			s.Hidden, s.Expiry = true, w.Now()+LoadTime.Milliseconds()
			return s, err
		}
		if err := h.ReserveStaged(w, hidden); err != nil {
			return err
		}
		o, err := w.Object(h.Key) // staged by this writer, which finds it
		if err != nil {
			return err
		}
		f, err := kv.As[*F](h.Key, o)
		if err != nil {
			return err
		}
		return fill(w, f)
	})
}

// loadPart is how many bytes of a dump become one commit. A block of random bits is stored in as many bytes.
const loadPart = 1 << 20

// Load puts data of a dump into the filter: a half-loaded one if there is one under the key, else a complete one. iter
// is 1 more than the bytes of the dump's arrays up to the end of the data. With the last byte, a half-loaded filter
// appears under its key. The data must be of one layer. Much data is several commits. The errors are ErrBadData,
// ErrOffset, ErrChunk, ErrGaps, kv.ErrNotFound, kv.ErrWrongType, errors of Put and PutWhole, and for a filter with the
// native layout one for a chunk with another checksum.
func (m *Loading[F]) Load(h *scalableext.Handle[F], level kv.Durability, iter int64, data []byte) error {
	var id uint64 // of the object that took the first part
	var from int64
	var part []byte
	size := min(loadPart, h.DB.MaxCommit()/4) / blockLen * blockLen // of filters with the native layout whole blocks
	for first := true; first || len(data) > 0; first = false {
		err := h.Write(level, func(w *kv.Writer) (err error) {
			if first {
				if data, from, err = m.payload(h, w, iter, data); err != nil {
					return err
				}
			}
			part = data[:min(len(data), size)]
			o, err := m.stage(h, w, from, part, len(data))
			switch {
			case err != nil:
				return err
			case !first && o.ID() != id:
				return fmt.Errorf("%w: %q was replaced meanwhile", kv.ErrNotFound, h.Key)
			}
			id = o.ID()
			return nil
		})
		if err != nil {
			return err
		}
		from, data = from+int64(len(part)), data[len(part):]
	}
	return nil
}

// stage stages a part of data, and returns the object that takes it. All is how many bytes from the part's beginning on
// have come in this call.
func (m *Loading[F]) stage(h *scalableext.Handle[F], w *kv.Writer, from int64, part []byte, all int) (*kv.Object, error) {
	put, o, f, err := m.target(h, w)
	if err != nil {
		return nil, err
	}
	switch {
	case from < -1:
		return nil, ErrBadData
	case from < 0:
		return nil, ErrOffset
	}
	i, at, total, err := m.place(f, uint64(from), uint64(all))
	if err != nil {
		return nil, err
	}
	if err := put(w, f, i, at, part); err != nil || !o.Hidden() {
		return o, err
	}
	return o, m.progress(h, w, o, f, span{uint64(from), uint64(from) + uint64(len(part))}, total)
}

// target returns the filter that takes data, and how: the half-loaded one under the key, or a complete one.
func (m *Loading[F]) target(h *scalableext.Handle[F], w *kv.Writer) (
	put func(w *kv.Writer, f *F, i int, at uint64, data []byte) error, o *kv.Object, f *F, err error,
) {
	if o, err = w.Hidden(h.Key); err != nil {
		return nil, nil, nil, err
	}
	if f, err = kv.As[*F](h.Key, o); err == nil {
		return m.Put, o, f, nil
	}
	if f, err = h.Staged(w); err != nil { // there is none of this type
		return nil, nil, nil, err
	}
	o, err = w.Object(h.Key)
	return m.PutWhole, o, f, err
}

// place returns the layer in which data begins, the byte there, and the bytes of all layers.
func (m *Loading[F]) place(f *F, from, length uint64) (layer int, at, total uint64, err error) {
	layer = -1
	for i := 0; ; i++ {
		n := m.Bytes(f, i)
		if n == 0 {
			break
		}
		if from >= total && from-total < n {
			layer, at = i, from-total
			if length > n-at {
				return 0, 0, 0, ErrChunk
			}
		}
		total += n
	}
	if layer < 0 {
		return 0, 0, 0, ErrOffset
	}
	return layer, at, total, nil
}

// progress notes which bytes have come, and shows the filter if these are all.
func (m *Loading[F]) progress(h *scalableext.Handle[F], w *kv.Writer, o *kv.Object, f *F, come span, total uint64) error {
	stored, err := h.DB.Attribute(o, loadedAttribute)
	if err != nil {
		return err
	}
	all, err := decodeSpans(stored)
	if err != nil {
		return fmt.Errorf("key %q: %w", h.Key, err)
	}
	all = all.add(come)
	if len(all) > maxSpans {
		return ErrGaps
	}
	if all[0] != (span{0, total}) {
		w.SetAttribute(o, loadedAttribute, all.append(nil))
		return w.Hide(o, w.Now()+LoadTime.Milliseconds())
	}
	if err := m.endNative(h, w, o); err != nil {
		return err
	}
	if m.Done != nil {
		if err := m.Done(w, f); err != nil {
			return err
		}
	}
	w.SetAttribute(o, loadedAttribute, nil)
	return w.Hide(o, 0)
}

// loadedAttribute is the attribute of a half-loaded filter that has the spans of bytes that have come: for each span the
// bytes between it and the one before, and its own, as uvarints.
const loadedAttribute = "loaded"

// maxSpans bounds the attribute.
const maxSpans = 1024

// span is the bytes from one on, and below another.
type span struct{ from, to uint64 }

// spans are ascending, and do not touch each other.
type spans []span

// add returns the spans with one more.
func (s spans) add(more span) spans {
	i := 0
	for i < len(s) && s[i].to < more.from {
		i++
	}
	j := i
	for ; j < len(s) && s[j].from <= more.to; j++ {
		more = span{min(more.from, s[j].from), max(more.to, s[j].to)}
	}
	return slices.Replace(s, i, j, more)
}

func (s spans) append(dst []byte) []byte {
	at := uint64(0)
	for _, one := range s {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, one.from-at), one.to-one.from)
		at = one.to
	}
	return dst
}

func decodeSpans(b []byte) (s spans, err error) {
	for at := uint64(0); len(b) > 0; {
		gap, n := binary.Uvarint(b)
		length, m := uint64(0), 0
		if n > 0 {
			length, m = binary.Uvarint(b[n:])
		}
		if m <= 0 {
			return nil, fmt.Errorf("%w: spans of loaded bytes %x", kv.ErrCorrupt, b)
		}
		s = append(s, span{at + gap, at + gap + length})
		at += gap + length
		b = b[n+m:]
	}
	return s, nil
}
