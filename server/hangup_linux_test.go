package server_test

import (
	"strings"
	"testing"

	"github.com/sievekv/sievekv/module"
)

// A command is given up when its client is gone even if the client has sent, after the command, more than the server reads
// meanwhile. Only Linux tells that the other end is closed behind what it has sent.
func TestSlow_muchAhead(t *testing.T) {
	w, slow := serveSlow(t, module.ReadOnly)
	l := listenTCP(t)
	w.listen(l)
	c := w.dial(l)
	c.send(pipeline("SLOW") + strings.Repeat(pipeline("PING"), 3000))
	<-slow.begun
	_ = c.Close()
	<-slow.givenUp
	eventually(t, "the connection is gone", func() bool { return w.server.Connections() == 0 })
}
