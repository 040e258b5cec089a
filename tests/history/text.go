package history

import (
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/txn"
)

// text is the string: as a value, the string.
type text struct{}

func (text) Name() string { return "string" }
func (text) Keys() []int  { return []int{2, 3, 4} }

// A value that is no number is stored with padding, so that memtables fill up.
const padding = 3000

func pad(value string) string {
	if strings.HasPrefix(value, "v") {
		value += strings.Repeat(".", padding)
	}
	return value
}

func unpad(value string) string {
	return strings.TrimSuffix(value, strings.Repeat(".", padding))
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func (t text) key(random *rand.Rand) []int { return []int{2 + random.IntN(3)} }

func (t text) Read(random *rand.Rand) Command {
	return Command{Type: t, Name: "GET", Keys: t.key(random)}
}

func (t text) Write(random *rand.Rand) Command {
	c := Command{Type: t, Keys: t.key(random)}
	switch r := random.IntN(10); {
	case r < 3:
		c.Name, c.Args = "SET", []string{"v" + strconv.Itoa(random.IntN(1000))}
	case r < 5:
		c.Name, c.Args = "SET", []string{strconv.Itoa(random.IntN(100))}
	case r < 6:
		c.Name, c.Args = "SETNX", []string{strconv.Itoa(random.IntN(100))}
	default:
		c.Name, c.Args = "INCRBY", []string{strconv.Itoa(1 + random.IntN(9))}
	}
	return c
}

func (t text) Apply(v Value, c Command) (Value, string, bool) {
	missing := v.Type == ""
	switch {
	case c.Name == "SET":
		return Value{t.Name(), c.Args[0]}, ok, true
	case c.Name == "SETNX" && missing:
		return Value{t.Name(), c.Args[0]}, "1", true
	case c.Name == "SETNX":
		return v, "0", false
	case !missing && v.Type != t.Name():
		return v, wrongType, false
	case c.Name == "GET" && missing:
		return v, none, false
	case c.Name == "GET":
		return v, v.Data, false
	}
	sum := int64(0)
	if !missing {
		n, err := strconv.ParseInt(v.Data, 10, 64)
		if err != nil {
			return v, errorText(kv.ErrNotInteger), false
		}
		sum = n
	}
	n, err := strconv.ParseInt(c.Args[0], 10, 64)
	if err != nil {
		panic(err)
	}
	return Value{t.Name(), decimal(sum + n)}, decimal(sum + n), true
}

func (text) Split(Command, string) []Part { return nil }

func (text) Describe(v Value) string { return strconv.Quote(v.Data) }

func (text) Words(c Command, key string) []string {
	words := []string{c.Name, key}
	for _, arg := range c.Args {
		words = append(words, pad(arg))
	}
	return words
}

func (text) Handle(db *kv.DB, key string) Handle { return textHandle{db, key} }

type textHandle struct {
	db  *kv.DB
	key string
}

func (h textHandle) Do(c Command, level kv.Durability, scope kv.Scope) (string, bool) {
	var reply string
	var err error
	switch s := scope.(type) {
	case nil:
		reply, err = h.direct(c, level)
	case *txn.Tx:
		reply, err = h.inside(c, s)
	case *txn.Snapshot:
		reply, err = got(s.Get(h.key))
	}
	if err != nil {
		reply = errorText(err)
	}
	return reply, true
}

// got returns the reply of GET.
func got(value []byte, err error) (string, error) {
	if notFound(err) {
		return none, nil
	}
	return unpad(string(value)), err
}

func (h textHandle) direct(c Command, level kv.Durability) (string, error) {
	switch c.Name {
	case "GET":
		return got(h.db.Get([]byte(h.key)))
	case "INCRBY":
		n, err := strconv.ParseInt(c.Args[0], 10, 64)
		if err != nil {
			return "", err
		}
		sum, err := h.db.Incr(level, []byte(h.key), n)
		return decimal(sum), err
	}
	done, err := h.db.Set(level, []byte(h.key), []byte(pad(c.Args[0])), setOptions(c))
	return setReply(c, done), err
}

func (h textHandle) inside(c Command, tx *txn.Tx) (string, error) {
	switch c.Name {
	case "GET":
		return got(tx.Get(h.key))
	case "INCRBY":
		n, err := strconv.ParseInt(c.Args[0], 10, 64)
		if err != nil {
			return "", err
		}
		sum, err := tx.Incr(h.key, n)
		return decimal(sum), err
	}
	done, err := tx.SetWith(h.key, []byte(pad(c.Args[0])), setOptions(c))
	return setReply(c, done), err
}

func setOptions(c Command) (o kv.SetOptions) {
	if c.Name == "SETNX" {
		o.If = kv.SetIfMissing
	}
	return o
}

func setReply(c Command, done bool) string {
	if c.Name == "SETNX" {
		return digit(done)
	}
	return ok
}
