package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cliflags"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/text"
)

// passwordVariable is the variable with the password, if no flag gives one. redis-cli has the same.
const passwordVariable = "REDISCLI_AUTH"

const (
	defaultHost = "127.0.0.1"
	defaultPort = 6379

	uriForm = "redis://[[user:]password@]host[:port][/database]"
)

// Flags are the flags for a server. They have the names that redis-cli gives them.
type Flags struct {
	host     string
	port     port
	socket   string
	uri      string
	user     string
	password string
	passFile string
	database uint

	tls      bool
	cacert   string
	cert     string
	key      string
	insecure bool

	resp2, resp3 bool
	NoWarning    bool
	timeout      cliflags.Seconds
	silence      cliflags.Seconds

	set *pflag.FlagSet // the flags, to tell which are given
}

// hostFlag is the long name of -h.
const hostFlag = "host"

// ReplyTimeoutFlag is the name of the flag for how long a server may say nothing while a reply is missing.
const ReplyTimeoutFlag = "reply-timeout"

// Register adds the flags as hidden ones, and returns their usages for the one help that lists them.
func (f *Flags) Register(flags *pflag.FlagSet) (usages string) {
	f.port, f.timeout = defaultPort, cliflags.Seconds(5*time.Second)
	set := pflag.NewFlagSet("server", pflag.ContinueOnError)
	set.SortFlags = false
	set.StringVarP(&f.host, hostFlag, "h", defaultHost, "`HOST` of the server")
	set.VarP(&f.port, "port", "p", "`PORT` of the server")
	set.StringVarP(&f.socket, "socket", "s", "", "Unix `SOCKET` of the server, in place of a host and a port")
	set.StringVarP(&f.password, "pass", "a", "", "`PASSWORD` to send; safer in $"+passwordVariable)
	cliflags.FileVar(set, &f.passFile, "pass-file", "`FILE` whose first line is the password to send")
	set.StringVar(&f.user, "user", "", "`NAME` to send with the password")
	set.StringVarP(&f.uri, "uri", "u", "", "`URI` of the server: "+uriForm+", rediss:// for TLS, or unix://path")
	set.UintVarP(&f.database, "database", "n", 0, "`NUMBER` of the database, of a server that has several")
	set.BoolVar(&f.tls, "tls", false, "encrypt the connection")
	set.StringVar(&f.cacert, "cacert", "", "`FILE` with the certificates to trust, in place of the system's")
	set.StringVar(&f.cert, "cert", "", "`FILE` with the certificate to show to the server")
	set.StringVar(&f.key, "key", "", "`FILE` with the key of that certificate")
	set.BoolVar(&f.insecure, "insecure", false, "trust any certificate: others can listen in")
	set.BoolVarP(&f.resp2, "resp2", "2", false, "speak RESP2 (default but for --json)")
	set.BoolVarP(&f.resp3, "resp3", "3", false, "speak RESP3")
	set.BoolVar(&f.NoWarning, "no-auth-warning", false, "do not warn of a password on the command line")
	set.VarP(&f.timeout, "timeout", "t", "give up connecting after `SECONDS`, 0 for never")
	set.Var(&f.silence, ReplyTimeoutFlag, "give up when the server says nothing for `SECONDS` though a reply is missing, 0 for never")
	usages = set.FlagUsages()
	set.VisitAll(func(flag *pflag.Flag) { flag.Hidden = true })
	flags.AddFlagSet(set)
	f.set = set
	return usages
}

// IsGiven reports whether the flags ask for a server. As with redis-cli, any of them does.
func (f *Flags) IsGiven() (given bool) {
	f.set.VisitAll(func(flag *pflag.Flag) { given = given || flag.Changed })
	return given
}

// Given returns the first of the flags given, as it was typed, without values that may be secret.
func (f *Flags) Given() (text string) {
	f.set.VisitAll(func(flag *pflag.Flag) {
		switch {
		case text != "" || !flag.Changed:
		case flag.Shorthand == "":
			text = "--" + flag.Name
		case flag.Name == hostFlag, flag.Name == "port", flag.Name == "socket":
			text = "-" + flag.Shorthand + " " + flag.Value.String()
		default:
			text = "-" + flag.Shorthand
		}
	})
	return text
}

// Address is a server, and how to speak to it.
type Address struct {
	network  string // tcp or unix
	Endpoint string // host:port, or the path of a socket
	user     string
	password string
	database uint
	tls      *tls.Config // nil for a connection in the clear
	protocol int         // 2 or 3 if the user insists, otherwise 0
	timeout  time.Duration
	silence  time.Duration // how long the server may say nothing while a reply is missing, 0 for any time
	reply    int64         // the most bytes of memory of a reply, 0 for the default
}

// Bounded returns the address with limits: how long the server may be silent while a reply is missing, and how many
// bytes of memory a reply may take.
func (a *Address) Bounded(silence time.Duration, reply int64) *Address {
	other := *a
	other.silence, other.reply = silence, reply
	return &other
}

// InRESP3 returns the address with RESP3 as the protocol.
func (a *Address) InRESP3() *Address {
	other := *a
	other.protocol = 3
	return &other
}

// Address returns the server that the flags ask for. Its errors are of usage, or of local files.
func (f *Flags) Address(ctx context.Context) (*Address, error) {
	a := &Address{
		network: "tcp", Endpoint: net.JoinHostPort(f.host, f.port.String()),
		user: f.user, password: f.password, database: f.database, timeout: time.Duration(f.timeout), silence: time.Duration(f.silence),
	}
	if f.socket != "" {
		a.network, a.Endpoint = "unix", f.socket
	}
	host, encrypted := f.host, f.tls
	if f.uri != "" {
		u, err := url.Parse(f.uri)
		if err != nil { // its text may have parts of a password
			return nil, exit.Usagef("-u: not of the form %s; write what is no letter or digit of a password as %%HH", uriForm)
		}
		if err := a.setURI(u); err != nil {
			return nil, exit.Usagef("-u: %w", err)
		}
		host, encrypted = u.Hostname(), encrypted || u.Scheme == "rediss"
		if host == "" {
			host = defaultHost
		}
	}
	if f.passFile != "" {
		if a.password != "" {
			return nil, exit.Usagef("--pass-file %s: the password is given already, give only one", f.passFile)
		}
		var err error
		if a.password, err = readPassword(ctx, f.passFile); err != nil {
			return nil, exit.WithCode(exit.Local, fmt.Errorf("--pass-file: %w", err))
		}
	}
	if a.password == "" {
		a.password = os.Getenv(passwordVariable)
	}
	if err := f.check(encrypted); err != nil {
		return nil, err
	}
	switch {
	case f.resp2:
		a.protocol = 2
	case f.resp3:
		a.protocol = 3
	}
	if !encrypted {
		return a, nil
	}
	var err error
	a.tls, err = f.tlsConfig(ctx, host)
	return a, err
}

// readPassword returns the password in a file.
func readPassword(ctx context.Context, path string) (string, error) {
	file, err := system.ReadFile(ctx, path, system.MaxSecrets)
	if err != nil {
		return "", err
	}
	password, err := text.Password(file.Data)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return password, nil
}

// AddressOf returns the server that a URI names, which is the value of a flag. ShowsPassword reports whether the URI has
// a password.
func AddressOf(flag, uri string) (a *Address, showsPassword bool, err error) {
	var f Flags
	f.Register(pflag.NewFlagSet(flag, pflag.ContinueOnError))
	f.uri = uri // which names no file to wait for
	if uri == "" {
		return nil, false, exit.Usagef("%s: give the server, as %s", flag, uriForm)
	}
	if a, err = f.Address(context.Background()); err != nil {
		text, _ := strings.CutPrefix(err.Error(), "-u: ")
		return nil, false, exit.WithCode(exit.Code(err), fmt.Errorf("%s: %s", flag, text))
	}
	return a, f.ShowsPassword(), nil
}

// check returns an error for flags that do not go together.
func (f *Flags) check(encrypted bool) error {
	exclude := func(first string, others ...string) error {
		for _, other := range others {
			if f.set.Changed(first) && f.set.Changed(other) {
				return exit.Usagef("%s and %s exclude each other", flagText(f.set, first), flagText(f.set, other))
			}
		}
		return nil
	}
	if name, p, err := net.SplitHostPort(f.host); err == nil && p != "" { // an IPv6 address does not have this form
		return exit.Usagef("-h %s: HOST has a port in it: give that by -p, as in -h %s -p %s", f.host, name, p)
	}
	err := errors.Join(
		exclude("socket", hostFlag, "port", "tls"), exclude("uri", hostFlag, "port", "socket"), exclude("resp2", "resp3"),
	)
	switch {
	case err != nil:
		return exit.Usagef("%w", err)
	case !encrypted && (f.cacert != "" || f.cert != "" || f.key != "" || f.insecure):
		return exit.Usagef("--cacert, --cert, --key and --insecure are of use only with --tls or rediss://")
	case (f.cert == "") != (f.key == ""):
		return exit.Usagef("--cert and --key: one needs the other")
	}
	return nil
}

func flagText(set *pflag.FlagSet, name string) string {
	if flag := set.Lookup(name); flag.Shorthand != "" {
		return "-" + flag.Shorthand
	}
	return "--" + name
}

// setURI sets the fields of the address that a URI has. As in redis-cli, a user without a password is a password.
func (a *Address) setURI(u *url.URL) error {
	if u.User != nil {
		if password, both := u.User.Password(); both {
			a.user, a.password = u.User.Username(), password
		} else {
			a.password = u.User.Username()
		}
	}
	switch u.Scheme {
	case "unix":
		a.network, a.Endpoint = "unix", u.Host+u.Path
		if a.Endpoint == "" {
			return errors.New("the path of the socket is missing")
		}
		return nil
	case "redis", "rediss":
	default:
		return errors.New("must begin with redis://, rediss:// or unix://")
	}
	host, p := u.Hostname(), port(defaultPort)
	if host == "" {
		host = defaultHost
	}
	if text := u.Port(); text != "" {
		if err := p.Set(text); err != nil {
			return fmt.Errorf("port %s: %w", text, err)
		}
	}
	a.Endpoint = net.JoinHostPort(host, p.String())
	if path := strings.Trim(u.Path, "/"); path != "" {
		n, err := strconv.ParseUint(path, 10, 31)
		if err != nil {
			return fmt.Errorf("database %s: must be a number", path)
		}
		a.database = uint(n)
	}
	return nil
}

func (f *Flags) tlsConfig(ctx context.Context, host string) (*tls.Config, error) {
	config := &tls.Config{ServerName: host, InsecureSkipVerify: f.insecure}
	if f.cacert != "" {
		pem, err := system.ReadFile(ctx, f.cacert, system.MaxSecrets)
		if err != nil {
			return nil, exit.WithCode(exit.Local, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem.Data) {
			return nil, exit.WithCode(exit.Local, fmt.Errorf("%s has no certificate in PEM", f.cacert))
		}
	}
	if f.cert != "" {
		pair, err := readKeyPair(ctx, f.cert, f.key)
		if err != nil {
			return nil, exit.WithCode(exit.Local, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func readKeyPair(ctx context.Context, certFile, keyFile string) (pair tls.Certificate, err error) {
	cert, err := system.ReadFile(ctx, certFile, system.MaxSecrets)
	if err != nil {
		return pair, err
	}
	key, err := system.ReadFile(ctx, keyFile, system.MaxSecrets)
	if err != nil {
		return pair, err
	}
	return tls.X509KeyPair(cert.Data, key.Data)
}

// ShowsPassword reports whether the command line has a password. Other users of the machine can see it there.
func (f *Flags) ShowsPassword() bool {
	u, err := url.Parse(f.uri)
	if f.password != "" || err != nil || u.User == nil {
		return f.password != ""
	}
	password, both := u.User.Password()
	return !both || password != ""
}

// port is a flag that takes the number of a port.
type port uint16

func (p *port) String() string { return strconv.Itoa(int(*p)) }

func (p *port) Type() string { return "PORT" }

func (p *port) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return errors.New("must be 1 to 65535")
	}
	*p = port(n)
	return nil
}
