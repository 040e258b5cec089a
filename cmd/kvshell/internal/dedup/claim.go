package dedup

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/kv"
)

// claim says that OUT belongs to a run of dedup that is not finished. The first commit of the run makes it and the
// last removes it. It is a string under a key of its own, OUT's path with ClaimSuffix. So it is still there if the
// filter, which has the run's record, is deleted: without the claim the next run would append the same lines to OUT
// again.
//
// It is stored as JSON, so that people can read it. Never reuse a name with another meaning.
type claim struct {
	Version   int    `json:"version"` // 1
	Run       uint64 `json:"run,string"`
	Key       string `json:"key"`        // of the filter when the run began, quoted
	Input     string `json:"input"`      // the same as in the record
	OutLength int64  `json:"out_length"` // bytes before the run, -1 if unknown
}

const (
	ClaimSuffix  = "#kvshell-dedup" // the help of dedup names it
	claimVersion = 1
)

// claimKey returns the key of the claim on a file.
func claimKey(out string) []byte { return []byte(out + ClaimSuffix) }

// storedClaim returns the claim on a file, nil if there is none.
func storedClaim(db *kv.DB, out string) (*claim, error) {
	value, err := db.Get(claimKey(out))
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	c := &claim{}
	if err == nil {
		err = json.Unmarshal(value, c)
	}
	switch {
	case err == nil && c.Version > claimVersion:
		return nil, fmt.Errorf("%w: key %q has format %d; this program knows %d", kv.ErrUnsupportedVersion, claimKey(out), c.Version, claimVersion)
	case errors.Is(err, kv.ErrClosed), errors.Is(err, kv.ErrFailed), errors.Is(err, kv.ErrCorrupt):
		return nil, err
	case err != nil, c.Version != claimVersion:
		return nil, exit.Refusef("the key %q, which dedup needs, holds something else than what an unfinished run leaves there: rename it or remove it", claimKey(out))
	}
	return c, nil
}

// stage stages a claim on a file.
func (c *claim) stage(w *kv.Writer, out string) error {
	value, err := json.Marshal(c)
	if err == nil {
		_, err = w.Set(claimKey(out), value, kv.SetOptions{})
	}
	return err
}

// dropClaim stages the removal of the claim on a file.
func dropClaim(w *kv.Writer, out string) error {
	_, err := w.Delete(claimKey(out))
	return err
}
