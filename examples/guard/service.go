package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/guard"
)

// service answers requests for users. It reads them by get, which is a guard's Get, or a cache's without a guard.
type service struct {
	store *sievekv.DB
	db    *database
	users *guard.Guard // nil without a guard
	ttl   time.Duration
	ahead *atomic.Int64 // of a scene: how far its store's clock is ahead, in nanoseconds
}

// openService opens a service whose users are in db, with a guard if o is not nil. ttl is for the cache without one.
func openService(store *sievekv.DB, db *database, o *guard.Options, ttl time.Duration) (*service, error) {
	s := &service{store: store, db: db, ttl: ttl}
	if o == nil {
		return s, nil
	}
	o.Load = func(ctx context.Context, id string) ([]byte, error) {
		profile, err := db.user(ctx, id)
		if errors.Is(err, errNoUser) {
			return nil, guard.ErrNotFound
		}
		return profile, err
	}
	o.LoadMany = db.users
	var err error
	s.users, err = guard.New(store, "users", *o)
	return s, err
}

// fill fills the filter, unless it is: the first time, and after a fill that was ended.
func (s *service) fill(ctx context.Context) error {
	p, err := s.users.Progress()
	if err != nil || p.Filled && !p.Rebuilding {
		return err
	}
	return s.users.RebuildFrom(ctx, s.db.idsAfter(ctx))
}

// get returns the profile of a user, or errNoUser.
func (s *service) get(ctx context.Context, id string) ([]byte, error) {
	if s.users != nil {
		profile, err := s.users.Get(ctx, id)
		if errors.Is(err, guard.ErrNotFound) {
			return nil, errNoUser
		}
		return profile, err
	}
	// This is what most programs do: look into the cache, ask the database, and keep the answer.
	profile, err := s.store.Get("user:" + id)
	if err == nil {
		return profile, nil
	}
	if profile, err = s.db.user(ctx, id); err != nil {
		return nil, err
	}
	_, err = s.store.With(sievekv.NoSync).SetWith("user:"+id, profile, sievekv.SetOptions{TTL: s.ttl})
	return profile, err
}

func (s *service) put(ctx context.Context, id string, profile []byte) error {
	write := func(ctx context.Context) error { return s.db.put(ctx, id, profile) }
	if s.users != nil {
		return s.users.PutVia(ctx, id, profile, write)
	}
	if err := write(ctx); err != nil {
		return err
	}
	_, err := s.store.Delete("user:" + id)
	return err
}

func (s *service) remove(ctx context.Context, id string) error {
	erase := func(ctx context.Context) error { return s.db.remove(ctx, id) }
	if s.users != nil {
		return s.users.RemoveVia(ctx, id, erase)
	}
	if err := erase(ctx); err != nil {
		return err
	}
	_, err := s.store.Delete("user:" + id)
	return err
}

// handler serves GET, PUT and DELETE of /users/{id}, POST of /orders, and /metrics.
func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	if s.users != nil {
		byGuard := guard.Middleware(s.users, func(r *http.Request) string { return r.PathValue("id") })
		mux.Handle("GET /users/{id}", byGuard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(s.users.Value(r.Context())) // it fails if the client has gone
		})))
		registry := prometheus.NewRegistry()
		registry.MustRegister(guard.NewCollector(s.users), sievekv.NewCollector(s.store))
		mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	} else {
		mux.HandleFunc("GET /users/{id}", func(w http.ResponseWriter, r *http.Request) {
			profile, err := s.get(r.Context(), r.PathValue("id"))
			answer(w, profile, err)
		})
	}
	mux.HandleFunc("PUT /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		profile, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = s.put(r.Context(), r.PathValue("id"), profile)
		}
		answer(w, nil, err)
	})
	mux.HandleFunc("DELETE /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, nil, s.remove(r.Context(), r.PathValue("id")))
	})
	mux.HandleFunc("POST /orders", s.order)
	return mux
}

// order places an order once, however often the request comes: the header Idempotency-Key tells which order it is.
func (s *service) order(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		http.Error(w, "the header Idempotency-Key is missing", http.StatusBadRequest)
		return
	}
	number, err := guard.OnceTx(r.Context(), s.store, "order:"+key, 24*time.Hour, func(tx *sievekv.Tx) (int64, error) {
		return tx.Incr("orders", 1)
	})
	if err != nil {
		answer(w, nil, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"order":`+jsonNumber(number)+"}\n")
}

func answer(w http.ResponseWriter, body []byte, err error) {
	switch {
	case errors.Is(err, errNoUser):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadGateway)
	default:
		_, _ = w.Write(body)
	}
}
