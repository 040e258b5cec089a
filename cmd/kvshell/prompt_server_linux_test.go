package main

import (
	"syscall"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/servertest"
)

func TestPrompt_server(t *testing.T) {
	s := servertest.Serve(t, "")
	endpoint := s.Addr()
	ready := endpoint + "> "
	p := at(t, nil, "-p", s.Port())
	p.sees(ready)

	// Help, hints and Tab know the server's commands and keys.
	p.types("BF.RESERVE visitors 0.01 100" + enter)
	p.sees("OK\n" + ready)
	p.types("bf.res" + tab + "x 0.1 10 exp" + tab)
	p.edits(ready + "bf.reserve x 0.1 10 expansion ")
	p.types("4" + enter)
	p.sees("OK\n" + ready)
	p.types("BF.ADD vis" + tab)
	p.shows(ready + "BF.ADD visitors item")
	p.types("alice" + enter)
	p.sees("(integer) 1\n" + ready)
	p.types("help bf.add" + enter)
	p.sees("BF.ADD key item\n")
	p.sees("@bloom")
	p.sees(ready)
	p.types("BF.AD x y" + enter)
	p.sees("did you mean BF.ADD?\n" + ready)
	p.types("GET nothing" + enter)
	p.sees(`(no key "nothing")` + "\n" + ready)

	// A transaction shows, and keys for Tab are not asked for in it.
	p.types("MULTI" + enter)
	p.sees(endpoint + "(TX)> ")
	p.types("BF.EXISTS vis" + tab)
	p.shows("BF.EXISTS visitors item")
	p.types("alice" + enter)
	p.sees("QUEUED\n" + endpoint + "(TX)> ")
	p.types("EXEC" + enter)
	p.sees("1) (integer) 1\n" + ready)

	p.types("output json" + enter)
	p.sees(ready)
	p.types("BF.EXISTS visitors alice" + enter)
	p.sees("true\n" + ready)
	p.types("output text" + enter)
	p.sees(ready)
	p.types("SELECT 2" + enter)
	p.sees("OK\n" + endpoint + "[2]> ")
	p.types("SELECT 0" + enter)
	p.sees("OK\n" + ready)

	// Ctrl-C ends a command that has no reply yet, and a stream of messages. Then the client connects again.
	p.types("HANG" + enter)
	<-s.Hung
	p.types(ctrlC)
	p.sees("interrupted\n" + ready)
	p.types("SUBSCRIBE news" + enter)
	p.sees(`3) "hello"`)
	p.types(ctrlC)
	p.sees("interrupted\n" + ready)

	// The user is told of a command without a reply, and the client connects again.
	p.types("CLOSE" + enter)
	p.sees("the server closed the connection; whether the command was carried out is not known\nnot connected> ")
	p.types("PING" + enter)
	p.sees("PONG\n" + ready)
	p.types("dedup k f" + enter)
	p.sees("dedup needs the store in a directory")
	p.sees(ready)
	p.types(ctrlD)
	p.ends(0)
}

func TestPrompt_notConnected(t *testing.T) {
	s := servertest.Serve(t, "")
	p := at(t, []string{"HOME=" + t.TempDir()}, "-s", "nosuch.sock")
	p.sees("Could not connect to nosuch.sock: no such file or directory\nnot connected> ")
	p.types("PING" + enter)
	p.sees("Could not connect to nosuch.sock: no such file or directory\nnot connected> ")
	p.types("P" + tab + tab)
	p.types("ING" + enter)
	p.sees("Could not connect to nosuch.sock: no such file or directory\nnot connected> ")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.ends(130)

	p = at(t, nil, "-p", s.Port(), "-n", "1")
	p.sees(s.Addr() + "[1]> ")
	p.types("exit" + enter)
	p.ends(0)
}
