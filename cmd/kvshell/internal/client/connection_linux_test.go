package client

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// A server that refuses a word that is too long sends an error and closes the connection. The client shows the error.
// On other systems than Linux it may be lost with the connection.
func TestClient_wordTooLong(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const refusal = "ERR Protocol error: invalid bulk length"
	served := make(chan error, 1)
	go func() {
		for range 2 {
			conn, err := listener.Accept()
			if err == nil {
				_, err = io.ReadFull(conn, make([]byte, 100))
			}
			if err == nil {
				_, err = io.WriteString(conn, "-"+refusal+"\r\n")
			}
			if err := errors.Join(err, conn.Close()); err != nil {
				served <- err
				return
			}
		}
		served <- listener.Close()
	}()
	c := New(&Address{network: "tcp", Endpoint: listener.Addr().String(), protocol: 2}, nil, io.Discard)
	words := [][]byte{[]byte("ECHO"), bytes.Repeat([]byte("x"), 64<<20)}
	if r, err := c.Do(t.Context(), words); err != nil || string(r.Bytes()) != refusal {
		t.Errorf("the reply is %s, %v; want %s", r, err, refusal)
	}
	if err := c.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Send(t.Context(), words); err == nil || !strings.Contains(err.Error(), refusal) {
		t.Errorf("the error is %v, want one with %s", err, refusal)
	}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
}
