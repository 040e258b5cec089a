package serve

import (
	"strings"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/cuckooext"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// Settings may have the names that arguments of RedisBloom's module once had, in any case.
func TestFlags_oldNames(t *testing.T) {
	modules := coreext.With(bloomext.Module(), cuckooext.Module())
	db, err := kv.Open("", &kv.Options{InMemory: true, Modules: modules})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	f := &Flags{settings: []string{"ERROR_RATE=0.2", "initial_size=500", "CF_MAX_EXPANSIONS=7", "cf-bucket-size=4"}}
	if err := f.checkSettings(modules); err != nil {
		t.Fatal(err)
	}
	if err := f.Set(db); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"bf-error-rate": "0.2", "bf-initial-size": "500", "cf-max-expansions": "7", "cf-bucket-size": "4"} {
		if got := module.Of(db).Setting(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// What cannot be an address is told before anything is done: with the flag, the value, and what is allowed.
func TestFlags_addresses(t *testing.T) {
	const form = ": must be HOST:PORT, such as 127.0.0.1:6380, with a port of 0 to 65535"
	for _, address := range []string{"x", "127.0.0.1", "127.0.0.1:65536", "127.0.0.1:-1", "localhost:nosuchservice", "::1:6380", ":", "a:b:c"} {
		for flag, f := range map[string]*Flags{"--addr": {addr: address}, "--metrics-addr": {addr: "127.0.0.1:0", metricsAddr: address}, "--ui-addr": {addr: "127.0.0.1:0", uiAddr: address}} {
			err := f.check()
			if want := "serve: " + flag + " " + address + form; err == nil || err.Error() != want || exit.Code(err) != exit.Usage {
				t.Errorf("%s %s: %v", flag, address, err)
			}
		}
	}
	for _, address := range []string{"127.0.0.1:0", ":65535", "[::1]:6380", "localhost:6380"} {
		if err := (&Flags{addr: address, metricsAddr: address}).check(); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The dashboard is for this machine alone, unless there are TLS and a password.
func TestFlags_ui(t *testing.T) {
	pair := func(f *Flags) *Flags {
		f.uiTLS.flag, f.uiTLS.address, f.uiTLS.cert, f.uiTLS.key = "ui-tls", "ui-addr", "c", "k"
		return f
	}
	const clear, open = " is not of this machine alone, and passwords would be sent in the clear: give --ui-tls-cert and --ui-tls-key", " is not of this machine alone, and there is no password: give --requirepass-file or --acl-file"
	const addr = "127.0.0.1:0"
	for _, tt := range []struct {
		f    *Flags
		want string // the beginning of the error, "" for none
	}{
		{&Flags{addr: addr, uiAddr: "127.0.0.1:1"}, ""},
		{&Flags{addr: addr, uiAddr: "localhost:1", uiHosts: []string{"x"}}, ""},
		{&Flags{addr: addr, uiAddr: "[::1]:1"}, ""},
		{&Flags{addr: addr, uiAddr: ":1"}, "serve: --ui-addr :1" + clear},
		{&Flags{addr: addr, uiAddr: "0.0.0.0:1", passwordFile: "f"}, "serve: --ui-addr 0.0.0.0:1" + clear},
		{&Flags{addr: addr, uiAddr: "db.example:1", aclFile: "f"}, "serve: --ui-addr db.example:1" + clear},
		{pair(&Flags{addr: addr, uiAddr: "10.0.0.1:1"}), "serve: --ui-addr 10.0.0.1:1" + open},
		{pair(&Flags{addr: addr, uiAddr: "10.0.0.1:1", passwordFile: "f"}), ""},
		{pair(&Flags{addr: addr, uiAddr: "10.0.0.1:1", aclFile: "f"}), ""},
		{pair(&Flags{addr: addr}), "serve: --ui-tls-cert is for --ui-addr, which is not given"},
		{&Flags{addr: addr, uiHosts: []string{"x"}}, "serve: --ui-host is for --ui-addr, which is not given"},
	} {
		err := tt.f.check()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want) || exit.Code(err) != exit.Usage) {
			t.Errorf("%+q: %v, want %q", tt.f.uiAddr, err, tt.want)
		}
	}
}

// The flags of a group that do not go together, with the flag that does not.
func TestFlags_cluster(t *testing.T) {
	const addr = "10.0.0.1:6380"
	for _, tt := range []struct {
		name string
		f    *Flags
		want string
	}{
		{"alone", &Flags{addr: addr}, ""},
		{"start", &Flags{addr: addr, cluster: ClusterFlags{word: "start", peerTLS: "d"}}, ""},
		{"init", &Flags{addr: addr, cluster: ClusterFlags{word: "init", node: "a", peerAddr: "10.0.0.1:7380", adopt: true}}, ""},
		{"join", &Flags{addr: addr, cluster: ClusterFlags{word: "join", tokenFile: "f"}}, ""},
		{"any address", &Flags{addr: ":6380", cluster: ClusterFlags{word: "init", peerAddr: "10.0.0.1:7380", clientAddr: addr}}, ""},
		{"no such word", &Flags{addr: addr, cluster: ClusterFlags{word: "enter"}}, "serve: --cluster enter: must be init, join, rejoin or start"},
		{"a name without init", &Flags{addr: addr, cluster: ClusterFlags{word: "start", node: "a"}}, "serve: --node is for --cluster init"},
		{"adopt alone", &Flags{addr: addr, cluster: ClusterFlags{adopt: true}}, "serve: --adopt is for --cluster init"},
		{"init without a peer address", &Flags{addr: addr, cluster: ClusterFlags{word: "init"}}, "serve: --cluster init needs --peer-addr HOST:PORT, where other members reach this one"},
		{"init for clients of any address", &Flags{addr: ":6380", cluster: ClusterFlags{word: "init", peerAddr: "10.0.0.1:7380"}}, "serve: --cluster init needs --client-addr HOST:PORT, where clients reach this member: --addr :6380 does not tell"},
		{"join without a token", &Flags{addr: addr, cluster: ClusterFlags{word: "join"}}, "serve: --cluster join or rejoin, and --token-file: one needs the other"},
		{"a token without join", &Flags{addr: addr, cluster: ClusterFlags{word: "start", tokenFile: "f"}}, "serve: --cluster join or rejoin, and --token-file: one needs the other"},
		{"TLS of peers alone", &Flags{addr: addr, cluster: ClusterFlags{peerTLS: "d"}}, "serve: --peer-tls is for --cluster, which is not given"},
	} {
		err := tt.f.check()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want || exit.Code(err) != exit.Usage) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
