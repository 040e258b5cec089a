package tests_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
	"github.com/sievekv/sievekv/txn"
)

// No bytes that a client sends panic a server, keep it from serving others, or damage the store.
func FuzzServer(f *testing.F) {
	opts := tinyOptions(vfs.NewMem())
	opts.Modules = coreext.With(bloomext.Module(), countingext.Module(), cuckooext.Module(), txn.Module(), server.Module())
	opts.Durability, opts.MaxFilterBytes = kv.NoSync, 1<<24
	opts.Logger = slog.New(slog.DiscardHandler)
	db, err := kv.Open(storeDir, opts)
	if err != nil {
		f.Fatal(err)
	}
	s, err := server.New(db, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			f.Error(err)
		}
		if err := db.Close(); err != nil {
			f.Error(err)
		}
	})
	for _, cmd := range module.Of(db).Commands() {
		var multibulk []byte
		for line := range strings.Lines(cmd.Example) {
			words, err := resp.Split([]byte(line))
			if err != nil {
				f.Fatal(err)
			}
			multibulk = resp.AppendCommand(multibulk, words)
		}
		f.Add(multibulk)
		f.Add([]byte("HELLO 3\r\nMULTI\r\n" + strings.ReplaceAll(cmd.Example, "\n", "\r\n") + "\r\nEXEC\r\nRESET\r\n"))
	}
	f.Add([]byte("CLIENT KILL ID 1 SKIPME NO\r\nCLIENT LIST ID 1 2 x\r\nCLIENT SETINFO lib-name x\r\nHELLO 3 AUTH a b SETNAME c\r\nSHUTDOWN NOW\r\n"))
	f.Add([]byte("*2\r\n$6\r\nCONFIG\r\n$0\r\n\r\n*1\r\n$-1\r\n"))
	inputs := 0
	f.Fuzz(func(t *testing.T, sent []byte) {
		ours, theirs := net.Pipe()
		ended := make(chan struct{})
		go func() {
			s.ServeConn(theirs)
			close(ended)
		}()
		read := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, ours) // until either side closes it
			close(read)
		}()
		_, _ = ours.Write(sent) // the server may have closed it
		if err := ours.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		<-read
		if inputs++; inputs%100 != 1 {
			return
		}
		report, err := db.Check(context.Background())
		if err != nil || len(report.Problems) > 0 {
			t.Errorf("Check = %v, %v", report.Problems, err)
		}
		if err := db.DeleteAll(kv.NoSync); err != nil {
			t.Error(err)
		}
	})
}
