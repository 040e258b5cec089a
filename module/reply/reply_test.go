package reply_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/module/reply"
)

func TestReply_accessors(t *testing.T) {
	one, two := reply.Int(1), reply.BulkString("b")
	tests := []struct {
		r      reply.Reply
		kind   reply.Kind
		num    int64
		double float64
		bytes  string
		elems  []reply.Reply
	}{
		{r: reply.Reply{}, kind: reply.KindNil},
		{r: reply.Nil, kind: reply.KindNil},
		{r: reply.OK, kind: reply.KindStatus, bytes: "OK"},
		{r: reply.Status("PONG"), kind: reply.KindStatus, bytes: "PONG"},
		{r: reply.Error("ERR x"), kind: reply.KindError, bytes: "ERR x"},
		{r: reply.Errorf("ERR %d", 5), kind: reply.KindError, bytes: "ERR 5"},
		{r: reply.Int(math.MinInt64), kind: reply.KindInt, num: math.MinInt64},
		{r: reply.AtLeast(15), kind: reply.KindInt, num: 15},
		{r: reply.Bool(true), kind: reply.KindBool, num: 1},
		{r: reply.Bool(false), kind: reply.KindBool},
		{r: reply.Double(-2.5), kind: reply.KindDouble, double: -2.5},
		{r: reply.Double(math.Inf(1)), kind: reply.KindDouble, double: math.Inf(1)},
		{r: reply.Bulk([]byte{0, 255}), kind: reply.KindBulk, bytes: "\x00\xff"},
		{r: reply.Bulk(nil), kind: reply.KindBulk},
		{r: reply.Verbatim("a\n"), kind: reply.KindVerbatim, bytes: "a\n"},
		{r: reply.Array(one, two), kind: reply.KindArray, elems: []reply.Reply{one, two}},
		{r: reply.Array(), kind: reply.KindArray},
		{r: reply.Bools([]bool{true, false}), kind: reply.KindArray, elems: []reply.Reply{reply.Bool(true), reply.Bool(false)}},
		{r: reply.Bools(nil), kind: reply.KindArray},
		{r: reply.Set(one, two), kind: reply.KindSet, elems: []reply.Reply{one, two}},
		{r: reply.Map(reply.Field("b", one)), kind: reply.KindMap, elems: []reply.Reply{two, one}},
		{r: reply.Map(), kind: reply.KindMap},
		{r: reply.Either(one, two), kind: reply.KindEither, elems: []reply.Reply{one, two}},
	}
	for _, tt := range tests {
		t.Run(tt.kind.String()+" "+tt.r.String(), func(t *testing.T) {
			if tt.r.Kind() != tt.kind || tt.r.Int() != tt.num || tt.r.Double() != tt.double ||
				string(tt.r.Bytes()) != tt.bytes || !reflect.DeepEqual(tt.r.Elems(), tt.elems) {
				t.Errorf("kind %v, int %d, double %v, bytes %q, elems %v", tt.r.Kind(), tt.r.Int(),
					tt.r.Double(), tt.r.Bytes(), tt.r.Elems())
			}
			if tt.r.IsError() != (tt.kind == reply.KindError) || (tt.r.Err() != nil) != tt.r.IsError() {
				t.Errorf("IsError %v, Err %v", tt.r.IsError(), tt.r.Err())
			}
		})
	}
}

func TestReply_Err(t *testing.T) {
	err := fmt.Errorf("adding: %w", reply.Error("Filter is full").Err())
	if !errors.Is(err, reply.TextError("Filter is full")) || err.Error() != "adding: Filter is full" {
		t.Errorf("error is %v", err)
	}
	if err := reply.Array(reply.Error("ERR x")).Err(); err != nil {
		t.Errorf("an array with an error inside gives %v", err)
	}
}

// A line break would end the reply on the wire, and what follows would be read as the next one.
func TestReply_lineBreaksInErrorsAndStatuses(t *testing.T) {
	for _, r := range []reply.Reply{reply.Error("a\r\n+OK\n"), reply.Errorf("a%s+OK\n", "\r\n"), reply.Status("a\r\n+OK\n")} {
		if got, want := string(r.Bytes()), "a  +OK "; got != want {
			t.Errorf("%v holds %q, want %q", r.Kind(), got, want)
		}
	}
}

func TestReply_DeepEqual(t *testing.T) {
	pairs := [][2]reply.Reply{
		{reply.Bulk(nil), reply.Bulk([]byte{})},
		{reply.BulkString(""), reply.Bulk(nil)},
		{reply.Array(), reply.Array([]reply.Reply{}...)},
		{reply.Map(), reply.Map([]reply.Pair{}...)},
		{reply.Double(math.NaN()), reply.Double(math.NaN())},
		{reply.Array(reply.OK, reply.Nil), reply.Array(reply.Status("OK"), reply.Reply{})},
		{reply.AtLeast(15), reply.AtLeast(15).RESP2()},
	}
	for _, p := range pairs {
		if !reflect.DeepEqual(p[0], p[1]) {
			t.Errorf("%v %q differs from %v %q", p[0].Kind(), p[0], p[1].Kind(), p[1])
		}
	}
	for _, p := range [][2]reply.Reply{
		{reply.Nil, reply.Bulk(nil)}, {reply.Int(1), reply.Bool(true)}, {reply.Int(15), reply.AtLeast(15)},
	} {
		if reflect.DeepEqual(p[0], p[1]) {
			t.Errorf("%v %q and %v %q are equal", p[0].Kind(), p[0], p[1].Kind(), p[1])
		}
	}
}

func TestReply_RESP2(t *testing.T) {
	one, key := reply.Bool(true), reply.BulkString("k")
	either := reply.Either(reply.Int(-1), reply.Bool(false))
	tests := []struct {
		name            string
		r, resp2, resp3 reply.Reply
	}{
		{name: "boolean", r: one, resp2: reply.Int(1), resp3: one},
		{name: "double", r: reply.Double(2.5), resp2: reply.BulkString("2.5"), resp3: reply.Double(2.5)},
		{name: "map", r: reply.Map(reply.Pair{Key: key, Value: one}), resp2: reply.Array(key, one),
			resp3: reply.Map(reply.Field("k", one))},
		{name: "empty map", r: reply.Map(), resp2: reply.Array(), resp3: reply.Map()},
		{name: "set", r: reply.Set(key, one), resp2: reply.Array(key, one), resp3: reply.Set(key, one)},
		{name: "verbatim", r: reply.Verbatim("a\nb"), resp2: reply.BulkString("a\nb"), resp3: reply.Verbatim("a\nb")},
		{name: "either", r: either, resp2: reply.Int(-1), resp3: reply.Bool(false)},
		{name: "either of a form with forms of its own", r: reply.Either(reply.Either(one, key), either),
			resp2: reply.Int(1), resp3: reply.Bool(false)},
		{name: "nil", r: reply.Nil, resp2: reply.Nil, resp3: reply.Nil},
		{name: "status", r: reply.OK, resp2: reply.OK, resp3: reply.OK},
		{name: "error", r: reply.Error("ERR x"), resp2: reply.Error("ERR x"), resp3: reply.Error("ERR x")},
		{name: "integer", r: reply.Int(7), resp2: reply.Int(7), resp3: reply.Int(7)},
		{name: "bulk", r: key, resp2: key, resp3: key},
		{name: "array", r: reply.Array(either), resp2: reply.Array(either), resp3: reply.Array(either)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.r.RESP2(); !reflect.DeepEqual(got, tt.resp2) {
				t.Errorf("RESP2 form is %v %s", got.Kind(), got)
			}
			if got := tt.r.RESP3(); !reflect.DeepEqual(got, tt.resp3) {
				t.Errorf("RESP3 form is %v %s", got.Kind(), got)
			}
		})
	}
}

func TestKind_String(t *testing.T) {
	for k, want := range map[reply.Kind]string{
		reply.KindNil: "nil", reply.KindArray: "array", reply.KindEither: "either", 200: "Kind(200)",
	} {
		if got := k.String(); got != want {
			t.Errorf("kind %d is named %q, want %q", uint8(k), got, want)
		}
	}
}

// An array of booleans is shown as the same array of replies is.
func TestBools(t *testing.T) {
	compact, plain := reply.Bools([]bool{true, false, true}), reply.Array(reply.Bool(true), reply.Bool(false), reply.Bool(true))
	for name, show := range map[string]func(dst []byte, r reply.Reply) []byte{
		"text": reply.AppendText, "raw": reply.AppendRaw, "CSV": reply.AppendCSV, "JSON": reply.AppendJSON,
	} {
		if got, want := string(show(nil, compact)), string(show(nil, plain)); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if values, ok := compact.AsBools(); !ok || string(values) != "\x01\x00\x01" {
		t.Errorf("AsBools = %v, %v", values, ok)
	}
	if _, ok := plain.AsBools(); ok {
		t.Error("an array of replies has AsBools")
	}
}

// Errors finds errors at any depth, and what Full has marked.
func TestReply_Errors(t *testing.T) {
	full := reply.Full(reply.Error("ERR full"))
	for name, test := range map[string]struct {
		reply reply.Reply
		want  []string
	}{
		"nil":              {reply.Nil, nil},
		"error":            {reply.Error("ERR a"), []string{"ERR a"}},
		"full":             {full, []string{"ERR full"}},
		"marked number":    {reply.Full(reply.Int(-1)), []string{"Filter is full"}},
		"number":           {reply.Int(-1), nil},
		"marked forms":     {reply.Array(reply.Int(1), reply.Full(reply.Either(reply.Int(-1), reply.Bool(false)))), []string{"Filter is full"}},
		"booleans":         {reply.Bools([]bool{true, false}), nil},
		"arrays":           {reply.Array(reply.Error("ERR a"), reply.Array(reply.OK, full), reply.Error("ERR b")), []string{"ERR a", "ERR full", "ERR b"}},
		"map and set":      {reply.Map(reply.Field("a", reply.Set(reply.Error("ERR a")))), []string{"ERR a"}},
		"one of two forms": {reply.Either(reply.Array(reply.Error("ERR a")), reply.Map(reply.Field("a", reply.Error("ERR a")))), []string{"ERR a"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for failure := range test.reply.Errors() {
				got = append(got, string(failure.Bytes()))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
			for range test.reply.Errors() {
				break // must end the iteration
			}
		})
	}
}
