package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// tlsFiles are the files of a listener that takes TLS only. None is for one that takes none.
type tlsFiles struct {
	flag           string // the names of the flags begin so
	cert, key, ask string
}

func (f *tlsFiles) register(flags *pflag.FlagSet, name string) {
	f.flag = name
	flags.StringVar(&f.cert, name+"-cert", "", "`FILE` with the certificate in PEM, with which --metrics-addr takes TLS only")
	flags.StringVar(&f.key, name+"-key", "", "`FILE` with its key in PEM")
	flags.StringVar(&f.ask, name+"-client-ca", "", "`FILE` with certificates in PEM, one of which clients' certificates have to be signed by")
}

// config returns nil without files.
func (f *tlsFiles) config() (*tls.Config, error) {
	switch {
	case (f.cert == "") != (f.key == ""):
		return nil, usagef("serve: --%s-cert and --%[1]s-key: one needs the other", f.flag)
	case f.cert == "" && f.ask != "":
		return nil, usagef("serve: --%s-client-ca needs --%[1]s-cert", f.flag)
	case f.cert == "":
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, withCode(exitOpen, fmt.Errorf("serve: --%s-cert %s, --%s-key %s: %w", f.flag, f.cert, f.flag, f.key, err))
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if f.ask == "" {
		return c, nil
	}
	text, err := os.ReadFile(f.ask)
	if err != nil {
		return nil, withCode(exitLocal, fmt.Errorf("serve: --%s-client-ca: %w", f.flag, err))
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(text) {
		return nil, usagef("serve: --%s-client-ca %s: has no certificate in PEM", f.flag, f.ask)
	}
	return c, nil
}
