package wire

import (
	"context"
	"fmt"
	"time"
)

// Pauses after a connection for probes has failed. A program that does not know probes tells of each attempt in its log.
const (
	minProbePause = 100 * time.Millisecond
	maxProbePause = 10 * time.Second
)

// probe probes the member until ctx ends. It has a connection of its own, so that no message holds up the answers.
func (p *peer) probe(ctx context.Context) {
	for pause := minProbePause; ctx.Err() == nil; pause = min(2*pause, maxProbePause) {
		if c, err := p.dial(ctx, forProbes); err == nil {
			pause = minProbePause
			_ = p.probeBy(ctx, c) // the connection of the messages tells what is wrong
			c.close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// probeBy probes the member by one connection, until that fails or ctx ends.
func (p *peer) probeBy(ctx context.Context, c *conn) error {
	tick := time.NewTicker(p.t.opts.ProbeEvery)
	defer tick.Stop()
	for {
		asked := time.Now()
		if err := c.send(frameProbe, nil); err != nil {
			return err
		}
		kind, err := c.read(maxHello)
		if err == nil && kind != frameProbe {
			err = fmt.Errorf("%w: kind %d in place of an answer to a probe", errFrame, kind)
		}
		if err != nil {
			return err
		}
		p.t.opts.Probed(p.id, c.body.Bytes(), time.Since(asked))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// answerProbes answers the probes of a member until the connection ends.
func (t *Transport) answerProbes(c *conn) error {
	for {
		kind, err := c.read(0)
		if err == nil && kind != frameProbe {
			err = fmt.Errorf("%w: kind %d in place of a probe", errFrame, kind)
		}
		var answer []byte
		if err == nil && t.opts.Probe != nil {
			answer = t.opts.Probe()
		}
		if err == nil {
			err = c.send(frameProbe, answer)
		}
		if err != nil {
			return err
		}
	}
}
