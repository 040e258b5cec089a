package main

import (
	"errors"
	"fmt"
	"time"
)

const layoutsAbout = `Commands a second on Bloom filters with the compatible layout, which is RedisBloom's bit for bit, beside the
same commands on filters with the native one, of one ` + "`kvshell serve`" + `. The client and the commands are those of "server", also
without pipelines. Filters are made at 1 %. The bits of an item are all over a compatible filter, and in one line of 64 bytes of a
native one: an add to a large compatible filter writes as many blocks as the item has bits.`

// layouts compares the compatible layout with the native one.
func layouts(b *bench) error {
	kvshell, err := b.kvshell()
	if err != nil {
		return err
	}
	p, err := b.startOurs(kvshell)
	if err != nil {
		return err
	}
	defer p.stop()
	for _, layout := range []string{"compatible", "native"} {
		b.progress("filling a filter with the %s layout", layout)
		if err := errors.Join(p.makeFilter(layout, "old", million), p.fill(addOld(layout), million)); err != nil {
			return err
		}
	}
	during, reps := pick(b, 250*time.Millisecond, time.Second, 2*time.Second), pick(b, 3, 7, 9)
	for _, c := range []struct {
		command  func(layout string) command
		capacity uint64 // of a filter that is made for each measurement, 0 for none
		what     string
		must     *must
	}{
		{addNewTo, million, "filter of a million", ratioAtLeast(0.5)},
		{addNewTo, 50 * million, "filter of 50 million", nil},
		{existsIn, 0, "filter of a million", ratioAtLeast(0.5)},
	} {
		for _, pipeline := range []int{1, 16, 100} {
			measure := func(layout string) side {
				of := c.command(layout)
				return side{layout + " " + of.name, func() (float64, error) {
					if c.capacity > 0 {
						if err := p.makeFilter(layout, "new", c.capacity); err != nil {
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
				what: fmt.Sprintf("%s, %s, pipeline of %d", c.command("").name, c.what, pipeline), unit: "commands/s",
				ours: figures[0], peer: "native layout", theirs: figures[1], must: c.must,
			})
		}
	}
	return nil
}

// makeFilter makes a filter of a layout anew.
func (p *process) makeFilter(layout, key string, capacity uint64) error {
	return errors.Join(once(p.addr, "CONFIG", "SET", "bf-layout", layout), p.freshFilter(key+":"+layout, capacity))
}

func addNewTo(layout string) command {
	return command{addNew.name, 1, func(out []byte, n, _ uint64) []byte {
		return appendNumber(appendWords(out, 3, "BF.ADD", "new:"+layout), "new:", n)
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
