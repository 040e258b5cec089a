package history

import (
	"bytes"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
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

// unpad returns a value in a short form: 50 or more equal bytes in a row, and any "<", are
// written as in "<46 3000>".
func unpad(value string) string {
	var b strings.Builder
	for rest := value; rest != ""; {
		n := len(rest) - len(strings.TrimLeft(rest, rest[:1]))
		if n < 50 && rest[0] != '<' {
			b.WriteString(rest[:n])
		} else {
			fmt.Fprintf(&b, "<%d %d>", rest[0], n)
		}
		rest = rest[n:]
	}
	return b.String()
}

// whole returns the value whose short form unpad has returned.
func whole(short string) []byte {
	var b []byte
	for {
		before, rest, found := strings.Cut(short, "<")
		b = append(b, before...)
		if !found {
			return b
		}
		var c, n int
		if _, err := fmt.Sscanf(rest, "%d %d>", &c, &n); err != nil {
			panic(err)
		}
		b = append(b, bytes.Repeat([]byte{byte(c)}, n)...)
		_, short, _ = strings.Cut(rest, ">")
	}
}

// changeBytes returns what SETBIT or SETRANGE makes of a value, and the reply.
func changeBytes(value []byte, c Command) ([]byte, string, bool) {
	n, err := strconv.Atoi(c.Args[0])
	if err != nil {
		panic(err)
	}
	extend := func(n int) { value = append(value, make([]byte, max(0, n-len(value)))...) }
	if c.Name == "SETRANGE" {
		extend(n + len(c.Args[1]))
		copy(value[n:], c.Args[1])
		return value, strconv.Itoa(len(value)), true
	}
	longer := n/8 >= len(value)
	extend(n/8 + 1)
	mask := byte(0x80) >> (n % 8)
	was := value[n/8]&mask != 0
	if value[n/8] &^= mask; c.Args[1] == "1" {
		value[n/8] |= mask
	}
	return value, digit(was), longer || was != (c.Args[1] == "1")
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func (t text) key(random *rand.Rand) []int { return []int{2 + random.IntN(3)} }

func (t text) Read(random *rand.Rand) Command {
	if random.IntN(2) == 0 {
		return Command{Type: t, Name: "BITCOUNT", Keys: t.key(random)}
	}
	return Command{Type: t, Name: "GET", Keys: t.key(random)}
}

func (t text) Write(random *rand.Rand) Command {
	c := Command{Type: t, Keys: t.key(random)}
	switch r := random.IntN(15); {
	case r >= 14: // over the border of two blocks
		c.Name, c.Args = "SETRANGE", []string{"8190", "v" + strconv.Itoa(100+random.IntN(100))}
	case r >= 10: // in the header, if the string is short, or in one of two blocks
		c.Name, c.Args = "SETBIT", []string{strconv.Itoa([]int{3, 13, 8*2000 + 3, 8*9000 + 2}[random.IntN(4)]), strconv.Itoa(random.IntN(2))}
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
		return Value{t.Name(), unpad(pad(c.Args[0]))}, ok, true
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
	case c.Name == "BITCOUNT":
		n := 0
		for _, b := range whole(v.Data) {
			n += bits.OnesCount8(b)
		}
		return v, strconv.Itoa(n), false
	case c.Name == "SETBIT" || c.Name == "SETRANGE":
		value, reply, touched := changeBytes(whole(v.Data), c)
		return Value{t.Name(), unpad(string(value))}, reply, touched
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
		if c.Name != "SETRANGE" {
			arg = pad(arg)
		}
		words = append(words, arg)
	}
	return words
}

func (text) Handle(db *kv.DB, key string) Handle { return textHandle{db, key} }

type textHandle struct {
	db  *kv.DB
	key string
}

func (h textHandle) Do(c Command, level kv.Durability, scope kv.Scope) (string, bool) {
	switch c.Name {
	case "BITCOUNT", "SETBIT", "SETRANGE":
		return "", false
	}
	var reply string
	var err error
	switch s := scope.(type) {
	case nil:
		reply, err = h.direct(c, level)
	case *txntest.Tx:
		reply, err = h.inside(c, s)
	case *txntest.Snapshot:
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

func (h textHandle) inside(c Command, tx *txntest.Tx) (string, error) {
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
