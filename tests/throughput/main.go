// Throughput prints how many commands a second a server answers over loopback, at each level of durability, and
// beside it redis-server, where that is installed, with its append-only file synced as often.
//
//	go run ./tests/throughput
//
// Each server is a process of its own with an empty store on disk. Each figure is commands per
// second of all connections together, after a tenth of the time to warm up; for BF.MADD it is
// items. What a client costs is in it: clients and server share the processors.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"
)

func main() {
	serving := flag.String("serve", "", "serve a store in this directory, as this program's own child")
	level := flag.String("level", "always", "the store's level of durability, with -serve")
	connections := flag.Int("connections", 50, "how many connections send commands")
	duration := flag.Duration("duration", time.Second, "how long each figure is measured")
	flag.Parse()
	var err error
	if *serving != "" {
		err = serve(*serving, *level)
	} else {
		err = run(context.Background(), *connections, *duration)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "throughput:", err)
		os.Exit(1)
	}
}

// pipelines are how many commands a connection sends before it reads their replies.
var pipelines = []int{1, 16, 100}

var levels = []string{"always", "everysec", "no"}

// table has a figure for each load, pipeline and server.
type table map[string]float64

func cell(load string, pipeline int, server string) string {
	return fmt.Sprint(load, "/", pipeline, "/", server)
}

func run(ctx context.Context, connections int, duration time.Duration) error {
	figures := make(table)
	servers := levels
	for _, level := range levels {
		if err := measureServer(ctx, figures, level, startOurs, loads, level, connections, duration); err != nil {
			return err
		}
	}
	if _, err := exec.LookPath("redis-server"); err == nil {
		plain := slices.DeleteFunc(slices.Clone(loads), func(l load) bool { return l.module })
		for _, level := range levels {
			name := "redis " + level
			servers = append(servers, name)
			if err := measureServer(ctx, figures, level, startRedis, plain, name, connections, duration); err != nil {
				return err
			}
		}
	} else {
		fmt.Println("redis-server is not installed: nothing beside it")
	}
	figures.print(servers, connections)
	return nil
}

// measureServer starts a server and measures all loads on it.
func measureServer(
	ctx context.Context, figures table, level string, start func(context.Context, string) (*process, error), loads []load,
	name string, connections int, duration time.Duration,
) (err error) {
	p, err := start(ctx, level)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer func() {
		if stopped := p.stop(); err == nil {
			err = stopped
		}
	}()
	for _, l := range loads {
		for _, pipeline := range pipelines {
			perSecond, err := measure(p.addr, l, connections, pipeline, duration)
			if err != nil {
				return fmt.Errorf("%s: %s, pipeline %d: %w", name, l.name, pipeline, err)
			}
			figures[cell(l.name, pipeline, name)] = perSecond
		}
	}
	return nil
}

func (t table) print(servers []string, connections int) {
	fmt.Printf("thousands a second, %d connections\n\n%-12s %8s", connections, "", "pipeline")
	for _, server := range servers {
		fmt.Printf(" %14s", server)
	}
	fmt.Println()
	for _, l := range loads {
		for _, pipeline := range pipelines {
			fmt.Printf("%-12s %8d", l.name, pipeline)
			for _, server := range servers {
				if v, ok := t[cell(l.name, pipeline, server)]; ok {
					fmt.Printf(" %14.1f", v/1000)
				} else {
					fmt.Printf(" %14s", "-")
				}
			}
			fmt.Println()
		}
	}
}
