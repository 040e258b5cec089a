// Clients runs client libraries of others through failovers of a group of three processes, each with its own defaults: go-redis' ClusterClient,
// rueidis, redis-py's RedisCluster and redis-cli -c. It is a module of its own, so that programs that use sievekv do not get them.
//
//	go -C tests/clients run . [--clients go-redis,rueidis,redis-py,redis-cli] [--transfers 40] [--kills 20]
//
// Each client does what the README shows, and increments counters, while the leadership is handed over and leaders are
// ended by SIGTERM, and then while leaders are killed by kill -9 (workload.go). What it was told has to hold, a counter
// is never below what was acknowledged, and never above that and what the client does not know the outcome of. An error
// is UNKNOWN, says that the command was not done, or comes from a connection.
//
// Some libraries send a command again by themselves when its connection breaks, also one that may have been done. After a kill -9 they count
// twice, which no server can prevent: this is counted apart, see client.repeats.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/sievekv/sievekv/tests/process"
)

// silent is a logger for go-redis: what fails, the findings tell.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func main() {
	o := options{}
	names := flag.String("clients", strings.Join(clientNames(), ","), "which clients, with commas between them")
	flag.IntVar(&o.transfers, "transfers", 40, "how often the leadership is handed over")
	flag.IntVar(&o.kills, "kills", 20, "how many leaders are killed")
	flag.Parse()
	o.clients = strings.Split(*names, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	found, err := run(ctx, o)
	for _, f := range found {
		fmt.Println(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

// options say what is run.
type options struct {
	clients          []string
	transfers, kills int
}

// run builds kvshell, starts a group, and runs the clients. The error says what was not as it must be.
func run(ctx context.Context, o options) (found []finding, err error) {
	redis.SetLogger(silent{})
	dir, err := os.MkdirTemp("", "clients")
	if err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, "kvshell"), "./cmd/kvshell")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build of kvshell: %w\n%s", err, out)
	}
	g, err := process.In(dir).StartGroup(dir, 3)
	if err != nil {
		return nil, fmt.Errorf("%w; the logs are in %s", err, dir)
	}
	found, err = through(ctx, g, o)
	if err = errors.Join(err, g.Close()); err != nil {
		return found, fmt.Errorf("%w; the logs are in %s", err, dir)
	}
	return found, os.RemoveAll(dir)
}
