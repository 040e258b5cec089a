package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
)

// A history has groups of keys. No command but FLUSHALL touches keys of two groups, so
// that each group is checked by itself.
const (
	groups  = 2
	numKeys = 5 // of a group
)

func keyName(group, key int) string { return fmt.Sprintf("%d:%d", group, key) }

func notFound(err error) bool { return errors.Is(err, kv.ErrNotFound) }

// readAny and writeAny return random commands on keys of any type.
func readAny(random *rand.Rand) Command {
	c := Command{Name: []string{"TYPE", "EXISTS", "MGET"}[random.IntN(3)]}
	c.Keys = random.Perm(numKeys)[:3]
	if c.Name == "TYPE" {
		c.Keys = c.Keys[:1]
	}
	return c
}

func writeAny(random *rand.Rand) Command {
	switch r := random.IntN(20); {
	case r < 7:
		return Command{Name: "DEL", Keys: random.Perm(numKeys)[:1+random.IntN(2)]}
	case r < 13:
		return Command{Name: "RENAME", Keys: random.Perm(2)} // of one filter over the other
	case r < 18:
		return Command{Name: "RENAME", Keys: random.Perm(numKeys)[:2]}
	}
	return Command{Type: text{}, Name: "SET", Keys: random.Perm(2)[:1], Args: []string{"1"}} // over a filter
}

// applyAny does a command on keys of any type.
func applyAny(keys [numKeys]Value, c Command) (after [numKeys]Value, reply string, touched keySet) {
	before := keys
	n := 0
	for _, key := range c.Keys {
		if keys[key] != (Value{}) {
			n++
		}
	}
	switch c.Name {
	case "TYPE":
		reply = before[c.Keys[0]].Type
		if reply == "" {
			reply = "none"
		}
	case "EXISTS":
		reply = decimal(int64(n))
	case "MGET":
		elems := make([]string, len(c.Keys))
		for i, key := range c.Keys {
			elems[i] = none
			if v := before[key]; v.Type == (text{}).Name() {
				elems[i] = v.Data
			}
		}
		reply = list(elems)
	case "DEL":
		for _, key := range c.Keys {
			if before[key] != (Value{}) {
				touched.add(key)
				keys[key] = Value{}
			}
		}
		reply = decimal(int64(n))
	case "RENAME":
		from, to := c.Keys[0], c.Keys[1]
		if before[from] == (Value{}) {
			return keys, "ERR no such key", 0
		}
		keys[from], keys[to] = Value{}, before[from]
		touched.add(from)
		touched.add(to)
		reply = ok
	case "FLUSHALL":
		for key := range keys {
			if before[key] != (Value{}) {
				touched.add(key)
			}
		}
		keys, reply = [numKeys]Value{}, ok
	default:
		panic("no command of any key: " + c.Name)
	}
	return keys, reply, touched
}

// keySet is a set of keys of a group.
type keySet uint8

func (s *keySet) add(key int)     { *s |= 1 << key }
func (s keySet) has(key int) bool { return s>>key&1 != 0 }

// doAny does a command on keys of any type by the calls that Go programs use.
func doAny(ctx context.Context, db *kv.DB, c Command, names []string, level kv.Durability, scope kv.Scope) (string, bool) {
	keys := make([][]byte, len(names))
	for i, name := range names {
		keys[i] = []byte(name)
	}
	var n int
	var err error
	switch s := scope.(type) {
	case *txntest.Tx:
		switch c.Name {
		case "DEL":
			n, err = s.Delete(names...)
		case "RENAME":
			return renamed(s.Rename(names[0], names[1])), true
		case "EXISTS":
			n, err = s.Exists(names...)
		default:
			return "", false
		}
	case *txntest.Snapshot:
		if c.Name != "EXISTS" {
			return "", false
		}
		n, err = s.Exists(names...)
	case nil:
		switch c.Name {
		case "TYPE":
			name, err := db.TypeOf(keys[0])
			if err != nil {
				name = errorText(err)
			}
			return name, true
		case "MGET":
			values, err := db.MGet(keys...)
			if err != nil {
				return errorText(err), true
			}
			elems := make([]string, len(values))
			for i, v := range values {
				elems[i] = none
				if v != nil {
					elems[i] = unpad(string(v))
				}
			}
			return list(elems), true
		case "RENAME":
			return renamed(db.Rename(level, keys[0], keys[1])), true
		case "DEL":
			n, err = db.Delete(level, keys...)
		case "EXISTS":
			n, err = db.Exists(keys...)
		case "FLUSHALL":
			if err := db.DeleteAll(level); err != nil {
				return errorText(err), true
			}
			return ok, true
		}
	}
	if err != nil {
		return errorText(err), true
	}
	return decimal(int64(n)), true
}

func renamed(err error) string {
	switch {
	case notFound(err):
		return "ERR no such key"
	case err != nil:
		return errorText(err)
	}
	return ok
}
