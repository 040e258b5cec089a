package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

const layoutsAbout = `Commands a second, and for BF.MADD items, on filters with the compatible layout, which is RedisBloom's bit
for bit, beside the same commands on filters with the native one, of one ` + "`kvshell serve`" + `. The client and the commands are as in "server", also
without pipelines. Filters are made at 1 %. The bits of an item are all over a compatible filter, and in one line of 64 bytes of a
native one: an add to a large compatible filter writes as many blocks as the item has bits, and a batch of adds one operand for
each block that it changes. Cuckoo filters are made with the defaults of the layout, which are not the same.`

// layouts compares the compatible layout with the native one.
func layouts(b *bench) error {
	kvshell, err := b.kvshell()
	if err != nil {
		return err
	}
	p, err := b.startOurs(kvshell, "everysec")
	if err != nil {
		return err
	}
	defer p.stop()
	for _, layout := range []string{"compatible", "native"} {
		b.progress("filling a filter with the %s layout", layout)
		if err := errors.Join(p.makeFilter("bf", layout, "old", million), p.fill(addOld(layout), million)); err != nil {
			return err
		}
	}
	during, reps := pick(b, 250*time.Millisecond, time.Second, 2*time.Second), pick(b, 3, 7, 9)
	for _, c := range []struct {
		kind     string // of filter: the first letters of its commands
		command  func(layout string) command
		unit     string
		capacity uint64 // of a filter that is made for each measurement, 0 for none
		what     string
		must     *must
	}{
		{"bf", addNewTo("BF.ADD"), "commands/s", million, "filter of a million", ratioAtLeast(0.5)},
		{"bf", addNewTo("BF.ADD"), "commands/s", 50 * million, "filter of 50 million", nil},
		{"bf", maddTo, "items/s", 10 * million, "filter of 10 million", nil},
		{"bf", existsIn, "commands/s", 0, "filter of a million", ratioAtLeast(0.5)},
		{"cf", addNewTo("CF.ADD"), "commands/s", million, "filter of a million", nil},
	} {
		for _, pipeline := range []int{1, 16, 100} {
			measure := func(layout string) side {
				of := c.command(layout)
				return side{layout + " " + of.name, func() (float64, error) {
					if c.capacity > 0 {
						if err := p.makeFilter(c.kind, layout, "new", c.capacity); err != nil {
							return 0, err
						}
					}
					return measureServer(p.addr, of, pipeline, during, &p.sent)
				}}
			}
			figures, err := b.interleave(reps, measure("compatible"), measure("native"))
			if err != nil {
				return err
			}
			b.row(row{
				what: fmt.Sprintf("%s, %s, pipeline of %d", c.command("").name, c.what, pipeline), unit: c.unit,
				ours: figures[0], peer: "native layout", theirs: figures[1], must: c.must,
			})
		}
	}
	return nil
}

// makeFilter makes a filter of a kind and a layout again.
func (p *process) makeFilter(kind, layout, key string, capacity uint64) error {
	key += ":" + layout
	if err := once(p.addr, "CONFIG", "SET", kind+"-layout", layout); err != nil {
		return err
	}
	if kind == "cf" {
		return errors.Join(once(p.addr, "DEL", key), once(p.addr, "CF.RESERVE", key, strconv.FormatUint(capacity, 10)))
	}
	return p.freshFilter(key, capacity)
}

func addNewTo(word string) func(layout string) command {
	return func(layout string) command {
		return command{word + " of new items", 1, func(out []byte, n, _ uint64) []byte {
			return appendNumber(appendWords(out, 3, word, "new:"+layout), "new:", n)
		}}
	}
}

func maddTo(layout string) command {
	return command{madd.name, madd.items, func(out []byte, n, _ uint64) []byte {
		out = appendWords(out, 102, "BF.MADD", "new:"+layout)
		for i := range uint64(100) {
			out = appendNumber(out, "item:", n*100+i)
		}
		return out
	}}
}

func existsIn(layout string) command {
	return command{exists.name, 1, func(out []byte, _, random uint64) []byte {
		return appendNumber(appendWords(out, 3, "BF.EXISTS", "old:"+layout), "item:", random%(2*million))
	}}
}

// addOld adds the items that are looked up.
func addOld(layout string) command {
	return command{"BF.ADD", 1, func(out []byte, n, _ uint64) []byte {
		return appendNumber(appendWords(out, 3, "BF.ADD", "old:"+layout), "item:", n)
	}}
}
