package wire

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

// secure has the TLS configurations for both sides, nil without TLS.
type secure struct{ server, client *tls.Config }

// newSecure makes the configurations from the caller's. Each side checks the other's certificate against RootCAs. A
// certificate need not name the member's address, for the CA is the group's own; with a ServerName it has to name that.
func newSecure(c *tls.Config) (secure, error) {
	if c == nil {
		return secure{}, nil
	}
	if c.RootCAs == nil {
		return secure{}, errors.New("Options.TLS has no RootCAs: want the certificate of the group's own CA, and never the system's")
	}
	if len(c.Certificates) == 0 && (c.GetCertificate == nil || c.GetClientCertificate == nil) {
		return secure{}, errors.New("Options.TLS has no certificate for both sides: want Certificates, or GetCertificate and GetClientCertificate")
	}
	s := secure{server: c.Clone(), client: c.Clone()}
	for _, side := range []*tls.Config{s.server, s.client} {
		side.MinVersion = tls.VersionTLS13
		side.SessionTicketsDisabled = true
	}
	s.server.ClientCAs = c.RootCAs
	s.server.ClientAuth = tls.RequireAndVerifyClientCert
	if c.ServerName == "" {
		s.client.InsecureSkipVerify = true // of the name; VerifyConnection checks the rest
		s.client.VerifyConnection = func(state tls.ConnectionState) error { return verify(state, c.RootCAs) }
	}
	return s, nil
}

// verify checks a server's certificate against a CA.
func verify(state tls.ConnectionState, roots *x509.CertPool) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("no certificate")
	}
	opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, cert := range state.PeerCertificates[1:] {
		opts.Intermediates.AddCert(cert)
	}
	_, err := state.PeerCertificates[0].Verify(opts)
	return err
}

// serve returns the accepting side of a connection. The handshake is done by the first read or write.
func (s secure) serve(c net.Conn) net.Conn {
	if s.server == nil {
		return c
	}
	return tls.Server(c, s.server)
}

// dial returns the dialing side of a connection.
func (s secure) dial(c net.Conn) (net.Conn, error) {
	if s.client == nil {
		return c, CheckLoopback(c.RemoteAddr().String()) // a name may lead anywhere
	}
	return tls.Client(c, s.client), nil
}

// CheckLoopback returns an error if an address is not one of this machine.
func CheckLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("address %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("address %s is not a loopback address, and there is no TLS: filters and their secrets would be sent in the clear", addr)
	}
	return nil
}
