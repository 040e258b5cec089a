package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// client is a library, or a program.
type client interface {
	// do runs a command. The reply is a string, an int64, a bool, nil, or a list of those.
	do(ctx context.Context, words ...string) (any, error)
	close() error
}

// pipeliner is a client that sends several commands before it reads their replies.
type pipeliner interface {
	pipeline(ctx context.Context, commands [][]string) ([]any, []error)
}

// library makes clients.
type library struct {
	name string

	// repeats says that it sends a command again when the connection breaks, though that may have been done.
	repeats bool

	open func(addrs []string) (client, error)
}

var libraries = []library{
	{"go-redis", true, openGoRedis(0)},
	{"go-redis that does not repeat", false, openGoRedis(-1)},
	{"rueidis", false, openRueidis},
	{"redis-py", true, openRedisPy},
	{"redis-cli", true, openRedisCLI},
}

func clientNames() (names []string) {
	for _, l := range libraries {
		names = append(names, l.name)
	}
	return names
}

// goRedis is go-redis' ClusterClient.
type goRedis struct{ *redis.ClusterClient }

// openGoRedis returns a function that makes a client with the given number of redirections and repetitions: 0 for the
// library's default, which is 3, and -1 for none.
func openGoRedis(most int) func([]string) (client, error) {
	return func(addrs []string) (client, error) {
		return goRedis{redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, MaxRedirects: most})}, nil
	}
}

func (c goRedis) do(ctx context.Context, words ...string) (any, error) {
	reply, err := c.Do(ctx, list(words)...).Result()
	return reply, noNil(err, redis.Nil)
}

func (c goRedis) pipeline(ctx context.Context, commands [][]string) (replies []any, errs []error) {
	got, _ := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, words := range commands {
			p.Do(ctx, list(words)...)
		}
		return nil
	})
	for _, one := range got {
		reply, err := one.(*redis.Cmd).Result()
		replies, errs = append(replies, reply), append(errs, noNil(err, redis.Nil))
	}
	return replies, errs
}

func (c goRedis) close() error { return c.Close() }

func list(words []string) (all []any) {
	for _, w := range words {
		all = append(all, w)
	}
	return all
}

// noNil returns an error, unless it is the one that says that there is nothing.
func noNil(err, none error) error {
	if errors.Is(err, none) {
		return nil
	}
	return err
}

// rueidisClient is rueidis, which finds out that there is a cluster.
type rueidisClient struct{ rueidis.Client }

func openRueidis(addrs []string) (client, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: addrs, DisableCache: true, ShuffleInit: true})
	return rueidisClient{c}, err
}

func (c rueidisClient) command(words []string) rueidis.Completed {
	if len(words) == 1 {
		return c.B().Arbitrary(words...).Build()
	}
	return c.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build()
}

func (c rueidisClient) do(ctx context.Context, words ...string) (any, error) {
	reply, err := c.Do(ctx, c.command(words)).ToAny()
	return reply, noNil(err, rueidis.Nil)
}

func (c rueidisClient) pipeline(ctx context.Context, commands [][]string) (replies []any, errs []error) {
	var all []rueidis.Completed
	for _, words := range commands {
		all = append(all, c.command(words))
	}
	for _, one := range c.DoMulti(ctx, all...) {
		reply, err := one.ToAny()
		replies, errs = append(replies, reply), append(errs, noNil(err, rueidis.Nil))
	}
	return replies, errs
}

func (c rueidisClient) close() error { c.Close(); return nil }

//go:embed redis_py.py
var redisPyScript string

// redisPy is a process of Python that runs commands by redis-py's RedisCluster.
type redisPy struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func openRedisPy(addrs []string) (client, error) {
	cmd := exec.Command("python3", append([]string{"-c", redisPyScript}, addrs...)...)
	if python := os.Getenv("PYTHON"); python != "" {
		cmd = exec.Command(python, cmd.Args[1:]...)
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &redisPy{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

func (c *redisPy) do(_ context.Context, words ...string) (any, error) {
	if err := json.NewEncoder(c.in).Encode(words); err != nil {
		return nil, err
	}
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var told struct {
		Reply any
		Error string
	}
	if err := json.Unmarshal(line, &told); err != nil {
		return nil, err
	}
	if told.Error != "" {
		return nil, errors.New(told.Error)
	}
	return integers(told.Reply), nil
}

// integers returns a reply with integers for the numbers of JSON.
func integers(reply any) any {
	switch r := reply.(type) {
	case float64:
		return int64(r)
	case []any:
		for i := range r {
			r[i] = integers(r[i])
		}
	}
	return reply
}

func (c *redisPy) close() error { return errors.Join(c.in.Close(), c.cmd.Wait()) }

// redisCLI runs redis-cli -c for each command. It asks one member after the other.
type redisCLI struct {
	addrs []string
	next  int
}

func openRedisCLI(addrs []string) (client, error) { return &redisCLI{addrs: addrs}, nil }

func (c *redisCLI) do(ctx context.Context, words ...string) (any, error) {
	host, port, err := net.SplitHostPort(c.addrs[c.next%len(c.addrs)])
	if err != nil {
		return nil, err
	}
	c.next++
	out, err := exec.CommandContext(ctx, "redis-cli", append([]string{"-c", "-e", "--no-raw", "-h", host, "-p", port}, words...)...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(text, "(error) "))
	}
	return typed(text)
}

// typed returns the reply that redis-cli shows to a human.
func typed(text string) (any, error) {
	var n int64
	var all []any
	switch {
	case text == "(nil)":
		return nil, nil
	case strings.HasPrefix(text, "(integer) "):
		_, err := fmt.Sscanf(text, "(integer) %d", &n)
		return n, err
	case strings.HasPrefix(text, "1) "):
		for line := range strings.Lines(text) {
			_, line, _ = strings.Cut(strings.TrimSpace(line), ") ")
			one, err := typed(line)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		return all, nil
	case strings.HasPrefix(text, "(error) "):
		return nil, errors.New(strings.TrimPrefix(text, "(error) "))
	}
	return strings.Trim(text, `"`), nil
}

func (c *redisCLI) close() error { return nil }
