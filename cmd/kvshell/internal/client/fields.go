package client

import "github.com/sievekv/sievekv/module/reply"

// Fields returns the values of a map by their names. In RESP2 a map is an array of names and values in turn.
func Fields(r reply.Reply) map[string]reply.Reply {
	values, elems := make(map[string]reply.Reply), r.Elems()
	for i := 0; i+1 < len(elems); i += 2 {
		values[string(elems[i].Bytes())] = elems[i+1]
	}
	return values
}
