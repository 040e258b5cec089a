package dashboard

import (
	"errors"
	"net/http"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/text"
)

var (
	// errNoFilter is the error for a key that is no filter, and for one that the viewer may not see: they cannot be told apart.
	errNoFilter   = errors.New("there is no such filter, or you may not see it")
	errNotAllowed = errors.New("you may not see this page")
)

// statusOf returns the status of HTTP for an error of a page.
func statusOf(err error) int {
	switch {
	case errors.Is(err, errNoFilter):
		return http.StatusNotFound
	case errors.Is(err, errNotAllowed):
		return http.StatusForbidden
	case errors.Is(err, errAsked):
		return http.StatusBadRequest
	case errors.Is(err, kv.ErrClosed), errors.Is(err, kv.ErrFailed):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// plain returns an error's text for people.
func plain(err error) string { return text.Plain(err.Error()) }

// errAsked is the error for a value of a form that cannot be taken.
var errAsked = errors.New("the form cannot be taken")
