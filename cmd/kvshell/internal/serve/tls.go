package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cliflags"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
)

// tlsFiles are the files of an address that takes TLS only. For an address without TLS cert, key and clientCA are "".
type tlsFiles struct {
	flag     string // what the names of the flags begin with
	address  string // the name of the flag with the address
	cert     string
	key      string
	clientCA string
	client   clientAuth

	// current is the configuration read last, nil at first. It is replaced as a whole, and never changed.
	current atomic.Pointer[tls.Config]
}

func (f *tlsFiles) register(flags *pflag.FlagSet, name, address string) {
	f.flag, f.address = name, address
	cliflags.FileVar(flags, &f.cert, name+"-cert", "`FILE` with the certificate in PEM, with which --"+address+" takes TLS only; read again at SIGHUP, as the next two are")
	cliflags.FileVar(flags, &f.key, name+"-key", "`FILE` with its key in PEM")
	cliflags.FileVar(flags, &f.clientCA, name+"-client-ca", "`FILE` with certificates in PEM, one of which clients' certificates have to be signed by")
}

// check returns an error for flags that do not go together.
func (f *tlsFiles) check() error {
	switch {
	case (f.cert == "") != (f.key == ""):
		return exit.Usagef("serve: --%s-cert and --%[1]s-key: one needs the other", f.flag)
	case f.cert == "" && f.clientCA != "":
		return exit.Usagef("serve: --%s-client-ca needs --%[1]s-cert", f.flag)
	case f.clientCA == "" && f.client != "":
		return exit.Usagef("serve: --%s-client-auth needs --%[1]s-client-ca", f.flag)
	}
	return nil
}

// requires reports whether every client needs a certificate.
func (f *tlsFiles) requires() bool { return f.clientCA != "" && f.client != clientAuthOptional }

// read reads the files. If one of them is bad nothing changes: new handshakes use the earlier files. Without files it
// does nothing.
//
// The server's own certificate is bad if it has expired: no client would take it. There is only a warning if it is
// not valid yet, as the clock may be wrong, or if the time of another certificate in the files is wrong, as the rest
// may be of use.
func (f *tlsFiles) read(ctx context.Context) (warnings []string, err error) {
	if f.cert == "" {
		return nil, nil
	}
	cert, err := f.readFile(ctx, "cert", f.cert)
	if err != nil {
		return nil, err
	}
	key, err := f.readFile(ctx, "key", f.key)
	if err != nil {
		return nil, err
	}
	chain, err := certificates(cert)
	if err != nil {
		return nil, f.bad("cert", f.cert, err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("--%s-cert %s, --%[1]s-key %[3]s: %w", f.flag, f.cert, f.key, err)
	}
	now := time.Now()
	if now.After(pair.Leaf.NotAfter) {
		return nil, f.bad("cert", f.cert, fmt.Errorf("the certificate expired at %s", inUTC(pair.Leaf.NotAfter)))
	}
	warnings = f.outOfTime("cert", f.cert, chain, now)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if f.clientCA != "" {
		text, err := f.readFile(ctx, "client-ca", f.clientCA)
		if err != nil {
			return nil, err
		}
		authorities, err := certificates(text)
		if err != nil {
			return nil, f.bad("client-ca", f.clientCA, err)
		}
		warnings = append(warnings, f.outOfTime("client-ca", f.clientCA, authorities, now)...)
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), f.client.tls()
		for _, ca := range authorities {
			config.ClientCAs.AddCert(ca)
		}
	}
	f.current.Store(config)
	return warnings, nil
}

// outOfTime returns a warning for each certificate of a file that has expired or is not valid yet.
func (f *tlsFiles) outOfTime(which, path string, list []*x509.Certificate, now time.Time) (texts []string) {
	for i, cert := range list {
		what := "the certificate"
		if len(list) > 1 {
			what = fmt.Sprintf("certificate %d", i+1)
		}
		switch {
		case now.After(cert.NotAfter):
			texts = append(texts, f.bad(which, path, fmt.Errorf("%s expired at %s", what, inUTC(cert.NotAfter))).Error())
		case now.Before(cert.NotBefore):
			texts = append(texts, f.bad(which, path, fmt.Errorf("%s is not good before %s", what, inUTC(cert.NotBefore))).Error())
		}
	}
	return texts
}

// inUTC shows a time of a certificate.
func inUTC(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func (f *tlsFiles) readFile(ctx context.Context, which, path string) ([]byte, error) {
	if info, err := os.Stat(path); f.current.Load() != nil && err == nil && !info.Mode().IsRegular() {
		// To read a pipe could take for ever, and the server would not hear of SHUTDOWN meanwhile.
		return nil, f.bad(which, path, errors.New("is no regular file, which could be read again"))
	}
	text, err := system.ReadFile(ctx, path, system.MaxSecrets)
	if err != nil {
		return nil, f.bad(which, path, err)
	}
	return text.Data, nil
}

func (f *tlsFiles) bad(which, path string, err error) error {
	return fileError(fmt.Sprintf("--%s-%s", f.flag, which), path, err)
}

// fileError adds the flag and the path to an error of a file that the flag names.
func fileError(flag, path string, err error) error {
	if op := (*fs.PathError)(nil); errors.As(err, &op) {
		err = op.Err // without the path, which is added below
	}
	return fmt.Errorf("%s %s: %w", flag, path, err)
}

// config returns the configuration to listen with, nil without files. Each handshake uses the files that were read
// last. A client can resume a session only if the certificate that it showed is good for the client CA in use now:
// crypto/tls checks that.
func (f *tlsFiles) config() *tls.Config {
	if f.cert == "" {
		return nil
	}
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.current.Load(), nil }}
}

// leaf returns the server's own certificate that was read last.
func (f *tlsFiles) leaf() *x509.Certificate { return f.current.Load().Certificates[0].Leaf }

// certificates returns the certificates of a text in PEM. It is an error if one of them cannot be read: otherwise a
// file that was cut short would pass for a complete one.
func certificates(text []byte) (list []*x509.Certificate, err error) {
	begun := bytes.Count(text, []byte("-----BEGIN CERTIFICATE-----"))
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(list)+1, err)
		}
		list = append(list, cert)
	}
	switch {
	case begun == 0:
		return nil, errors.New("has no certificate in PEM")
	case len(list) != begun:
		return nil, fmt.Errorf("%d of its %d certificates cannot be read as PEM", begun-len(list), begun)
	}
	return list, nil
}

// clientAuth is a flag that says whether clients need a certificate. The default, "", is that they do.
type clientAuth string

const (
	clientAuthRequired = "required"
	clientAuthOptional = "optional"
)

func (a *clientAuth) String() string { return string(*a) }

func (a *clientAuth) Type() string { return "WHETHER" }

func (a *clientAuth) Set(word string) error {
	if word != clientAuthRequired && word != clientAuthOptional {
		return fmt.Errorf("must be %s or %s", clientAuthRequired, clientAuthOptional)
	}
	*a = clientAuth(word)
	return nil
}

func (a *clientAuth) tls() tls.ClientAuthType {
	if *a == clientAuthOptional {
		return tls.VerifyClientCertIfGiven
	}
	return tls.RequireAndVerifyClientCert
}
