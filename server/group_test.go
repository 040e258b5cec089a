package server_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/cluster"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/server"
)

// idOf returns the ID of a member by its name, which is one hexadecimal digit.
func idOf(name string) string {
	if name == "" {
		return ""
	}
	return strings.Repeat(name, 40)
}

// fakeGroup is a group whose leader a test chooses. Its members are a, b and c, and the store that is served is b's.
type fakeGroup struct {
	status  atomic.Pointer[cluster.Status]
	applied chan uint64              // has the applied index
	reads   func() (uint64, error)   // answers ReadIndex
	waits   chan int                 // receives what Replicated was asked
	has     func(wanted int) (n int) // answers Replicated
}

// leader makes a member the leader; "" for none. term is 1 if a leads, 2 if b does, and so on.
func (g *fakeGroup) leader(name string) {
	s := &cluster.Status{Shard: idOf("f"), Self: idOf("b"), Leader: idOf(name), LastLeader: idOf(name), Since: time.Now(), LogTime: 20 * time.Millisecond, Term: uint64(strings.Index("0abc", name))}
	if name == "b" {
		s.ClockAhead, s.ClockKnown = -7*time.Millisecond, true
	}
	if before := g.status.Load(); before != nil && name == "" {
		s.LastLeader, s.Term = before.LastLeader, before.Term
	}
	for i, name := range []string{"a", "b", "c"} {
		s.Members = append(s.Members, cluster.Member{
			ID: idOf(name), Name: name, Client: fmt.Sprintf("10.0.0.%d:6380", i+1), Peer: fmt.Sprintf("10.0.0.%d:7380", i+1),
			Healthy: name != "c", Applied: uint64(100 - i),
		})
	}
	s.Alarm, s.LogBytes = name == "a", 1000
	g.status.Store(s)
}

func (g *fakeGroup) Status() *cluster.Status { return g.status.Load() }
func (g *fakeGroup) CommittedIndex() uint64  { return 105 }

func (g *fakeGroup) AppliedIndex() uint64 {
	n := <-g.applied
	g.applied <- n
	return n
}

// apply sets the applied index.
func (g *fakeGroup) apply(index uint64) {
	<-g.applied
	g.applied <- index
}

func (g *fakeGroup) ReadIndex(ctx context.Context) (uint64, error) {
	if g.reads == nil {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return g.reads()
}

func (g *fakeGroup) AwaitApplied(ctx context.Context, index uint64) error {
	for g.AppliedIndex() < index {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

func (g *fakeGroup) Replicated(ctx context.Context, wanted int) int {
	if g.waits != nil {
		g.waits <- wanted
	}
	n := g.has(wanted)
	if n < wanted {
		<-ctx.Done()
	}
	return n
}

// outcomes are commands whose commits end as in a store that loses the lead.
func outcomes() module.Module {
	row := func(name string, flags module.Flags, err error) module.Command {
		return module.Command{
			Name: name, Arity: 2, Flags: flags, FirstKey: 1, LastKey: 1, KeyStep: 1, Group: "generic", Summary: "Fails.", Complexity: "O(1)",
			Example: name + " k", Handler: func(*module.Call) reply.Reply { return module.ErrorReply(fmt.Errorf("commit of k: %w", err)) },
		}
	}
	return module.Module{Name: "outcomes", Commands: []module.Command{
		row("LOSE", module.Write|module.Fast, kv.ErrNotLeader), row("DOUBT", module.Write|module.Fast, kv.ErrOutcomeUnknown),
	}}
}

// serveGroup serves the store of the member b. No leader is known.
func serveGroup(t *testing.T) (*world, *fakeGroup) {
	t.Helper()
	return serveGroupWith(t, impatient())
}

// impatient returns options with which nothing waits for a leader.
func impatient() *server.Options {
	return server.Options{}.WithTimes(long, long, long).WithLeader(0, 0, 0)
}

func serveGroupWith(t *testing.T, o *server.Options) (*world, *fakeGroup) {
	t.Helper()
	g := &fakeGroup{applied: make(chan uint64, 1), has: func(int) int { return 1 }}
	g.applied <- 99
	g.leader("")
	o.Group = g
	return serveStore(t, kv.Options{InMemory: true, Seed: 1, Modules: coreext.With(server.GroupModule(), outcomes())}, o), g
}

const down = "-CLUSTERDOWN The cluster is down"

// Where each command runs: on a leader always here; elsewhere as the table says, for a follower, and while no leader is
// known; and the same after READONLY.
func TestGroup_redirects(t *testing.T) {
	const movedFoo, movedBar, moved0 = "-MOVED 12182 10.0.0.1:6380", "-MOVED 5061 10.0.0.1:6380", "-MOVED 0 10.0.0.1:6380"
	write := func(command, here, moved string) [6]string {
		return [6]string{command, here, moved, down, moved, down}
	}
	read := func(command, here, moved string) [6]string {
		return [6]string{command, here, moved, down, here, here}
	}
	anywhere := func(command, here string) [6]string {
		return [6]string{command, here, here, here, here, here}
	}
	w, g := serveGroup(t)
	c, reads := w.client(), w.client()
	reads.answers("READONLY => +OK")
	for _, test := range [][6]string{
		write("SET foo 1", "+OK", movedFoo), write("DEL foo bar", ":1", movedFoo), write("MSET bar 1 foo 2", "+OK", movedBar),
		write("BF.ADD f{foo}f a", ":1", movedFoo), write("SETBIT {foo}b 1 1", ":0", movedFoo), write("EXPIRE foo 100", ":1", movedFoo),
		write("CF.ADD {bar}c a", ":1", movedBar), write("COPY foo foo2", ":1", movedFoo), write("BITOP NOT {foo}d foo", ":1", movedFoo),
		read("GET foo", `"2"`, movedFoo), read("MGET bar foo", `["1" "2"]`, movedBar), read("EXISTS foo bar", ":2", movedFoo),
		read("BF.EXISTS f{foo}f a", ":1", movedFoo), read("TTL bar", ":-1", movedBar), read("STRLEN foo", ":1", movedFoo),
		read("WATCH foo", "+OK", movedFoo), read("BF.INFO f{foo}f Capacity", "[:100]", movedFoo), read("OBJECT ENCODING foo", `"..."`, movedFoo),
		write("GETDEL foo", `"2"`, movedFoo), write("FLUSHALL", "+OK", moved0), write("FLUSHDB", "+OK", moved0),
		anywhere("DBSIZE", ":0"), anywhere("KEYS *", "[]"), anywhere("SCAN 0", `["0" []]`), anywhere("RANDOMKEY", "$-1"),
		anywhere("PING", "+PONG"), anywhere("ECHO foo", `"foo"`), anywhere("SELECT 0", "+OK"), anywhere("UNWATCH", "+OK"),
		anywhere("CONFIG GET maxclients", "[...]"), anywhere("CONFIG SET maxclients 1000", "+OK"), anywhere("ACL WHOAMI", `"default"`),
		anywhere("CLIENT GETNAME", "$-1"), anywhere("COMMAND GETKEYS GET foo", `["foo"]`), anywhere("INFO server", "..."),
		anywhere("TIME", "[...]"), anywhere("READWRITE foo", "-ERR wrong number of arguments for 'readwrite' command"),
		anywhere("SET foo", "-ERR wrong number of arguments for 'set' command"), anywhere("NOSUCH foo", "-ERR unknown command..."),
		anywhere("ASKING", "+OK"), anywhere("CLUSTER KEYSLOT foo", ":12182"), anywhere("EXEC", "-ERR EXEC without MULTI"),
	} {
		g.leader("a")
		c.answers(test[0] + " => " + test[2])
		g.leader("")
		c.answers(test[0] + " => " + test[3])
		if test[1] != test[5] { // else it runs here, below
			reads.answers(test[0] + " => " + test[5])
			g.leader("a")
			reads.answers(test[0] + " => " + test[4])
		}
		g.leader("b")
		c.answers(test[0] + " => " + test[1])
	}
}

// READONLY reads what is here, with and without a leader, until READWRITE or RESET.
func TestGroup_readOnly(t *testing.T) {
	w, g := serveGroup(t)
	g.leader("b")
	c := w.client()
	c.answers("SET foo 1 => +OK\nBF.ADD f a => :1")
	for _, leader := range []string{"a", ""} {
		g.leader(leader)
		for _, end := range []string{"READWRITE", "RESET"} {
			c.answers("READONLY => +OK\nGET foo => \"1\"\nMGET foo foo => [\"1\" \"1\"]\nCLIENT INFO => ...flags=r ...")
			c.send(pipeline("BF.EXISTS f a", "BF.EXISTS f a", "BF.EXISTS f b", "BF.ADD f b", "GET foo"))
			refused := map[string]string{"a": "-MOVED 8000 10.0.0.1:6380", "": down}[leader]
			if leader == "a" {
				refused = fmt.Sprintf("-MOVED %d 10.0.0.1:6380", cluster.Slot([]byte("f")))
			}
			c.want(":1", ":1", ":0", refused, `"1"`)
			c.send(pipeline("MULTI", "GET foo", "EXEC"))
			c.want("+OK", "+QUEUED", `["1"]`)
			c.do(end)
			refused = map[string]string{"a": "-MOVED 12182 10.0.0.1:6380", "": down}[leader]
			c.answers("GET foo => " + refused)
			if got := c.do("CLIENT INFO"); !strings.Contains(got, "flags=N") {
				t.Errorf("after %s: %s", end, got)
			}
		}
	}
}

// MULTI refuses to queue what would not run here, and EXEC is decided again.
func TestGroup_multi(t *testing.T) {
	w, g := serveGroup(t)
	c := w.client()
	g.leader("a")
	c.answers(`MULTI => +OK
		PING => +QUEUED
		SET foo 1 => -MOVED 12182 10.0.0.1:6380
		EXEC => -EXECABORT Transaction discarded because of previous errors.
		EXEC => -ERR EXEC without MULTI`)
	g.leader("b")
	c.answers("MULTI => +OK\nSET foo 1 => +QUEUED\nSET bar 1 => +QUEUED")
	g.leader("c")
	c.answers("EXEC => -MOVED 12182 10.0.0.3:6380\nDISCARD => -ERR DISCARD without MULTI")
	g.leader("b")
	c.answers("MULTI => +OK\nGET bar => +QUEUED")
	g.leader("")
	c.answers("EXEC => " + down + "\nEXEC => -ERR EXEC without MULTI")
	g.leader("b")
	c.answers("EXISTS foo bar => :0\nMULTI => +OK\nFLUSHALL => +QUEUED")
	g.leader("a")
	c.answers("EXEC => -MOVED 0 10.0.0.1:6380")
	c.answers("MULTI => +OK\nPING => +QUEUED\nDBSIZE => +QUEUED\nEXEC => [+PONG :0]")
	g.leader("b")
	c.answers("READONLY => +OK\nMULTI => +OK\nGET foo => +QUEUED\nSET foo 1 => +QUEUED")
	g.leader("a")
	c.answers("EXEC => -MOVED 12182 10.0.0.1:6380\nMULTI => +OK\nGET foo => +QUEUED")
	g.leader("c")
	c.answers("EXEC => [$-1]")
}

// A commit that finds that the lead is lost is answered as a follower would; an unknown outcome by a word after which no
// client repeats a command.
func TestGroup_lost(t *testing.T) {
	w, g := serveGroup(t)
	c := w.client()
	g.leader("b")
	c.answers("LOSE foo => -MOVED 12182 10.0.0.2:6380") // it leads again
	g.leader("")
	c.answers("LOSE foo => " + down)
	g.leader("a")
	c.answers("LOSE foo => -MOVED 12182 10.0.0.1:6380")
	g.leader("b")
	c.answers("DOUBT foo => -UNKNOWN the outcome of this command is unknown...")
	c.send(pipeline("SET a 1", "LOSE foo", "DOUBT foo", "GET a"))
	c.want("+OK", "-MOVED 12182 10.0.0.2:6380", "-UNKNOWN...", `"1"`)
	unknown := c.do("DOUBT foo")
	for _, word := range []string{"TRYAGAIN", "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "MOVED", "ASK", "NOREPLICAS", "ERR max number"} {
		if strings.HasPrefix(unknown, "-"+word) {
			t.Errorf("%s: clients repeat commands after it", unknown)
		}
	}
	got := c.do("INFO errorstats")
	for _, want := range []string{"errorstat_UNKNOWN:count=3", "errorstat_CLUSTERDOWN:count=1", "errorstat_MOVED:count=3"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s has no %s", got, want)
		}
	}
}

// A user learns nothing of where a command would run that he may not use.
func TestGroup_permissions(t *testing.T) {
	w, g := serveGroup(t)
	g.leader("a")
	w.client().answers("ACL SETUSER reader on nopass ~foo +get +cluster|slots +readonly => +OK")
	c := w.client()
	c.answers(`AUTH reader x => +OK
		GET foo => -MOVED 12182 10.0.0.1:6380
		GET bar => -NOPERM...
		SET foo 1 => -NOPERM...
		CLUSTER SLOTS => [...]
		CLUSTER NODES => -NOPERM...
		SIEVE.READ LINEARIZABLE => -NOPERM...
		READONLY => +OK
		GET foo => $-1`)
	for command, category := range map[string]string{"readonly": "connection", "cluster": "slow", "role": "dangerous", "sieve.read": "fast"} {
		if got := w.client().do("ACL CAT " + category); !strings.Contains(got, `"`+command+`"`) {
			t.Errorf("ACL CAT %s: %s has no %s", category, got, command)
		}
	}
}

func TestGroup_cluster(t *testing.T) {
	w, g := serveGroup(t)
	g.leader("b")
	c := w.client()
	a, b, third := idOf("a"), idOf("b"), idOf("c")
	c.answers(`MSET foo 1 {foo}2 1 bar 1 => +OK
		CLUSTER MYID => "` + b + `"
		CLUSTER MYSHARDID => "` + idOf("f") + `"
		CLUSTER KEYSLOT {user1000}.following => :3443
		CLUSTER COUNTKEYSINSLOT 12182 => :2
		CLUSTER COUNTKEYSINSLOT 0 => :0
		CLUSTER COUNTKEYSINSLOT 16384 => -ERR Invalid slot
		CLUSTER COUNTKEYSINSLOT -1 => -ERR Invalid slot
		CLUSTER COUNTKEYSINSLOT x => -ERR value is not an integer or out of range
		CLUSTER GETKEYSINSLOT 5061 10 => ["bar"]
		CLUSTER GETKEYSINSLOT 12182 0 => []
		CLUSTER GETKEYSINSLOT 12182 -1 => -ERR Invalid slot or number of keys
		CLUSTER GETKEYSINSLOT 12182 x => -ERR value is not an integer or out of range
		CLUSTER SLOTS => [[:0 :16383 ["10.0.0.2" :6380 "` + b + `" []] ["10.0.0.1" :6380 "` + a + `" []]]]
		CLUSTER REPLICAS ` + b + ` => ["` + a + ` 10.0.0.1:6380@7380 slave ` + b + ` 0 0 2 connected" "` + third + `...disconnected"]
		CLUSTER SLAVES ` + a + ` => -ERR The specified node is not a master
		CLUSTER NODES => "` + a + ` 10.0.0.1:6380@7380 slave...myself,master - 0 0 2 connected 0-16383\n...
		CLUSTER INFO => "cluster_state:ok\r\n...
		CLUSTER MEET 1 2 => -ERR unknown subcommand 'MEET'. Try CLUSTER HELP.
		CLUSTER => -ERR wrong number of arguments for 'cluster' command
		ROLE => ["master" :99 [["10.0.0.1" "6380" "100"]]]`)
	if got := c.do("CLUSTER GETKEYSINSLOT 12182 10"); got != `["foo" "{foo}2"]` && got != `["{foo}2" "foo"]` {
		t.Errorf("keys of the slot of foo: %s", got)
	}
	c.do("HELLO 3")
	c.answers(`CLUSTER SHARDS => [{"slots" [:0 :16383] "nodes" [{"id" "` + a + `" "port" :6380 "ip" "10.0.0.1" "endpoint" "10.0.0.1" "role" "replica" "replication-offset" :100 "health" "online"} ...
		CLUSTER INFO => ="txt:cluster_state:ok\r\n...
		CLUSTER SLOTS => [[:0 :16383 ["10.0.0.2" :6380 "` + b + `" {}] ...`)
}

// What HELLO, ROLE and INFO say of a leader, a follower, and a member that knows no leader.
func TestGroup_info(t *testing.T) {
	w, g := serveGroup(t)
	c := w.client()
	for leader, want := range map[string]struct{ role, hello, roles, replication, cluster string }{
		"b": {"leader", `"role" "master"`, `["master"...`,
			`role:master\r\nconnected_slaves:1\r\nslave0:ip=10.0.0.1,port=6380,state=online,offset=100,lag=0\r\nmaster_repl_offset:99`,
			`cluster_leader_id:` + idOf("b") + `\r\ncluster_term:2`},
		"a": {"follower", `"role" "replica"`, `["slave" "10.0.0.1" :6380 "connected" :99]`,
			`role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6380\r\nmaster_link_status:up\r\nslave_repl_offset:99`,
			`cluster_leader_id:` + idOf("a") + `\r\ncluster_term:1`},
		"": {"follower", `"role" "replica"`, `["slave" "" :0 "connect" :99]`,
			`role:slave\r\nmaster_host:\r\nmaster_port:0\r\nmaster_link_status:down\r\nslave_repl_offset:99`, `cluster_leader_id:\r\ncluster_term:`},
	} {
		g.leader(leader)
		c.answers("HELLO => ..." + `"mode" "cluster" ` + want.hello + "...\nROLE => " + want.roles + "\nINFO replication => ..." + want.replication +
			"...\nINFO server => ...redis_mode:cluster...\n" +
			`INFO cluster => ...cluster_enabled:1\r\ncluster_role:` + want.role + `\r\ncluster_node_id:` + idOf("b") + `\r\n` + want.cluster +
			`...\r\ncluster_members:3\r\ncluster_voters:3\r\ncluster_healthy_members:2\r\ncluster_applied_index:99\r\ncluster_committed_index:105\r\ncluster_lag:6\r\ncluster_log_p99_ms:20\r\n...`)
	}
	g.leader("b")
	c.answers(`INFO cluster => ...\r\ncluster_clock_ahead_ms:-7\r\n...`)
}

// The metrics of a group show the present.
func TestGroup_metrics(t *testing.T) {
	w, g := serveGroup(t)
	handler := w.server.MetricsHandler(nil)
	for _, tt := range []struct{ leader, want string }{
		{"b", `leader_known 1 leads 1 term 2 alarm 0 clock_ahead_seconds -0.007 member_lag{member="` + idOf("a") + `",name="a"} 5 member_lag{member="` + idOf("c") + `",name="c"} 7`},
		{"a", "leader_known 1 leads 0 term 1 alarm 1"},
		{"", "leader_known 0 leads 0 term 1 alarm 0"},
	} {
		g.leader(tt.leader)
		ready := "ok\n"
		if tt.leader == "" {
			ready = "ok, but no leader of the group is known: nobody takes writes\n"
		}
		r := httptest.NewRecorder()
		if handler.ServeHTTP(r, httptest.NewRequest("GET", "http://localhost/readyz", nil)); r.Code != 200 || r.Body.String() != ready {
			t.Errorf("with the leader %q /readyz answers %d %q, want %q", tt.leader, r.Code, r.Body.String(), ready)
		}
		r = httptest.NewRecorder()
		handler.ServeHTTP(r, httptest.NewRequest("GET", "http://localhost/metrics", nil))
		got := make(map[string]bool)
		for line := range strings.Lines(r.Body.String()) {
			if metric, is := strings.CutPrefix(line, "sievekv_cluster_"); is {
				got[strings.TrimSpace(metric)] = true
			}
		}
		want := regexp.MustCompile(`\S+ \S+`).FindAllString(
			"applied_index 99 healthy_members 2 lag 6 members 3 log_bytes 1000 log_p99_seconds 0.02 "+tt.want, -1)
		for _, metric := range want {
			if !got[metric] {
				t.Errorf("with the leader %q there is no %s", tt.leader, metric)
			}
		}
		if len(got) != len(want) {
			t.Errorf("with the leader %q: %v", tt.leader, got)
		}
	}
}

// A store that is alone has none of the commands, unless it has the module for them; then it answers what Redis answers.
func TestGroup_alone(t *testing.T) {
	c := serve(t, nil).client()
	for _, command := range []string{"CLUSTER SLOTS", "CLUSTER KEYSLOT foo", "READONLY", "READWRITE", "ASKING", "ROLE", "SIEVE.READ LINEARIZABLE"} {
		c.answers(command + " => -ERR unknown command '" + strings.Fields(command)[0] + "'...")
	}
	c.answers(`INFO cluster => ...cluster_enabled:0\r\n"
		INFO replication => ...role:master\r\nconnected_slaves:0\r\n"
		INFO server => ...redis_mode:standalone...
		HELLO => ..."mode" "standalone" "role" "master"...
		WAIT 1 0 => :0`)
	with := serveStore(t, kv.Options{InMemory: true, Seed: 1, Modules: coreext.With(server.GroupModule())}, nil).client()
	for _, command := range []string{"CLUSTER SLOTS", "CLUSTER KEYSLOT foo", "READONLY", "READWRITE", "ASKING", "ROLE", "SIEVE.READ LINEARIZABLE"} {
		with.answers(command + " => -ERR This instance has cluster support disabled")
	}
	with.answers("SET foo 1 => +OK")

	db, err := sievekv.Open("store", &kv.Options{InMemory: true, Modules: coreext.With(server.Module())})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := server.New(db.Store(), &server.Options{Group: &fakeGroup{}}); err == nil || !strings.Contains(err.Error(), "server.GroupModule()") {
		t.Errorf("a server of a group without its module: %v", err)
	}
}
