package server

import (
	"fmt"
	"math"
	"strconv"
)

// The server's share of the descriptors of the process, besides the store and the clients.
const (
	// ownDescriptors are for the process: the standard ones, the poller, the listeners, and some to spare.
	ownDescriptors = 12

	// mostRefused bounds the connections that are being refused at a time; refusing one takes up to a second.
	// mostMetrics bounds the connections for metrics, and also the connections for pages. Under a small limit each is a
	// sixteenth of it.
	mostRefused = 64
	mostMetrics = 16
)

// room is the number of connections of each kind for which there are descriptors.
type room struct{ clients, refused, metrics int }

// roomUnder returns the room under the process's limit of descriptors, 0 for no limit, besides a store that needs
// some of them. If clients is less than 1, the limit is too low.
func roomUnder(limit, store int) room {
	if limit == 0 {
		return room{math.MaxInt32, mostRefused, mostMetrics}
	}
	r := room{refused: min(mostRefused, max(2, limit/16)), metrics: min(mostMetrics, max(2, limit/16))}
	r.clients = limit - store - ownDescriptors - r.refused - 2*r.metrics
	return r
}

// fitClients computes how many clients there may be, and lowers maxclients to that, as Redis does.
func (s *Server) fitClients() error {
	limit, store := s.db.Descriptors()
	s.room = roomUnder(limit, store)
	others := limit - store - s.room.clients
	asked := s.maxClients()
	switch most := int64(s.room.clients); {
	case most < 1:
		return fmt.Errorf("server: a process that may open %d files has none left for clients: the store needs %d, the server %d; "+
			"raise the limit, as by ulimit -n", limit, store, others)
	case most < asked:
		if err := s.host.SetSetting(maxClientsSetting, strconv.FormatInt(most, 10)); err != nil {
			return err
		}
		s.logger.Warn("sievekv: maxclients is lowered to what the limit of open files leaves; raise it, as by ulimit -n",
			maxClientsSetting, asked, "lowered_to", most, "limit", limit, "store", store, "server", others, "limit_wanted", asked+int64(limit)-most)
	}
	return nil
}

// clientsFit refuses a maxclients below fewest, or above what the store's server has descriptors for.
func (h *hub) clientsFit(fewest int64, value func(name string) string) error {
	s := h.server.Load()
	if s == nil {
		return nil
	}
	n, err := strconv.ParseInt(value(maxClientsSetting), 10, 64)
	why := ""
	switch most := int64(s.room.clients); {
	case err != nil:
	case n > most:
		why = "the limit of open files leaves no more"
	case n < fewest:
		why = "lower ones could lock everybody out"
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("argument must be between %d and %d inclusive, not %d: %s", fewest, s.room.clients, n, why)
}

// spareClients is how many clients can connect besides the present ones, however low a client sets maxclients. That
// is enough to raise it again, even if a pool of clients reconnects at the same moment.
const spareClients = 8

// fewestClients is the lowest maxclients that a client may set. Below it, a mistake could lock out everybody, including
// the person who would raise it again. The present value and the highest possible one are always allowed.
func (s *Server) fewestClients() int64 {
	s.mu.Lock()
	users := int64(len(s.conns) - s.strangers.total) // new connections replace strangers
	s.mu.Unlock()
	return min(users+spareClients, int64(s.room.clients), s.maxClients())
}
