// Package server_test has tests of the server by clients: go-redis, and sockets in bytes.
package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/coreext"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/server"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	goleak.VerifyTestMain(m)
}

// silent is a logger for go-redis: what fails, a test says.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// serve serves a new store in memory at a port of its own until the test ends.
func serve(t *testing.T, store kv.Options, o *server.Options) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	db := open(t, store)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(serveAt(t, db, l, o))
	return l.Addr().String()
}

func open(t *testing.T, store kv.Options) *sievekv.DB {
	t.Helper()
	store.InMemory, store.Seed, store.Logger = true, 1, slog.New(slog.DiscardHandler)
	store.Modules = coreext.Add(store.Modules, server.Module())
	db, err := sievekv.Open("", &store)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// serveAt serves a store until stop is called.
func serveAt(t *testing.T, db *sievekv.DB, l net.Listener, o *server.Options) (stop func()) {
	t.Helper()
	s, err := server.New(db.Store(), o)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.Serve(l); !errors.Is(err, server.ErrServerClosed) {
			t.Errorf("Serve = %v", err)
		}
	})
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // when a test is given up, too
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		serving.Wait()
	}
}

// connect returns a client of go-redis with its default options, except the given ones. It has all the time there is.
func connect(t *testing.T, address string, o redis.Options) *redis.Client {
	t.Helper()
	o.Addr = address
	o.DialTimeout, o.PoolTimeout = time.Hour, time.Hour
	o.ReadTimeout, o.WriteTimeout = -1, -1 // none
	c := redis.NewClient(&o)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// inBoth runs a test with a client of each protocol, on a store of its own.
func inBoth(t *testing.T, test func(t *testing.T, c *redis.Client)) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			test(t, connect(t, serve(t, kv.Options{}, nil), redis.Options{Protocol: protocol}))
		})
	}
}

// command is one of go-redis that has been run.
type command[T any] interface {
	redis.Cmder
	Result() (T, error)
}

// is checks the result of a command.
func is[T any](t *testing.T, cmd command[T], want T) {
	t.Helper()
	got, err := cmd.Result()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v = %+v, %v, want %+v", cmd.Args(), got, err, want)
	}
}

// fails checks the error of a command: the text, or the beginning of it.
func fails(t *testing.T, cmd redis.Cmder, want string) {
	t.Helper()
	if err := cmd.Err(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v: error %v, want %s", cmd.Args(), err, want)
	}
}

// result returns the result of a command, which must have one.
func result[T any](t *testing.T, cmd command[T]) T {
	t.Helper()
	got, err := cmd.Result()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args(), err)
	}
	return got
}
