package replica

import "testing"

// A member that is reached and behind holds up the log while it gets a snapshot, but not without bound.
func TestStatus_cutAt(t *testing.T) {
	member := func(id, log uint64, healthy bool) MemberStatus {
		return MemberStatus{Info: Info{ID: id}, Log: log, Healthy: healthy}
	}
	for _, tt := range []struct {
		name                string
		leads               bool
		members             []MemberStatus
		synced, keep, twice uint64
		want                uint64
	}{
		{"all have everything", true, []MemberStatus{member(1, 1000, true), member(2, 990, true)}, 995, 800, 600, 800},
		{"less is synced", true, []MemberStatus{member(1, 1000, true), member(2, 990, true)}, 500, 800, 600, 500},
		{"one gets a snapshot", true, []MemberStatus{member(1, 1000, true), member(2, 0, true)}, 995, 800, 600, 600},
		{"one catches up", true, []MemberStatus{member(1, 1000, true), member(2, 700, true)}, 995, 800, 600, 700},
		{"one is behind, and less is synced", true, []MemberStatus{member(1, 1000, true), member(2, 0, true)}, 500, 800, 600, 500},
		{"one is gone", true, []MemberStatus{member(1, 1000, true), member(2, 0, false)}, 995, 800, 600, 800},
		{"itself", true, []MemberStatus{member(1, 0, true)}, 995, 800, 600, 800},
		{"a follower, which does not know", false, []MemberStatus{member(1, 0, true), member(2, 0, true)}, 995, 800, 600, 800},
	} {
		s := &Status{Self: 1, Leads: tt.leads, Members: tt.members}
		if got := s.cutAt(tt.synced, tt.keep, tt.twice); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
