//go:build unix

package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/module/reply"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  crypto.Signer
	next int64 // serial number
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, next: 2}
	a.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// pool has the authority alone.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue returns a certificate for 127.0.0.1, with a number of its own, and its key, in PEM.
func (a *authority) issue() (cert, key []byte) {
	a.t.Helper()
	return a.issueFor(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
}

// issueFor is issue of a certificate that is good from one time to another.
func (a *authority) issueFor(from, to time.Time) (cert, key []byte) {
	a.t.Helper()
	private := newKey(a.t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), NotBefore: from, NotAfter: to,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	a.next++
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// client returns the configuration of a client with a certificate of the authority, which it shows whatever the server
// asks for.
func (a *authority) client(trusts *x509.CertPool) *tls.Config {
	a.t.Helper()
	pair, err := tls.X509KeyPair(a.issue())
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Config{RootCAs: trusts, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}
}

// tlsPort is an address that takes TLS, and the files that it is given.
type tlsPort struct {
	t              *testing.T
	flag, dir      string
	cert, key, ask string
	addr           string // once it is served
}

func newPort(t *testing.T, flag string) *tlsPort {
	t.Helper()
	dir := t.TempDir()
	return &tlsPort{
		t: t, flag: flag, dir: dir,
		cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"), ask: filepath.Join(dir, "ca.pem"),
	}
}

func (p *tlsPort) flags() []string {
	return []string{"--" + p.flag + "-cert", p.cert, "--" + p.flag + "-key", p.key, "--" + p.flag + "-client-ca", p.ask}
}

// certify puts a certificate and its key into the files.
func (p *tlsPort) certify(cert, key []byte) { p.write(p.cert, cert); p.write(p.key, key) }

func (p *tlsPort) write(file string, text []byte) {
	p.t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// serial connects, and returns the number of the certificate that the server shows.
func (p *tlsPort) serial(config *tls.Config) int64 {
	p.t.Helper()
	c, err := tls.Dial("tcp", p.addr, config)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // it was only to see
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// ping connects and returns the reply to PING.
func ping(addr string, config *tls.Config) (string, error) {
	c, err := tls.Dial("tcp", addr, config)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }() // the server may have closed it
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return "", err
	}
	r, err := resp.NewReader(c).Read()
	return strings.TrimSpace(string(reply.AppendText(nil, r))), err
}

// Clients need a certificate, or may have one. It does not replace the login. Certificates of other authorities, and
// old versions of TLS, are refused.
func TestServe_clientCertificates(t *testing.T) {
	ours, others := newAuthority(t, "ours"), newAuthority(t, "others")
	good, none, wrong := ours.client(ours.pool()), &tls.Config{RootCAs: ours.pool()}, others.client(ours.pool())
	old, recent := good.Clone(), good.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	recent.MaxVersion = tls.VersionTLS12
	const noAuth = "(error) NOAUTH Authentication required."
	for _, tt := range []struct {
		name  string
		flags []string
		open  bool // to clients without a certificate
		want  string
	}{
		{"required unless it is said otherwise", nil, false, "PONG"},
		{"required", []string{"--tls-client-auth", "required"}, false, "PONG"},
		{"optional", []string{"--tls-client-auth", "optional"}, true, "PONG"},
		{"no login", []string{"--requirepass-file", "password"}, false, noAuth},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir()) // of the server too
			if err := os.WriteFile("password", []byte("secret\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			p := newPort(t, "tls")
			p.certify(ours.issue())
			p.write(p.ask, ours.pem())
			s := serveStore(t, "store", 1, append(append(p.flags(), "--addr", "127.0.0.1:0"), tt.flags...)...)
			for name, c := range map[string]struct {
				config *tls.Config
				served bool
			}{
				"with a certificate": {good, true}, "with TLS 1.2": {recent, true}, "without a certificate": {none, tt.open},
				"with another's certificate": {wrong, false}, "with TLS 1.1": {old, false},
			} {
				got, err := ping(s.addrs[0], c.config)
				if c.served && (got != tt.want || err != nil) || !c.served && err == nil {
					t.Errorf("%s PING answers %q, %v", name, got, err)
				}
			}
			// A user that finds the store in use is told what to show.
			out, err := exec.Command("kvshell", "-d", "store", "PING").CombinedOutput()
			if err == nil || bytes.Contains(out, []byte(" --tls --cert FILE --key FILE")) == tt.open {
				t.Errorf("%v, %s", err, out)
			}
			cert, key := ours.issue()
			if err := errors.Join(os.WriteFile("cert", cert, 0o600), os.WriteFile("key", key, 0o600)); err != nil {
				t.Fatal(err)
			}
			_, number, _ := net.SplitHostPort(s.addrs[0]) // which it has told
			out, _ = exec.Command("kvshell", "-p", number, "--tls", "--cacert", p.ask, "--cert", "cert", "--key", "key", "--no-raw", "PING").CombinedOutput()
			if got := strings.TrimSpace(string(out)); got != tt.want {
				t.Errorf("kvshell's PING answers %s, want %s", got, tt.want)
			}
			s.stop(t, syscall.SIGTERM)
		})
	}
}

// At SIGHUP the files of TLS are read again, of each address all or none. Connections that exist go on.
func TestServe_certificatesReload(t *testing.T) {
	ours, next := newAuthority(t, "ours"), newAuthority(t, "next")
	client := ours.client(ours.pool())
	client.ClientSessionCache = tls.NewLRUClientSessionCache(0) // a session must not outlive what it was begun with
	commands, metrics := newPort(t, "tls"), newPort(t, "metrics-tls")
	ports := []*tlsPort{commands, metrics}
	ours.next = 2
	for _, p := range ports {
		p.certify(ours.issue())
		p.write(p.ask, ours.pem())
	}
	s := serveStore(t, filepath.Join(t.TempDir(), "store"), 2,
		append(append(commands.flags(), metrics.flags()...), "--addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0")...)
	commands.addr = s.addrs[0]
	metrics.addr = strings.TrimSuffix(strings.TrimPrefix(s.addrs[1], "https://"), "/metrics")
	reload := func(says ...string) {
		t.Helper()
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for _, text := range says {
			if line, ok := s.nextLine(); !ok || !strings.Contains(line, `msg="SIGHUP: `) || !strings.Contains(line, text) {
				t.Fatalf("after SIGHUP it says %q, want %q", line, text)
			}
		}
	}
	wantSerials := func(commandsSerial, metricsSerial int64, config *tls.Config) {
		t.Helper()
		for p, want := range map[*tlsPort]int64{commands: commandsSerial, metrics: metricsSerial} {
			if got := p.serial(config); got != want {
				t.Errorf("%s shows certificate %d, want %d", p.flag, got, want)
			}
		}
	}
	fresh := func() *tls.Config {
		return &tls.Config{RootCAs: client.RootCAs, GetClientCertificate: client.GetClientCertificate}
	}

	old, err := tls.Dial("tcp", commands.addr, client)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close() }() // the server has closed it
	var kept int                       // requests on the one connection there is
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: client, MaxConnsPerHost: 1}}
	scrape := func() {
		t.Helper()
		r, err := web.Get(s.addrs[1])
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close() // read to its end
		if err != nil || !bytes.Contains(text, []byte("sievekv_up 1\n")) {
			t.Fatalf("the metrics answer %s, %v", text, err)
		}
		if got := r.TLS.PeerCertificates[0].SerialNumber.Int64(); got != 3 {
			t.Errorf("request %d is answered by the connection of certificate %d, want 3", kept, got)
		}
		kept++
	}
	goesOn := func() {
		t.Helper()
		if got := ask(t, old, "PING"); got[0] != "PONG" {
			t.Errorf("on the old connection PING answers %s", got[0])
		}
		scrape()
	}
	goesOn()
	wantSerials(2, 3, fresh())

	// New files.
	ours.next = 10
	commands.certify(ours.issue())
	metrics.certify(ours.issue())
	reload("--addr has a certificate that is good until ", "--metrics-addr has a certificate that is good until ")
	wantSerials(10, 11, fresh())
	goesOn()

	// A bad file leaves all others of the address as they are.
	cert, _ := ours.issue()
	commands.write(commands.cert, cert)
	metrics.certify(ours.issue())
	reload("--tls-cert "+commands.cert+", --tls-key "+commands.key+": tls: private key does not match public key; --addr goes on",
		"--metrics-addr has a certificate")
	wantSerials(10, 13, fresh())
	commands.certify(ours.issue())
	both := append(next.pem(), ours.pem()...)
	commands.write(commands.ask, both[:len(both)-100])
	metrics.certify(ours.issue())
	metrics.write(metrics.ask, nil)
	reload("--tls-client-ca "+commands.ask+": 1 of its 2 certificates cannot be read as PEM; --addr goes on",
		"--metrics-tls-client-ca "+metrics.ask+": has no certificate in PEM; --metrics-addr goes on")
	wantSerials(10, 13, fresh())
	if err := errors.Join(os.Remove(commands.key), os.Remove(metrics.key)); err != nil {
		t.Fatal(err)
	}
	reload("--tls-key "+commands.key+": no such file or directory", "--metrics-tls-key "+metrics.key+": no such file or directory")
	if err := errors.Join(syscall.Mkfifo(commands.key, 0o600), os.Mkdir(metrics.key, 0o700)); err != nil {
		t.Fatal(err)
	}
	reload("--tls-key "+commands.key+": is no regular file", "--metrics-tls-key "+metrics.key+": is no regular file")
	wantSerials(10, 13, fresh())
	goesOn()
	if err := errors.Join(os.Remove(commands.key), os.Remove(metrics.key)); err != nil {
		t.Fatal(err)
	}

	// Another authority: clients of the old one are refused, clients of the new one served.
	for _, p := range ports {
		p.certify(ours.issue())
		p.write(p.ask, next.pem())
	}
	if got, err := ping(commands.addr, client); got != "PONG" { // and has a session for the next time
		t.Errorf("PING answers %q, %v", got, err)
	}
	reload("--addr has", "--metrics-addr has")
	wantSerials(16, 17, next.client(ours.pool()))
	if got, err := ping(commands.addr, next.client(ours.pool())); got != "PONG" {
		t.Errorf("PING of a client of the new authority answers %q, %v", got, err)
	}
	for name, config := range map[string]*tls.Config{"a new connection": fresh(), "a session": client} {
		if got, err := ping(commands.addr, config); err == nil {
			t.Errorf("PING of a client of the old authority, by %s, answers %q", name, got)
		}
		other := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
		if r, err := other.Get(s.addrs[1]); err == nil {
			t.Errorf("a client of the old authority, by %s, is answered %s by the metrics, %v", name, r.Status, r.Body.Close())
		}
	}
	goesOn()
	web.CloseIdleConnections()
	s.stop(t, syscall.SIGTERM)
}

// A server does not start with a certificate that has expired. If it reads one at SIGHUP, it goes on with what it
// has. It warns of other certificates that are not valid now.
func TestServe_certificateTimes(t *testing.T) {
	a := newAuthority(t, "ours")
	now := time.Now()
	gone, soon := now.Add(-time.Hour), now.Add(time.Hour)
	at := func(when time.Time) string { return when.UTC().Format(time.RFC3339) }
	p := newPort(t, "tls")
	p.write(p.ask, a.pem())
	p.certify(a.issueFor(gone.Add(-time.Hour), gone))
	store := filepath.Join(t.TempDir(), "store")
	taken, err := net.Listen("tcp", "127.0.0.1:0") // so that it does not serve, if it takes the certificate
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }() // nobody connects
	for _, flag := range []string{"tls", "metrics-tls"} {
		port := *p
		port.flag = flag
		want := "serve: --" + flag + "-cert " + p.cert + ": the certificate expired at " + at(gone)
		says, code := refused(t, store, append(port.flags(), "--addr", taken.Addr().String(), "--metrics-addr", "127.0.0.1:0")...)
		if code != exit.Local || !strings.Contains(says, want) {
			t.Errorf("exit code %d, %s\nwant %d and %s", code, says, exit.Local, want)
		}
		if _, err := os.Stat(store); !errors.Is(err, os.ErrNotExist) {
			t.Error("a store was made")
		}
	}

	// The server's own certificate is not valid yet. One of the two after it has expired, and so has one of the
	// client CA.
	cert, key := a.issueFor(soon, soon.Add(time.Hour))
	other, _ := a.issueFor(gone.Add(-time.Hour), gone)
	p.certify(append(append(cert, a.pem()...), other...), key)
	p.write(p.ask, append(a.pem(), other...))
	s := serveStore(t, store, 0, append(p.flags(), "--addr", "127.0.0.1:0")...)
	// until returns the lines up to the one that has a text.
	until := func(text string) (lines []string) {
		for {
			line, ok := s.nextLine()
			if !ok {
				t.Fatalf("it ended: %v", <-s.ended)
			}
			if !isBeginning(line) {
				lines = append(lines, line)
			}
			if strings.Contains(line, text) {
				return lines
			}
		}
	}
	wantLines := func(got []string, wants ...string) {
		t.Helper()
		if !slices.EqualFunc(got, wants, strings.Contains) {
			t.Errorf("it says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(wants, "\n"))
		}
	}
	reload := func() {
		t.Helper()
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	const serving = "sievekv: serving"
	warnings := []string{
		"--tls-cert " + p.cert + ": certificate 1 is not good before " + at(soon),
		"--tls-cert " + p.cert + ": certificate 3 expired at " + at(gone),
		"--tls-client-ca " + p.ask + ": certificate 2 expired at " + at(gone),
	}
	started := until(serving)
	wantLines(started, append(slices.Clone(warnings), serving)...)
	p.addr = servedAt(started[len(started)-1])
	reload()
	isTaken := "SIGHUP: --addr has a certificate that is good until " + at(soon.Add(time.Hour))
	wantLines(until(isTaken), append(slices.Clone(warnings), isTaken)...)
	p.certify(a.issueFor(gone.Add(-time.Hour), gone))
	reload()
	wantLines(until("SIGHUP: "), "the certificate expired at "+at(gone)+"; --addr goes on with what was read before")
	careless := a.client(a.pool())
	careless.InsecureSkipVerify = true // also of the times
	if got := p.serial(careless); got != 3 {
		t.Errorf("it shows certificate %d, want 3", got)
	}
	s.stop(t, syscall.SIGTERM)
}

// SIGHUP never ends a server: not before it serves, not without TLS, and not while it shuts down.
func TestServe_hangup(t *testing.T) {
	s := serveStore(t, filepath.Join(t.TempDir(), "store"), 0, "--addr", "127.0.0.1:0")
	hangUp := func() {
		t.Helper()
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	addr := ""
	for addr == "" {
		line, ok := s.nextLine()
		if !ok {
			t.Fatalf("it ended: %v", <-s.ended)
		}
		if strings.Contains(line, createdStore) {
			hangUp()
		}
		addr = servedAt(line)
	}
	const nothing = `msg="SIGHUP: there is no file to read again"`
	if line, _ := s.nextLine(); !strings.HasSuffix(line, nothing) {
		t.Errorf("it says %q", line)
	}
	hangUp()
	if line, _ := s.nextLine(); !strings.HasSuffix(line, nothing) {
		t.Errorf("it says %q", line)
	}
	c := dial(t, "tcp", addr)
	if got := ask(t, c, "PING"); got[0] != "PONG" {
		t.Errorf("PING answers %s", got[0])
	}
	s.stop(t, syscall.SIGTERM)
}

// Idle connections keep nobody from the metrics, with TLS or without.
func TestServe_metricsIdle(t *testing.T) {
	ours := newAuthority(t, "ours")
	p := newPort(t, "metrics-tls")
	p.certify(ours.issue())
	for name, flags := range map[string][]string{"plain": nil, "TLS": {"--metrics-tls-cert", p.cert, "--metrics-tls-key", p.key}} {
		t.Run(name, func(t *testing.T) {
			s := serveStore(t, filepath.Join(t.TempDir(), "store"), 2, append(flags, "--addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0")...)
			addr := strings.TrimSuffix(strings.TrimPrefix(s.addrs[1], "https://"), "/metrics")
			var idle []net.Conn
			for range 20 { // there are places for 16
				idle = append(idle, dial(t, "tcp", strings.TrimPrefix(addr, "http://")))
			}
			web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ours.pool()}, DisableKeepAlives: true}}
			for range 20 {
				r, err := web.Get(s.addrs[1])
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(r.Body)
				_ = r.Body.Close() // read to its end
				if err != nil || !bytes.Contains(text, []byte("sievekv_up 1\n")) {
					t.Fatalf("the metrics answer %s, %v", text, err)
				}
			}
			for _, c := range idle {
				_ = c.Close() // the server may have closed it; it would wait 5 s for the others
			}
			s.stop(t, syscall.SIGTERM)
		})
	}
}

// A client of the metrics gets no answer without a certificate, with one of another authority, or in plain HTTP. The
// log tells of it, but not of every time.
func TestServe_metricsClientCertificates(t *testing.T) {
	ours, others := newAuthority(t, "ours"), newAuthority(t, "others")
	p := newPort(t, "metrics-tls")
	p.certify(ours.issue())
	p.write(p.ask, ours.pem())
	s := serveStore(t, filepath.Join(t.TempDir(), "store"), 2, append(p.flags(), "--addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0")...)
	get := func(url string, config *tls.Config) (string, error) {
		web := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		r, err := web.Get(url)
		if err != nil {
			return "", err
		}
		defer func() { _ = r.Body.Close() }() // read to its end
		text, err := io.ReadAll(r.Body)
		return fmt.Sprint(r.StatusCode, " ", string(text)), err
	}
	if got, err := get(s.addrs[1], ours.client(ours.pool())); err != nil || !strings.HasPrefix(got, "200 ") || !strings.Contains(got, "sievekv_up 1\n") {
		t.Errorf("with a certificate: %q, %v", got, err)
	}
	old := ours.client(ours.pool())
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	for name, config := range map[string]*tls.Config{
		"without a certificate": {RootCAs: ours.pool()}, "with another's certificate": others.client(ours.pool()), "with TLS 1.1": old,
	} {
		if got, err := get(s.addrs[1], config); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got, err := get(strings.Replace(s.addrs[1], "https:", "http:", 1), nil); err == nil && strings.Contains(got, "sievekv_up") {
		t.Errorf("without TLS: %q", got)
	}
	s.stop(t, syscall.SIGTERM)
	logged := 0
	for line := range strings.Lines(s.output()) {
		if strings.Contains(line, "TLS handshake error") {
			logged++
			if !strings.Contains(line, " level=WARN msg=\"sievekv: a client of the metrics failed\" error=") {
				t.Errorf("it says %s", line)
			}
		}
	}
	if logged == 0 {
		t.Error("nothing is said of handshakes that failed")
	}
}
