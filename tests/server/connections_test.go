package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/server"
)

func TestPipelined(t *testing.T) {
	inBoth(t, func(t *testing.T, c *redis.Client) {
		ctx := t.Context()
		var incr *redis.IntCmd
		var added, known *redis.BoolCmd
		cmds, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, "n", 1, 0)
			incr = p.Incr(ctx, "n")
			added, known = p.BFAdd(ctx, "f", "a"), p.BFAdd(ctx, "f", "a")
			p.Get(ctx, "missing")
			p.Incr(ctx, "f")
			p.Get(ctx, "n")
			return nil
		})
		if !errors.Is(err, redis.Nil) || len(cmds) != 7 { // the first error
			t.Errorf("Pipelined = %v, %v", cmds, err)
		}
		is(t, incr, 2)
		is(t, added, true)
		is(t, known, false)
		fails(t, cmds[5], wrongType)
		if got := cmds[6].(*redis.StringCmd).Val(); got != "2" {
			t.Errorf("after errors GET = %q", got)
		}
		// One as deep as they come.
		const deep = 20_000
		pipe := c.Pipeline()
		for range deep {
			pipe.Incr(ctx, "deep")
		}
		cmds, err = pipe.Exec(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i, cmd := range cmds {
			if got := cmd.(*redis.IntCmd).Val(); got != int64(i+1) {
				t.Fatalf("reply %d is %d", i, got)
			}
		}
	})
}

func TestTxPipelined(t *testing.T) {
	inBoth(t, func(t *testing.T, c *redis.Client) {
		ctx := t.Context()
		var seen *redis.BoolCmd
		var wrong *redis.IntCmd
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, "row", "1", 0)
			seen = p.BFAdd(ctx, "seen", "1")
			p.CFAdd(ctx, "live", "1")
			wrong = p.Incr(ctx, "seen")
			return nil
		})
		if err == nil || err.Error() != wrongType {
			t.Errorf("TxPipelined: %v", err)
		}
		is(t, seen, true)
		fails(t, wrong, wrongType)
		is(t, c.Get(ctx, "row"), "1")
		is(t, c.CFCount(ctx, "live", "1"), 1)
		// One command that cannot be queued, and nothing is done.
		_, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, "row", "2", 0)
			p.Do(ctx, "NOSUCH")
			return nil
		})
		if err == nil || !strings.HasPrefix(err.Error(), "EXECABORT") {
			t.Errorf("TxPipelined with an unknown command: %v", err)
		}
		is(t, c.Get(ctx, "row"), "1")
	})
}

// A transaction is undone as a whole if it asks for that, whichever connection of the pool it has.
func TestTxPipelined_rollback(t *testing.T) {
	inBoth(t, func(t *testing.T, c *redis.Client) {
		ctx := t.Context()
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Do(ctx, "SIEVE.ONERROR", "ROLLBACK")
			p.BFReserveWithArgs(ctx, "full", &redis.BFReserveOptions{Capacity: 1, Error: 0.01, NonScaling: true})
			p.BFMAdd(ctx, "full", "1", "2")
			p.Set(ctx, "row", "1", 0)
			return nil
		})
		if want := "EXECABORT Transaction discarded because of: ERR non scaling filter is full"; err == nil || err.Error() != want {
			t.Errorf("TxPipelined: %v, want %s", err, want)
		}
		is(t, c.Exists(ctx, "full", "row"), 0)
	})
}

// Goroutines that count by WATCH, GET and SET lose nothing.
func TestWatch(t *testing.T) {
	inBoth(t, func(t *testing.T, c *redis.Client) {
		ctx := t.Context()
		const goroutines, each = 8, 20
		var failed sync.Map
		var group sync.WaitGroup
		for g := range goroutines {
			group.Go(func() {
				for done := 0; done < each; {
					err := c.Watch(ctx, func(tx *redis.Tx) error {
						n, err := tx.Get(ctx, "n").Int()
						if err != nil && !errors.Is(err, redis.Nil) {
							return err
						}
						_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
							p.Set(ctx, "n", n+1, 0)
							p.BFAdd(ctx, "seen", fmt.Sprint(n+1))
							return nil
						})
						return err
					}, "n")
					switch {
					case err == nil:
						done++
					case !errors.Is(err, redis.TxFailedErr):
						failed.Store(g, err)
						return
					}
				}
			})
		}
		group.Wait()
		failed.Range(func(g, err any) bool {
			t.Errorf("goroutine %d: %v", g, err)
			return true
		})
		is(t, c.Get(ctx, "n"), fmt.Sprint(goroutines*each))
		for i := range goroutines * each {
			is(t, c.BFExists(ctx, "seen", fmt.Sprint(i+1)), true)
		}
	})
}

// Many goroutines share a few connections.
func TestPool(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			c := connect(t, serve(t, kv.Options{}, nil), redis.Options{Protocol: protocol, PoolSize: 10})
			ctx := t.Context()
			const goroutines, each = 64, 50
			errs := make([]error, goroutines)
			var group sync.WaitGroup
			for g := range goroutines {
				group.Go(func() {
					for i := range each {
						item := fmt.Sprintf("%d:%d", g, i)
						key := fmt.Sprint("k", g)
						n, err := c.Incr(ctx, key).Result()
						isNew, err2 := c.BFAdd(ctx, "f", item).Result()
						got, err3 := c.Get(ctx, key).Int()
						there, err4 := c.BFExists(ctx, "f", item).Result()
						total, err5 := c.Incr(ctx, "total").Result()
						if errs[g] = errors.Join(err, err2, err3, err4, err5); errs[g] != nil {
							return
						}
						// A new item may seem known; one that was added may not seem new.
						if n != int64(i+1) || got != i+1 || !there || total < n {
							errs[g] = fmt.Errorf("item %s: INCR %d, GET %d, BF.ADD %v, BF.EXISTS %v, total %d", item, n, got, isNew, there, total)
							return
						}
					}
				})
			}
			group.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
			is(t, c.Get(ctx, "total"), fmt.Sprint(goroutines*each))
			if n := c.PoolStats().TotalConns; n > 10 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

func TestConnection(t *testing.T) {
	inBoth(t, func(t *testing.T, c *redis.Client) {
		ctx := t.Context()
		is(t, c.Ping(ctx), "PONG")
		is(t, c.Echo(ctx, "hello"), "hello")
		conn := c.Conn()
		defer func() {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}()
		is(t, conn.ClientSetName(ctx, "ann"), true)
		is(t, conn.ClientGetName(ctx), "ann")
		id := result(t, conn.ClientID(ctx))
		info := result(t, conn.ClientInfo(ctx))
		if info.ID != id || info.Name != "ann" || info.Resp != c.Options().Protocol || info.User != "default" || info.LastCmd != "client|info" ||
			info.LibName == "" || info.LibVer == "" {
			t.Errorf("CLIENT INFO = %+v", info)
		}
		list := result(t, c.ClientList(ctx))
		if !strings.Contains(list, fmt.Sprintf("id=%d ", id)) || !strings.Contains(list, " name=ann ") {
			t.Errorf("CLIENT LIST = %s", list)
		}
		is(t, c.ClientKillByFilter(ctx, "ID", fmt.Sprint(id)), 1)
		is(t, c.ClientKillByFilter(ctx, "ID", fmt.Sprint(id)), 0)
		is(t, c.SlowLogReset(ctx), "OK")
		is(t, c.Wait(ctx, 0, 0), 0)
	})
}

func TestServer(t *testing.T) {
	inBoth(t, func(t *testing.T, c *redis.Client) {
		ctx := t.Context()
		is(t, c.ConfigGet(ctx, "maxclients"), map[string]string{"maxclients": "10000"})
		is(t, c.ConfigSet(ctx, "maxclients", "500"), "OK")
		is(t, c.ConfigGet(ctx, "maxclients"), map[string]string{"maxclients": "500"})
		fails(t, c.ConfigSet(ctx, "maxclients", "none"), "ERR CONFIG SET failed")
		fails(t, c.ConfigSet(ctx, "nosuch", "1"), "ERR Unknown option or number of arguments for CONFIG SET")
		if all := result(t, c.ConfigGet(ctx, "*")); len(all) < 10 || all["databases"] != "1" {
			t.Errorf("CONFIG GET * = %v", all)
		}
		is(t, c.Set(ctx, "k", "v", 0), "OK")
		info := result(t, c.InfoMap(ctx))
		for section, field := range map[string]string{
			"Server": "redis_version", "Clients": "connected_clients", "Memory": "used_memory", "Stats": "total_commands_processed",
			"Persistence": "aof_enabled", "Replication": "role", "Keyspace": "db0",
		} {
			if info[section][field] == "" {
				t.Errorf("INFO has no %s in %s: %v", field, section, info[section])
			}
		}
		commands := result(t, c.Command(ctx))
		if add := commands["bf.add"]; add == nil || add.Arity != 3 || add.FirstKeyPos != 1 || add.ReadOnly {
			t.Errorf("COMMAND has %+v for bf.add", add)
		}
		list := result(t, c.CommandList(ctx, nil))
		for name := range commands {
			if !slices.Contains(list, name) {
				t.Errorf("COMMAND LIST has no %s", name)
			}
		}
		is(t, c.CommandGetKeys(ctx, "MSET", "a", "1", "b", "2"), []string{"a", "b"})
		if result(t, c.MemoryUsage(ctx, "k")) <= 0 {
			t.Error("MEMORY USAGE is nothing")
		}
		if at := result(t, c.Time(ctx)); at.Year() < 2020 {
			t.Errorf("TIME = %v", at)
		}
		is(t, c.ConfigSet(ctx, "slowlog-log-slower-than", "0"), "OK")
		is(t, c.Set(ctx, "slow", "v", 0), "OK")
		log := result(t, c.SlowLogGet(ctx, 1))
		if len(log) != 1 || !slices.Equal(log[0].Args, []string{"set", "slow", "v"}) || log[0].ClientAddr == "" {
			t.Errorf("SLOWLOG GET = %+v", log)
		}
		if result(t, c.SlowLogLen(ctx)) < 2 {
			t.Error("SLOWLOG LEN is less than two")
		}
	})
}

func TestPassword(t *testing.T) {
	address := serve(t, kv.Options{}, &server.Options{Password: "secret"})
	for _, protocol := range []int{2, 3} {
		ctx := t.Context()
		is(t, connect(t, address, redis.Options{Protocol: protocol, Password: "secret", ClientName: "ann"}).Ping(ctx), "PONG")
		is(t, connect(t, address, redis.Options{Protocol: protocol, Username: "default", Password: "secret"}).Ping(ctx), "PONG")
		fails(t, connect(t, address, redis.Options{Protocol: protocol}).Ping(ctx), "NOAUTH")
		fails(t, connect(t, address, redis.Options{Protocol: protocol, Password: "wrong"}).Ping(ctx), "WRONGPASS")
		fails(t, connect(t, address, redis.Options{Protocol: protocol, Username: "bob", Password: "secret"}).Ping(ctx), "WRONGPASS")
	}
}

func TestDatabases(t *testing.T) {
	address := serve(t, kv.Options{}, nil)
	is(t, connect(t, address, redis.Options{DB: 0}).Ping(t.Context()), "PONG")
	fails(t, connect(t, address, redis.Options{DB: 1}).Ping(t.Context()), "ERR DB index is out of range")
}

// A client finds its way to a server that was started again.
func TestReconnect(t *testing.T) {
	db := open(t, kv.Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	stop := serveAt(t, db, l, nil)
	// The address may be another's when the server is started again: the client is then told where it is.
	var at atomic.Value
	at.Store(address)
	c := connect(t, address, redis.Options{MaxRetries: -1, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, at.Load().(string))
	}})
	ctx := context.Background()
	is(t, c.Set(ctx, "k", "v", 0), "OK")
	stop()
	if err := c.Get(ctx, "k").Err(); err == nil {
		t.Error("a server that has ended answers")
	}
	if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	at.Store(l.Addr().String())
	stop = serveAt(t, db, l, nil)
	// The pool may still have the earlier connections.
	for range 20 {
		if err = c.Get(ctx, "k").Err(); err == nil {
			break
		}
	}
	is(t, c.Get(ctx, "k"), "v")
	stop()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
