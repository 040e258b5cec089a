package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sievekv/sievekv/tests/wire"
)

// goodClient is one that does what clients do, one command after the other, and looks at the replies.
type goodClient struct {
	*wire.Conn
	n int
}

func newGoodClient(addr string, encrypted bool) (*goodClient, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	conn, err := dialer.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if encrypted {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // whose it is, we know
	}
	g := &goodClient{Conn: wire.New(conn)}
	if err := g.expect("+OK", "AUTH", password); err != nil {
		_ = conn.Close() // the error counts
		return nil, err
	}
	return g, nil
}

// newcomers are clients that log in, one after the other.
type newcomers struct {
	stop   chan struct{}
	ended  chan struct{}
	times  []time.Duration // with failed: to be read when ended is closed
	failed int
}

func startNewcomers(addr string, encrypted bool) *newcomers {
	n := &newcomers{stop: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(n.ended)
		for {
			began := time.Now()
			if c, err := newGoodClient(addr, encrypted); err != nil {
				n.failed++
			} else {
				n.times = append(n.times, time.Since(began))
				_ = c.Close() // its reply is there
			}
			select {
			case <-n.stop:
				const enough = 1000 // on a busy machine the first may fail
				if len(n.times) > 0 || n.failed > enough {
					return
				}
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return n
}

func (n *newcomers) end() (times []time.Duration, failed int) {
	close(n.stop)
	<-n.ended
	return n.times, n.failed
}

// writeCertificate writes a certificate and its key into dir.
func writeCertificate(dir string) (cert, key string, err error) {
	private, err := rsa.GenerateKey(rand.Reader, 2048) // a kind that costs the server much
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	return cert, key, errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}), 0o600))
}

func (g *goodClient) expect(want string, words ...string) error {
	got, err := g.Do(words...)
	if err == nil && got != want {
		err = fmt.Errorf("got %.200s, want %.200s", got, want)
	}
	if err != nil {
		return fmt.Errorf("%.100q: %w", words, err)
	}
	return nil
}

// prepare makes what attackers read: a string of 4 MiB, and one of 100 KiB.
func (g *goodClient) prepare() error {
	if err := g.expect("+OK", "SET", "big", strings.Repeat("b", 4*mib)); err != nil {
		return err
	}
	return g.expect("+OK", "SET", "middling", strings.Repeat("m", 100<<10))
}

// work gives commands for a while, and returns the time each took.
func (g *goodClient) work(d time.Duration) (times []time.Duration, err error) {
	for end := time.Now().Add(d); time.Now().Before(end) || len(times) == 0; {
		g.n++
		key, item := fmt.Sprint("good:", g.n%1000), fmt.Sprint("item:", g.n)
		for _, step := range []struct {
			want  string
			words []string
		}{
			{"+OK", []string{"SET", key, item}},
			{fmt.Sprintf("%q", item), []string{"GET", key}},
			{"", []string{"BF.ADD", "good:filter", item}},
			{":1", []string{"BF.EXISTS", "good:filter", item}},
			{fmt.Sprintf(":%d", g.n), []string{"INCR", "good:count"}},
		} {
			began := time.Now()
			got, err := g.Do(step.words...)
			times = append(times, time.Since(began))
			if err == nil && got != step.want && (step.want != "" || got != ":0" && got != ":1") {
				err = fmt.Errorf("got %.200s, want %s", got, step.want)
			}
			if err != nil {
				return times, fmt.Errorf("%q: %w", step.words, err)
			}
		}
	}
	return times, nil
}

// info returns the fields of INFO.
func (g *goodClient) info() (map[string]string, error) {
	text, err := g.Do("INFO")
	if err != nil {
		return nil, err
	}
	fields := make(map[string]string)
	for line := range strings.SplitSeq(text, `\r\n`) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}
