package admin_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/replica"
	"github.com/sievekv/sievekv/replica/admin"
)

// node is a member that makes no change, and says which was asked for.
type node struct {
	status replica.Status
}

var errAsked = errors.New("asked")

func (n *node) Status() *replica.Status { return &n.status }

func (n *node) AddMember(_ context.Context, name, peer, client string) (replica.Token, error) {
	return replica.Token{}, errors.Join(errAsked, errors.New("to add "+name+" "+peer+" "+client))
}

func (n *node) Transfer(_ context.Context, to uint64) error { return n.asked("to transfer to", to) }

func (n *node) RemoveMember(_ context.Context, id uint64) error { return n.asked("to remove", id) }

func (n *node) ReplaceMember(_ context.Context, id uint64) (replica.Token, error) {
	return replica.Token{}, n.asked("to replace", id)
}

func (n *node) asked(what string, id uint64) error {
	for _, m := range n.status.Members {
		if m.ID == id {
			what += " " + m.Name
		}
	}
	return errors.New("asked " + what)
}

// What would stop a group, or make it survive less, is refused, or needs a word more.
func TestRefuses(t *testing.T) {
	n := &node{replica.Status{Self: 1, Leader: 1, Leads: true}}
	db, err := kv.Open("", &kv.Options{InMemory: true, Modules: module.New(admin.Module(func() admin.Node { return n }))})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	user := module.NewSession(db)
	for _, tt := range []struct {
		members string // names of voters; of those that are lost in capitals; of learners with a dot
		command string
		want    string
	}{
		{"a b c d", "REMOVE d", "asked to remove d"},
		{"a b c", "REMOVE c", "2 members would vote then, and a group of fewer than three does not survive the loss of one: add YES if that is meant"},
		{"a b c", "REMOVE c YES", "asked to remove c"},
		{"a b c .l", "REMOVE .l", "asked to remove .l"},
		{"a B C", "REMOVE C YES", "1 of the 2 members that would vote then answer, which is no majority: the group would stop. Remove those that do not answer first"},
		{"a b C", "REMOVE C YES", "asked to remove C"},
		{"a b C", "REMOVE b YES", "1 of the 2 members that would vote then answer"},
		{"a b C", "REJOIN b YES", "1 of the 2 members that would vote then answer"},
		{"a b c", "REJOIN b", "member 'b' is healthy: add YES if it is to be replaced all the same"},
		{"a b c", "REJOIN b YES", "asked to replace b"},
		{"a b C", "REJOIN C", "asked to replace C"},
		{"a b c", "REJOIN x", "no member has the name or the id 'x'; if it was removed already, add its peer address and its client address"},
		{"a b c", "REJOIN x 10.0.0.9:7380 10.0.0.9:6380", "to add x 10.0.0.9:7380 10.0.0.9:6380"},
		{"a", "TRANSFER", "there is no other member that could lead"},
		{"a .l", "TRANSFER", "there is no other member that could lead"},
		{"a b", "TRANSFER", "asked to transfer to b"},
		{"a b", "TRANSFER x", "no member has the name or the id 'x'"},
	} {
		n.status.Members = nil
		for i, name := range strings.Fields(tt.members) {
			n.status.Members = append(n.status.Members, replica.MemberStatus{
				Info: replica.Info{ID: uint64(i + 1), Name: name}, Learner: name[0] == '.', Healthy: name == strings.ToLower(name),
			})
		}
		got := string(reply.AppendJSON(nil, user.Do(t.Context(), bytes.Fields([]byte("SIEVE.CLUSTER "+tt.command)))))
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s of %s: %s, want %s", tt.command, tt.members, got, tt.want)
		}
	}
}
