package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cliflags"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
	"github.com/sievekv/sievekv/internal/member"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/replica"
)

// ClusterFlags are the flags of a store that is a member of a group.
type ClusterFlags struct {
	word       string
	node       string
	peerAddr   string
	peerListen string
	peerTLS    string // a directory
	clientAddr string
	tokenFile  string
	logKeep    cliflags.Bytes
	compare    time.Duration
	adopt      bool
}

// The words of --cluster.
const (
	clusterInit   = "init"
	clusterJoin   = "join"
	clusterRejoin = "rejoin"
	clusterStart  = "start"
)

// The files of --peer-tls.
const (
	peerCert = "cert.pem"
	peerKey  = "key.pem"
	peerCA   = "ca.pem"
)

func (f *ClusterFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.word, "cluster", "", "`HOW` the store is a member of a group: init makes a group, join makes a member of one, rejoin makes one in the place of an earlier one, start goes on with a member")
	flags.StringVar(&f.node, "node", "", "`NAME` of the member, for init")
	flags.StringVar(&f.peerAddr, "peer-addr", "", "`HOST:PORT` where other members reach this one, for init; join and rejoin have it from the token")
	flags.StringVar(&f.peerListen, "peer-listen", "", "`HOST:PORT` to listen on for other members, if they reach it by another address (default that address)")
	cliflags.FileVar(flags, &f.peerTLS, "peer-tls", "`DIR` with "+peerCert+", "+peerKey+" and "+peerCA+", for TLS between the members; without it all are on this machine")
	flags.StringVar(&f.clientAddr, "client-addr", "", "`HOST:PORT` where clients reach this member, for init (default that of --addr)")
	cliflags.FileVar(flags, &f.tokenFile, "token-file", "`FILE` with the token of kvshell cluster token or rejoin, for join and rejoin")
	flags.Var(&f.logKeep, "log-keep", "how much of the log is kept for members that are behind (default 256MiB)")
	flags.DurationVar(&f.compare, "compare-every", replica.DefaultCompareEvery, "how often the leader has the members compare 1/256 of what they have; 0 for never")
	flags.BoolVar(&f.adopt, "adopt", false, "with init: a store that exists becomes the first member's")
}

// Member reports whether the store is a member of a group.
func (f *Flags) Member() bool { return f.cluster.word != "" }

// check returns an error for flags that do not go together.
func (f *ClusterFlags) check(addr string) error {
	given := map[string]bool{"node": f.node != "", "peer-addr": f.peerAddr != "", "client-addr": f.clientAddr != "", "adopt": f.adopt}
	switch f.word {
	case "", clusterJoin, clusterRejoin, clusterStart:
		for _, name := range []string{"node", "peer-addr", "client-addr", "adopt"} {
			if given[name] {
				return exit.Usagef("serve: --%s is for --cluster init", name)
			}
		}
	case clusterInit:
		if f.peerAddr == "" {
			return exit.Usagef("serve: --cluster init needs --peer-addr HOST:PORT, where other members reach this one")
		}
		if host, _, err := net.SplitHostPort(addr); f.clientAddr == "" && (err != nil || host == "" || net.ParseIP(host).IsUnspecified()) {
			return exit.Usagef("serve: --cluster init needs --client-addr HOST:PORT, where clients reach this member: --addr %s does not tell", addr)
		}
	default:
		return exit.Usagef("serve: --cluster %s: must be init, join, rejoin or start", f.word)
	}
	if join := f.word == clusterJoin || f.word == clusterRejoin; join != (f.tokenFile != "") {
		return exit.Usagef("serve: --cluster join or rejoin, and --token-file: one needs the other")
	}
	if f.compare < 0 {
		return exit.Usagef("serve: --compare-every %v: must be 0 or more", f.compare)
	}
	if f.word == "" && f.peerTLS != "" {
		return exit.Usagef("serve: --peer-tls is for --cluster, which is not given")
	}
	if f.word == "" && f.peerListen != "" {
		return exit.Usagef("serve: --peer-listen is for --cluster, which is not given")
	}
	return cmp.Or(checkAddress("peer-listen", f.peerListen), checkAddress("peer-addr", f.peerAddr), checkAddress("client-addr", f.clientAddr))
}

// OpenMember opens the store of a directory as a member of a group.
func (f *Flags) OpenMember(ctx context.Context, dir string, store *kv.Options, log *slog.Logger) (n *replica.Node, err error) {
	c := &f.cluster
	o := replica.Options{Name: c.node, Peer: c.peerAddr, Client: c.clientAddr, Store: store, LogKeep: uint64(c.logKeep), Logger: log}
	if o.CompareEvery = c.compare; o.CompareEvery == 0 {
		o.CompareEvery = -1
	}
	if o.Client == "" {
		o.Client = f.addr
	}
	if c.peerTLS != "" {
		if o.TLS, err = c.readTLS(ctx); err != nil {
			return nil, err
		}
	}
	if c.peerListen != "" {
		if o.Listener, err = net.Listen("tcp", c.peerListen); err != nil {
			return nil, exit.WithCode(exit.Local, fmt.Errorf("serve: --peer-listen: %w", err))
		}
	}
	switch c.word {
	case clusterInit:
		n, err = replica.Init(dir, o, c.adopt)
	case clusterJoin:
		n, err = c.join(ctx, dir, o, replica.Join)
	case clusterRejoin:
		n, err = c.join(ctx, dir, o, replica.Rejoin)
	default:
		n, err = replica.Open(dir, o)
	}
	switch {
	case errors.Is(err, replica.ErrNoMember):
		return nil, exit.WithCode(exit.Local, fmt.Errorf("serve: %w: make one with --cluster init or join", err))
	case errors.Is(err, replica.ErrMember):
		return nil, exit.WithCode(exit.Local, fmt.Errorf("serve: %w: go on with --cluster start", err))
	case errors.Is(err, member.ErrRefused):
		return nil, exit.WithCode(exit.Local, fmt.Errorf("serve: --cluster %s: %w; kvshell cluster rejoin has another member take its place", c.word, err))
	case err != nil:
		return nil, exit.WithCode(exit.Local, fmt.Errorf("serve: --cluster %s: %w", c.word, err))
	}
	return n, nil
}

func (f *ClusterFlags) join(ctx context.Context, dir string, o replica.Options, how func(string, replica.Options, replica.Token) (*replica.Node, error)) (*replica.Node, error) {
	text, err := system.ReadFile(ctx, f.tokenFile, 1<<16)
	if err != nil {
		return nil, err
	}
	t, err := replica.ParseToken(string(text.Data))
	if err != nil {
		return nil, fmt.Errorf("--token-file %s: %w", f.tokenFile, err)
	}
	return how(dir, o, t)
}

// readTLS reads the files of --peer-tls. Each member has a certificate that the group's CA has signed, and takes no others.
func (f *ClusterFlags) readTLS(ctx context.Context) (*tls.Config, error) {
	read := func(name string) ([]byte, error) {
		path := filepath.Join(f.peerTLS, name)
		data, err := system.ReadFile(ctx, path, 1<<20)
		if err != nil {
			return nil, exit.WithCode(exit.Local, fmt.Errorf("serve: --peer-tls: %w", err))
		}
		return data.Data, nil
	}
	cert, err := read(peerCert)
	if err != nil {
		return nil, err
	}
	key, err := read(peerKey)
	if err != nil {
		return nil, err
	}
	ca, err := read(peerCA)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, exit.WithCode(exit.Local, fmt.Errorf("serve: --peer-tls %s: %s and %s: %w", f.peerTLS, peerCert, peerKey, err))
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, exit.WithCode(exit.Local, fmt.Errorf("serve: --peer-tls %s: %s has no certificate in PEM", f.peerTLS, peerCA))
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, ClientCAs: roots}, nil
}

// InGroup tells the server of the group that its store is a member of.
func (s *Service) InGroup(n *replica.Node) { s.options.Group = n.Group() }
