package dashboard

import (
	"errors"
	"net/http"

	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
)

var (
	// errNoFilter is the error for a key that is no filter, and for one that the viewer may not see: they cannot be told apart.
	errNoFilter = errors.New("there is no such filter, or you may not see it")

	// errUnread replaces an error that may name a key, for a viewer that may not see every key.
	errUnread = errors.New("some keys cannot be read; the log of the store says why")
)

// statusOf returns the status of HTTP for an error of a page.
func statusOf(err error) int {
	switch {
	case errors.Is(err, errNoFilter):
		return http.StatusNotFound
	case errors.Is(err, kv.ErrClosed), errors.Is(err, kv.ErrFailed):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// plain returns an error's text for people.
func plain(err error) string { return text.Plain(err.Error()) }
