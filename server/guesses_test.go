package server

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

func TestGuesses_delays(t *testing.T) {
	const ms = time.Millisecond
	var g guesses
	now := time.Unix(1_000_000, 0)
	user := "default"
	given := func(from string, right bool) time.Duration {
		wait, _ := g.given(netip.MustParsePrefix(from), user, right, now, 50*ms, 2*time.Second)
		return wait
	}
	want := []time.Duration{0, 0, 0, 0, 0, 50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 2 * time.Second, 2 * time.Second}
	for i, want := range want {
		if got := given("192.0.2.1/32", false); got != want {
			t.Errorf("password %d takes %v, want %v", i, got, want)
		}
	}
	if got := given("192.0.2.2/32", false); got != 0 {
		t.Errorf("another address waits for %v", got)
	}
	if got := given("192.0.2.1/32", true); got != 2*time.Second {
		t.Errorf("a right one takes %v, which tells that it is right", got)
	}
	if got := given("192.0.2.1/32", true); got != 0 {
		t.Errorf("after a right one it takes %v", got)
	}
	for range 10 {
		given("192.0.2.3/32", false)
	}
	user = "other"
	given("192.0.2.3/32", true)
	if got := given("192.0.2.3/32", false); got == 0 {
		t.Error("a password of one's own ends what was counted for another's")
	}
	given("192.0.2.3/32", true)
	if got := given("192.0.2.3/32", false); got == 0 {
		t.Error("a password of one's own ends what was counted for another's, after a wrong one")
	}
	now = now.Add(forgetGuesses)
	if got := given("192.0.2.3/32", true); got != 0 {
		t.Errorf("after a while it takes %v", got)
	}
}

// There are many addresses; the most recently seen are remembered.
func TestGuesses_bounded(t *testing.T) {
	var g guesses
	now := time.Unix(1_000_000, 0)
	guess := func(i int) (wrong int) {
		from := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
		_, wrong = g.given(from, "default", false, now, time.Second, time.Second)
		return wrong
	}
	for i := range 3 * maxGuesses {
		guess(i + 1)
		guess(0)
	}
	if len(g.byAddress) != maxGuesses || g.recent.Len() != maxGuesses {
		t.Errorf("%d addresses are remembered, %d in order, want %d", len(g.byAddress), g.recent.Len(), maxGuesses)
	}
	if got, want := guess(0), 3*maxGuesses+1; got != want {
		t.Errorf("of one that guesses all the time %d wrong passwords are remembered, want %d", got, want)
	}
}

func TestNetworkOf(t *testing.T) {
	for _, tt := range []struct{ addr, want string }{
		{"192.0.2.1", "192.0.2.1/32"},
		{"::ffff:192.0.2.1", "192.0.2.1/32"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
	} {
		if got := networkOf(&net.TCPAddr{IP: net.ParseIP(tt.addr), Port: 7}).String(); got != tt.want {
			t.Errorf("%s is of %s, want %s", tt.addr, got, tt.want)
		}
	}
	if got := networkOf(&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}); got != networkOf(&net.TCPAddr{IP: net.ParseIP("fe80::2"), Zone: "eth1"}) || !got.IsValid() {
		t.Errorf("one of a link is of %v", got)
	}
	if got := networkOf(&net.UnixAddr{Name: "x", Net: "unix"}); got != (netip.Prefix{}) {
		t.Errorf("a socket is of %v", got)
	}
}
