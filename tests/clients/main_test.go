package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"testing"
)

// Libraries that are linked here go on through transfers and kills, and count nothing twice that they have sent once.
func TestRun(t *testing.T) {
	names := []string{"go-redis", "go-redis that does not repeat", "rueidis"}
	found, err := run(t.Context(), options{clients: names, transfers: 4, kills: 2})
	for _, f := range found {
		t.Log(f)
		if f.answers["OK"] == 0 || f.counters[0].acked == 0 || f.counters[1].acked == 0 {
			t.Errorf("%s, %s: nothing was acknowledged", f.client, f.phase)
		}
	}
	if err != nil || len(found) != 2*len(names) {
		t.Errorf("%d findings, %v, want %d", len(found), err, 2*len(names))
	}
}

// Each kind of answer says whether a command was done. Others are wrong.
func TestWorker_outcomeOf(t *testing.T) {
	for _, c := range []struct {
		err     error
		repeats bool
		want    outcome
		wrong   int
	}{
		{nil, false, acknowledged, 0},
		{errors.New("UNKNOWN it may have been done"), false, unknown, 0},
		{errors.New("MOVED 1 127.0.0.1:1"), false, refused, 0},
		{errors.New("MOVED 1 127.0.0.1:1"), true, unknown, 0},
		{errors.New("CLUSTERDOWN no leader"), false, refused, 0},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, false, refused, 0},
		{io.EOF, false, unknown, 0},
		{errors.New("ERR syntax error"), false, unknown, 1},
		{errors.New("READONLY You can't write against a read only replica"), false, unknown, 1},
	} {
		w := &worker{library: library{repeats: c.repeats}, finding: finding{answers: make(map[string]int)}}
		if got := w.outcomeOf(c.err); got != c.want || len(w.wrong) != c.wrong {
			t.Errorf("%v, repeats %t: outcome %d, wrong %v, want %d and %d", c.err, c.repeats, got, w.wrong, c.want, c.wrong)
		}
	}
}

// A counter that is below what was acknowledged is found at once.
func TestWorker_count(t *testing.T) {
	w := &worker{finding: finding{answers: make(map[string]int)}}
	w.count(0, int64(1), nil)
	w.count(0, int64(2), nil)
	w.count(0, nil, io.EOF)
	if w.counters[0] != (counted{2, 1}) || len(w.wrong) > 0 {
		t.Errorf("%+v, wrong %v", w.counters[0], w.wrong)
	}
	if w.count(0, int64(2), nil); len(w.wrong) != 1 {
		t.Errorf("wrong %v, want an increment that was lost", w.wrong)
	}
}

func TestTyped(t *testing.T) {
	for text, want := range map[string]any{
		"(integer) 7": int64(7), "(nil)": nil, `"x"`: "x", "OK": "OK", "1) (integer) 1\n2) (nil)": []any{int64(1), nil},
	} {
		if got, err := typed(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("typed(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	if got, err := typed("(error) UNKNOWN x"); fmt.Sprint(err) != "UNKNOWN x" {
		t.Errorf("an error is %v, %v", got, err)
	}
}
