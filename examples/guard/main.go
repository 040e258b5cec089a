package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/guard"
)

func main() {
	quick := flag.Bool("quick", false, "less load, in less than a minute")
	write := flag.Bool("write", false, "write the tables into docs/GUARD.md, and the plot beside it")
	addr := flag.String("serve", "", "serve at this address, in place of the load")
	dir := flag.String("dir", "", "where the database and the store are; by default a directory that is removed at the end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, *addr, *quick, *write); err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir, addr string, quick, write bool) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "guard"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	if addr != "" {
		return serveAt(ctx, dir, addr)
	}
	z := fullSize
	if quick {
		z = quickSize
	}
	begin := time.Now()
	rows, err := runScenes(ctx, dir, z, func(line string) { fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(begin).Seconds(), line) })
	if err != nil {
		return err
	}
	about := fmt.Sprintf("Measured on %s with %s, %d processors, %s users in SQLite.", time.Now().Format(time.DateOnly), runtime.Version(), runtime.NumCPU(), count(z.users))
	fmt.Printf("%s\n\n%s", about, text(rows))
	if write {
		err = writePage(filepath.Join("..", "..", "docs"), about, rows)
	}
	for _, r := range rows {
		if !r.met() {
			err = errors.Join(err, fmt.Errorf("%s: %s is %s, must be %s; %d requests failed, none may", r.scene, r.what, r.measured, r.asked(), r.on.failed))
		}
	}
	return err
}

// serveAt serves until the context ends.
func serveAt(ctx context.Context, dir, addr string) (err error) {
	db, err := openDatabase(dir, 10_000)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	store, err := sievekv.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s, err := openService(store, db, &guard.Options{Filter: guard.Cuckoo}, 0)
	if err != nil {
		return err
	}
	defer s.users.Close()
	if err := s.fill(ctx); err != nil {
		return err
	}
	server := &http.Server{Addr: addr, Handler: s.handler(), ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	fmt.Printf("serving at http://%s/users/0000017\n", addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
