package server

import (
	"fmt"
	"math"
	"strconv"

	"github.com/sievekv/sievekv/module"
)

// What a server takes of the descriptors of its process beside the store and its clients.
const (
	// ownDescriptors are those of the process: the standard ones, the poller, the listeners, and some to spare.
	ownDescriptors = 12

	// mostRefused is how many connections are refused at a time, which takes up to a second each, and mostMetrics how
	// many there may be for metrics. A small limit has a sixteenth of it for each.
	mostRefused = 64
	mostMetrics = 16
)

// room is how many connections of each kind there is a descriptor for.
type room struct{ clients, refused, metrics int }

// roomUnder returns the connections that the limit of a process, 0 for none, leaves beside a store that needs some
// descriptors. Clients are less than 1 if it leaves none.
func roomUnder(limit, store int) room {
	if limit == 0 {
		return room{math.MaxInt32, mostRefused, mostMetrics}
	}
	r := room{refused: min(mostRefused, max(2, limit/16)), metrics: min(mostMetrics, max(2, limit/16))}
	r.clients = limit - store - ownDescriptors - r.refused - r.metrics
	return r
}

// fitClients finds how many clients there may be, and lowers maxclients to that, as Redis does.
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
		if err := module.Of(s.db).SetSetting(maxClientsSetting, strconv.FormatInt(most, 10)); err != nil {
			return err
		}
		s.logger.Warn("sievekv: maxclients is lowered to what the limit of open files leaves; raise it, as by ulimit -n",
			maxClientsSetting, asked, "lowered_to", most, "limit", limit, "store", store, "server", others, "limit_wanted", asked+int64(limit)-most)
	}
	return nil
}

// clientsFit refuses a maxclients that is lower than the fewest, or for which the server of a store has no descriptors.
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

// spareClients is how many clients can connect beside those that there are, whatever a client sets maxclients to: enough
// to set it again, with a few that come back at the same moment, as those of a pool do.
const spareClients = 8

// fewestClients is the lowest maxclients that a client may set: with a lower one, set by mistake, nobody could connect to
// raise it again. It may be as low as it is, or as it can be at most.
func (s *Server) fewestClients() int64 {
	s.mu.Lock()
	users := int64(len(s.conns) - s.strangers.list.Len()) // strangers make room
	s.mu.Unlock()
	return min(users+spareClients, int64(s.room.clients), s.maxClients())
}
