package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

func jsonNumber(n int64) string { return strconv.FormatInt(n, 10) }

// userID returns the id of a user. Those from the number of users on are not there.
func userID(i int) string { return fmt.Sprintf("%07d", i) }

// serve serves a service on a port of this machine, at the URL that it returns.
func serve(s *service) (server *http.Server, url string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	server = &http.Server{Handler: s.handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // it returns when the server is closed
	return server, "http://" + listener.Addr().String(), nil
}

// client asks a service over one connection, which it keeps. Each caller has its own.
type client struct {
	url  string
	http http.Client
}

func newClient(url string) *client {
	return &client{url: url, http: http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}}
}

// get asks for a path. It returns the status.
func (c *client) get(ctx context.Context, path string) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, "GET", c.url+path, nil)
	if err != nil {
		return 0, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, errors.Join(err, response.Body.Close())
}

// figures are what a load has found.
type figures struct {
	requests  int
	failed    int // answered with another status than is right
	queries   int64
	took      time.Duration
	latencies []time.Duration // sorted
	seconds   []int64         // queries in each second, for loads that look at them
}

func (f *figures) percentile(share float64) time.Duration {
	if len(f.latencies) == 0 {
		return 0
	}
	return f.latencies[min(int(float64(len(f.latencies))*share), len(f.latencies)-1)]
}

// perSecond returns the queries a second.
func (f *figures) perSecond() float64 { return float64(f.queries) / f.took.Seconds() }

// ask has workers ask for ids until next returns "". The right answers have this status. All are connected before any asks,
// and begin together. It measures each request.
func ask(ctx context.Context, s *service, workers, status int, next func() string) (f *figures, err error) {
	server, url, err := serve(s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	f = &figures{}
	var mu sync.Mutex // guards f and failed
	var failed error
	var connected, ended sync.WaitGroup
	begin := make(chan struct{})
	connected.Add(workers)
	for range workers {
		ended.Go(func() {
			c := newClient(url)
			defer c.http.CloseIdleConnections()
			_, cerr := c.get(ctx, "/") // nothing is there
			connected.Done()
			<-begin
			part, perr := askAlone(ctx, c, status, next)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, cerr, perr)
			f.latencies, f.failed = append(f.latencies, part.latencies...), f.failed+part.failed
		})
	}
	connected.Wait()
	before, from := s.db.queries.Load(), time.Now()
	close(begin)
	ended.Wait()
	f.took, f.queries, f.requests = time.Since(from), s.db.queries.Load()-before, len(f.latencies)
	slices.Sort(f.latencies)
	return f, failed
}

// askAlone asks for ids until next returns "", one after the other.
func askAlone(ctx context.Context, c *client, status int, next func() string) (f figures, err error) {
	for id := next(); id != ""; id = next() {
		from := time.Now()
		got, err := c.get(ctx, "/users/"+id)
		if err != nil {
			return f, err
		}
		f.latencies = append(f.latencies, time.Since(from))
		if got != status {
			f.failed++
		}
	}
	return f, nil
}

// upTo returns a function that gives the numbers below n, made into ids, and then "".
func upTo(n int, id func(i int) string) func() string {
	var given atomic.Int64
	return func() string {
		if i := int(given.Add(1)) - 1; i < n {
			return id(i)
		}
		return ""
	}
}

// until returns a function that gives ids until a moment, and then "".
func until(end time.Time, id func(i int) string) func() string {
	var given atomic.Int64
	return func() string {
		if time.Now().After(end) {
			return ""
		}
		return id(int(given.Add(1)) - 1)
	}
}
