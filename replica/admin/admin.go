// Package admin is SIEVE.CLUSTER, with which an operator looks at the group that a store is a member of, and changes it.
package admin

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/replica"
)

// Node is what an operator can do with a member of a group: a *replica.Node.
type Node interface {
	Status() *replica.Status
	AddMember(ctx context.Context, name, peer, client string) (replica.Token, error)
	Transfer(ctx context.Context, to uint64) error
	RemoveMember(ctx context.Context, id uint64) error
	ReplaceMember(ctx context.Context, id uint64) (replica.Token, error)
}

// changeTime is how long a change of the group may take before its client hears that it may be made yet.
const changeTime = 10 * time.Second

// Module returns the module with SIEVE.CLUSTER, for a store of a node. The node is asked for when a command runs: it is made after
// the store. Until then it is nil.
func Module(node func() Node) module.Module {
	sub := func(name string, arity int, syntax, summary string, f func(Node, *module.Call) (reply.Reply, error)) module.Command {
		return module.Command{
			Name: name, Arity: arity, Flags: module.Admin | module.ModuleFlag | module.NoMulti, Syntax: syntax, Summary: summary,
			Handler: func(c *module.Call) reply.Reply {
				n := node()
				if n == nil {
					return reply.Error("ERR the store is being opened")
				}
				r, err := f(n, c)
				if err != nil {
					return module.ErrorReply(err)
				}
				return r
			},
		}
	}
	return module.Module{Name: "replica", Commands: []module.Command{{
		Name: "SIEVE.CLUSTER", Arity: -2, Flags: module.Admin | module.ModuleFlag | module.NoMulti, Group: "cluster",
		Summary: "Shows the group that the store is a member of, and changes it.", Complexity: "O(N) for N members",
		Example: "SIEVE.CLUSTER STATUS",
		Subcommands: []module.Command{
			sub("REJOIN", -3, "member [peer-address [client-address]] [YES]", "Puts a new member in the place of one that has found damage, and answers the token with which it "+
				"rejoins. YES is needed if the member is healthy; the addresses are if it was removed already.", rejoin),
			sub("REMOVE", -3, "member [YES]", "Removes a member for good. YES is needed if fewer than three would vote.", remove),
			sub("STATUS", 2, "", "Answers what this member knows of the group.", status),
			sub("TOKEN", -4, "name peer-address [client-address]", "Adds a member, and answers the token with which it joins.", token),
			sub("TRANSFER", -2, "[member]", "Hands the leadership over, to the member that has most of the log if none is named.", transfer),
		},
	}}}
}

func status(n Node, _ *module.Call) (reply.Reply, error) {
	s := n.Status()
	role := "follower"
	if s.Leads {
		role = "leader"
	}
	members := make([]reply.Reply, 0, len(s.Members))
	for _, m := range s.Members {
		members = append(members, reply.Map(
			reply.Field("id", reply.BulkString(strconv.FormatUint(m.ID, 16))),
			reply.Field("name", reply.BulkString(m.Name)),
			reply.Field("peer", reply.BulkString(m.Peer)),
			reply.Field("client", reply.BulkString(m.Client)),
			reply.Field("role", reply.BulkString(roleOf(s, m))),
			reply.Field("healthy", healthy(s, m)),
			reply.Field("log", reply.Int(int64(m.Log))),
			reply.Field("clock-ahead-ms", milliseconds(m.Clock, m.ClockKnown)),
			reply.Field("log-p99-ms", milliseconds(m.LogTime, m.LogTimeKnown)),
		))
	}
	alarm := ""
	if s.Alarm != nil {
		alarm = s.Alarm.Error()
	}
	return reply.Map(
		reply.Field("id", reply.BulkString(strconv.FormatUint(s.Self, 16))),
		reply.Field("role", reply.BulkString(role)),
		reply.Field("term", reply.Int(int64(s.Term))),
		reply.Field("applied", reply.Int(int64(s.Applied))),
		reply.Field("committed", reply.Int(int64(s.Commit))),
		reply.Field("format-level", reply.Int(int64(s.Level))),
		reply.Field("alarm", reply.BulkString(alarm)),
		reply.Field("members", reply.Array(members...)),
	), nil
}

// healthy says which members the leader knows to be healthy. The others know that only of themselves.
func healthy(s *replica.Status, m replica.MemberStatus) reply.Reply {
	switch {
	case !s.Leads && m.ID != s.Self:
		return reply.BulkString("unknown")
	case m.Healthy:
		return reply.BulkString("yes")
	}
	return reply.BulkString("no")
}

// milliseconds is a time that members tell each other.
func milliseconds(d time.Duration, known bool) reply.Reply {
	if !known {
		return reply.BulkString("unknown")
	}
	return reply.Int(d.Milliseconds())
}

func roleOf(s *replica.Status, m replica.MemberStatus) string {
	switch {
	case m.Learner:
		return "learner"
	case m.ID == s.Leader:
		return "leader"
	}
	return "follower"
}

func token(n Node, c *module.Call) (reply.Reply, error) {
	client := ""
	if len(c.Args) > 3 {
		return reply.Errorf("ERR %d arguments of SIEVE.CLUSTER TOKEN, want name peer-address [client-address]", len(c.Args)), nil
	}
	if len(c.Args) > 2 {
		client = string(c.Args[2])
	}
	ctx, cancel := context.WithTimeout(c.Context, changeTime)
	defer cancel()
	t, err := n.AddMember(ctx, string(c.Args[0]), string(c.Args[1]), client)
	return reply.BulkString(t.String()), err
}

func transfer(n Node, c *module.Call) (reply.Reply, error) {
	to := n.Status().MostAdvanced()
	if len(c.Args) > 0 {
		m, err := find(n, string(c.Args[0]))
		if err != nil {
			return reply.Reply{}, err
		}
		to = m.ID
	}
	if to == 0 {
		return reply.Error("ERR there is no other member that could lead"), nil
	}
	ctx, cancel := context.WithTimeout(c.Context, changeTime)
	defer cancel()
	return reply.OK, n.Transfer(ctx, to)
}

func remove(n Node, c *module.Call) (reply.Reply, error) {
	m, err := find(n, string(c.Args[0]))
	if err != nil {
		return reply.Reply{}, err
	}
	voters, err := without(n, m)
	if err != nil {
		return reply.Reply{}, err
	}
	if sure := len(c.Args) == 2 && text.FoldCase(c.Args[1]) == "YES"; !sure && (voters < 3 || len(c.Args) > 1) && !m.Learner {
		return reply.Errorf("ERR %d members would vote then, and a group of fewer than three does not survive the loss of one: add YES if that is meant", voters), nil
	}
	ctx, cancel := context.WithTimeout(c.Context, changeTime)
	defer cancel()
	return reply.OK, n.RemoveMember(ctx, m.ID)
}

// without returns how many members would vote without one, or an error if no majority of them answers.
func without(n Node, m replica.MemberStatus) (voters int, err error) {
	alive := 0
	for _, other := range n.Status().Members {
		if !other.Learner && other.ID != m.ID {
			voters++
			if other.Healthy {
				alive++
			}
		}
	}
	if !m.Learner && alive <= voters/2 {
		err = fmt.Errorf("%d of the %d members that would vote then answer, which is no majority: the group would stop. Remove those that do not answer first", alive, voters)
	}
	return voters, err
}

func rejoin(n Node, c *module.Call) (reply.Reply, error) {
	words, sure := c.Args[1:], false
	if last := len(words) - 1; last >= 0 && text.FoldCase(words[last]) == "YES" {
		words, sure = words[:last], true
	}
	if len(words) > 2 {
		return reply.Errorf("ERR %d arguments of SIEVE.CLUSTER REJOIN, want member [peer-address [client-address]] [YES]", len(c.Args)), nil
	}
	ctx, cancel := context.WithTimeout(c.Context, changeTime)
	defer cancel()
	m, err := find(n, string(c.Args[0]))
	if err != nil && len(words) > 0 { // the rest of a change that was cut
		client := ""
		if len(words) > 1 {
			client = string(words[1])
		}
		t, err := n.AddMember(ctx, string(c.Args[0]), string(words[0]), client)
		return reply.BulkString(t.String()), err
	}
	if err != nil {
		return reply.Reply{}, fmt.Errorf("%w; if it was removed already, add its peer address and its client address", err)
	}
	s := n.Status()
	if !s.Leads {
		return reply.Reply{}, kv.ErrNotLeader
	}
	if m.Healthy && m.ID != s.Self && !sure {
		return reply.Errorf("ERR member '%.128s' is healthy: add YES if it is to be replaced all the same", c.Args[0]), nil
	}
	if _, err := without(n, m); err != nil {
		return reply.Reply{}, err
	}
	t, err := n.ReplaceMember(ctx, m.ID)
	return reply.BulkString(t.String()), err
}

// find finds a member by its name, its peer address or its id.
func find(n Node, word string) (replica.MemberStatus, error) {
	for _, m := range n.Status().Members {
		id := strconv.FormatUint(m.ID, 16)
		if word == m.Name || word == m.Peer || strings.EqualFold(word, id) {
			return m, nil
		}
	}
	if _, _, err := net.SplitHostPort(word); err == nil {
		return replica.MemberStatus{}, fmt.Errorf("no member has the peer address '%.128s'", word)
	}
	return replica.MemberStatus{}, fmt.Errorf("no member has the name or the id '%.128s'", word)
}
