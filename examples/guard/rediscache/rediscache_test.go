package rediscache_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/examples/guard/rediscache"
	"github.com/sievekv/sievekv/guard"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
)

// The adapter works with sievekv's own server, which has the protocol of Redis.
func TestCache(t *testing.T) {
	remote, err := sievekv.Open("", &sievekv.Options{InMemory: true, Modules: module.New(server.Module())})
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(remote.Store(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Serve(listener) }()
	defer func() {
		if err := s.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		<-ended
	}()
	client := redis.NewClient(&redis.Options{Addr: listener.Addr().String()})
	defer client.Close()

	db, err := sievekv.Open("", &sievekv.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	loads := 0
	g, err := guard.New(db, "users", guard.Options{
		Empty: true, Cache: rediscache.Cache{Client: client, Prefix: "app:"}, TTL: time.Hour,
		Load: func(context.Context, string) ([]byte, error) { loads++; return []byte("loaded"), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	want := func(want string) {
		t.Helper()
		if got, err := g.Get(t.Context(), "a"); string(got) != want || err != nil {
			t.Errorf("Get: %q, %v, want %q", got, err, want)
		}
	}
	put := func(value []byte) {
		t.Helper()
		if err := g.Put(t.Context(), "a", value, nil); err != nil {
			t.Error(err)
		}
	}
	put([]byte("put"))
	want("put")
	put(nil)
	want("loaded")
	want("loaded")
	if loads != 1 {
		t.Errorf("%d loads, want 1", loads)
	}
	if ttl, err := remote.TTL("app:guard:users:value:a"); ttl <= 0 || ttl > 2*time.Hour || err != nil {
		t.Errorf("the entry lives for %v, %v", ttl, err)
	}
	if err := g.Remove(t.Context(), "a", nil); err != nil {
		t.Error(err)
	}
	if _, err := g.Get(t.Context(), "a"); !errors.Is(err, guard.ErrNotFound) || loads != 1 {
		t.Errorf("%v after %d loads", err, loads)
	}
}
