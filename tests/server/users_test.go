package server_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/server"
)

// Clients log in as users, do what those may, and are told what they may not.
func TestUsers(t *testing.T) {
	const (
		noCommand = "NOPERM User reader has no permissions to run the '%s' command"
		noKey     = "NOPERM No permissions to access a key"
		wrongPass = "WRONGPASS invalid username-password pair or user is disabled."
	)
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			address := serve(t, kv.Options{}, &server.Options{Password: "secret"})
			ctx := t.Context()
			as := func(user, password string) *redis.Client {
				return connect(t, address, redis.Options{Protocol: protocol, Username: user, Password: password, MaxRetries: -1})
			}
			admin := as("", "secret") // the default user
			is(t, admin.ACLWhoAmI(ctx), "default")
			is(t, admin.ACLSetUser(ctx, "reader", "on", ">r", "~user:*", "+@read", "+@transaction"), "OK")
			is(t, admin.ACLSetUser(ctx, "adder", "on", ">a", "%W~user:*", "~seen", "+bf.add", "+set", "+acl|whoami"), "OK")
			is(t, admin.ACLUsers(ctx), []string{"adder", "default", "reader"})
			is(t, admin.Set(ctx, "user:1", "ann", 0), "OK")
			is(t, admin.BFAdd(ctx, "user:seen", "x"), true)
			is(t, admin.ACLLogReset(ctx), "OK")

			reader := as("reader", "r")
			is(t, reader.Get(ctx, "user:1"), "ann")
			is(t, reader.BFExists(ctx, "user:seen", "x"), true)
			fails(t, reader.Get(ctx, "other"), noKey)
			fails(t, reader.MGet(ctx, "user:1", "other"), noKey)
			for _, cmd := range []redis.Cmder{
				reader.Set(ctx, "user:1", "bob", 0), reader.Del(ctx, "user:1"), reader.FlushAll(ctx), reader.ConfigSet(ctx, "maxclients", "1"),
				reader.ShutdownNoSave(ctx), reader.BFAdd(ctx, "user:seen", "y"), reader.Do(ctx, "SIEVE.COMPACT"), reader.ACLWhoAmI(ctx), reader.Ping(ctx),
			} {
				name := strings.ToLower(cmd.FullName())
				if name == "acl" || name == "config" {
					name += "|" + fmt.Sprint(cmd.Args()[1])
				}
				fails(t, cmd, fmt.Sprintf(noCommand, name))
			}
			_, err := reader.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Get(ctx, "user:1")
				p.Set(ctx, "user:1", "bob", 0)
				return nil
			})
			if err == nil || !strings.HasPrefix(err.Error(), "EXECABORT") {
				t.Errorf("a transaction with a command that may not be: %v", err)
			}
			err = reader.Watch(ctx, func(tx *redis.Tx) error {
				_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Get(ctx, "user:1"); return nil })
				return err
			}, "user:1")
			if err != nil {
				t.Errorf("a transaction of reads: %v", err)
			}
			is(t, admin.Get(ctx, "user:1"), "ann")

			adder := as("adder", "a")
			is(t, adder.ACLWhoAmI(ctx), "adder")
			is(t, adder.BFAdd(ctx, "seen", "x"), true)
			is(t, adder.Set(ctx, "user:2", "bob", 0), "OK")
			fails(t, adder.SetArgs(ctx, "user:2", "carl", redis.SetArgs{Get: true}), noKey) // it reads

			fails(t, as("adder", "r").Get(ctx, "user:1"), wrongPass)
			fails(t, as("", "").Get(ctx, "user:1"), "NOAUTH Authentication required.")

			// One connection may be several users, one after the other.
			conn := admin.Conn()
			defer func() {
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			}()
			is(t, conn.AuthACL(ctx, "adder", "a"), "OK")
			is(t, conn.ACLWhoAmI(ctx), "adder")
			fails(t, conn.AuthACL(ctx, "reader", "a"), wrongPass)
			is(t, conn.ACLWhoAmI(ctx), "adder")
			is(t, conn.Auth(ctx, "secret"), "OK")
			is(t, conn.ACLWhoAmI(ctx), "default")

			is(t, admin.ACLDryRun(ctx, "reader", "GET", "user:1"), "OK")
			is(t, admin.ACLDryRun(ctx, "reader", "GET", "other"), "User reader has no permissions to access the 'other' key")
			if got := result(t, admin.ACLGenPass(ctx, 64)); len(got) != 16 {
				t.Errorf("a password of 64 bits is %q", got)
			}
			if got := result(t, admin.ACLCatArgs(ctx, &redis.ACLCatArgs{Category: "bloom"})); !slices.Contains(got, "bf.add") || slices.Contains(got, "get") {
				t.Errorf("ACL CAT bloom = %q", got)
			}
			log := result(t, admin.ACLLog(ctx, 100))
			for _, want := range []redis.ACLLogEntry{
				{Reason: "command", Context: "toplevel", Object: "set", Username: "reader"},
				{Reason: "command", Context: "multi", Object: "set", Username: "reader"},
				{Reason: "key", Context: "toplevel", Object: "other", Username: "reader"},
				{Reason: "key", Context: "toplevel", Object: "user:2", Username: "adder"},
				{Reason: "auth", Context: "toplevel", Object: "AUTH", Username: "adder"},
			} {
				if !slices.ContainsFunc(log, func(e *redis.ACLLogEntry) bool {
					return e.Reason == want.Reason && e.Context == want.Context && e.Object == want.Object && e.Username == want.Username
				}) {
					t.Errorf("ACL LOG has no %+v", want)
				}
			}

			is(t, admin.ACLDelUser(ctx, "reader"), 1)
			if err := reader.Get(ctx, "user:1").Err(); err == nil || errors.Is(err, redis.Nil) {
				t.Errorf("a user that was removed is answered: %v", err)
			}
			// The answers to more of them would be delayed.
			fails(t, as("reader", "r").Get(ctx, "user:1"), wrongPass)
		})
	}
}
