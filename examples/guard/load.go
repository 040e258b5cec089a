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

// client asks a service over HTTP.
type client struct {
	server *http.Server
	url    string
	http   http.Client
}

// serve serves a service on a port of this machine, for so many connections at once.
func serve(s *service, connections int) (*client, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &client{
		server: &http.Server{Handler: s.handler(), ReadHeaderTimeout: time.Minute},
		url:    "http://" + listener.Addr().String(),
		http:   http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}},
	}
	go func() { _ = c.server.Serve(listener) }() // it returns when the server is closed
	return c, nil
}

func (c *client) close() error {
	c.http.CloseIdleConnections()
	return c.server.Close()
}

// get asks for a user. It returns the status.
func (c *client) get(ctx context.Context, id string) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, "GET", c.url+"/users/"+id, nil)
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
	failed    int // answered with neither 200 nor 404
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

// ask has workers ask for ids until next returns "". It measures each request.
func ask(ctx context.Context, s *service, workers int, next func() string) (*figures, error) {
	c, err := serve(s, workers)
	if err != nil {
		return nil, err
	}
	var f figures
	var mu sync.Mutex // guards f and err
	var wg sync.WaitGroup
	before, begin := s.db.queries.Load(), time.Now()
	for range workers {
		wg.Go(func() {
			var latencies []time.Duration
			failed := 0
			for id := next(); id != ""; id = next() {
				from := time.Now()
				status, gerr := c.get(ctx, id)
				latencies = append(latencies, time.Since(from))
				if gerr != nil {
					mu.Lock()
					err = errors.Join(err, gerr)
					mu.Unlock()
					return
				}
				if status != http.StatusOK && status != http.StatusNotFound {
					failed++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			f.latencies = append(f.latencies, latencies...)
			f.failed += failed
		})
	}
	wg.Wait()
	f.took, f.queries, f.requests = time.Since(begin), s.db.queries.Load()-before, len(f.latencies)
	slices.Sort(f.latencies)
	return &f, errors.Join(err, c.close())
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
