package reply_test

import (
	"os"

	"github.com/sievekv/sievekv/module/reply"
)

// A command with several items answers each one; an answer may be an error.
func ExampleArray() {
	r := reply.Array(reply.Bool(true), reply.Bool(false), reply.Error("ERR non scaling filter is full"))
	os.Stdout.Write(reply.AppendText(nil, r))
	os.Stdout.Write(reply.AppendJSON(nil, r))
	// Output:
	// 1) (integer) 1
	// 2) (integer) 0
	// 3) (error) ERR non scaling filter is full
	// [true,false,{"error":"ERR non scaling filter is full"}]
}

// BF.INFO seen CAPACITY answers an array of one element in RESP2 and a map of one entry in RESP3.
func ExampleEither() {
	capacity := reply.Int(100)
	r := reply.Either(reply.Array(capacity), reply.Map(reply.Label("Capacity", capacity)))
	os.Stdout.Write(reply.AppendText(nil, r))
	os.Stdout.Write(reply.AppendJSON(nil, r))
	// Output:
	// 1) (integer) 100
	// {"Capacity":100}
}
