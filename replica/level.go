package replica

import (
	"fmt"

	"github.com/sievekv/sievekv/internal/entry"
)

// Messages carry the format level that a member needs to understand them (package entry). The group's level is the highest of the
// messages in its log. A leader raises it only when all members have said in their answers to probes that they know the new one.
//
// A program that knows only a lower level is refused by an error that says so. A member notes the group's level in its
// log before it applies a message of that level, and such a program does not open it afterwards. A token has the level,
// and such a program does not take it. Members also tell each other the level.

// markLevel is the mark of the group's level, one byte. There is none while it is LevelRecords.
const markLevel = "level"

// noteLevel notes a level that the group has, as others say. Any goroutine may call it.
func (n *Node) noteLevel(level byte) {
	if uint32(level) <= n.level.Load() {
		return
	}
	if err := n.opts.checkLevel(level); err != nil {
		n.m.Fail(err)
		n.run.do(func() {}) // sees that it has failed
		return
	}
	n.noting.Lock()
	defer n.noting.Unlock()
	if uint32(level) > n.level.Load() && n.log.SetMark(markLevel, []byte{level}) == nil { // a log that fails ends the member
		n.level.Store(uint32(level))
	}
}

// readLevel reads the group's level, as far as this member has noted it.
func (n *Node) readLevel() error {
	mark, err := n.log.Mark(markLevel)
	if err != nil {
		return err
	}
	level := byte(entry.LevelRecords)
	if len(mark) > 0 {
		level = mark[0]
	}
	if err := n.opts.checkLevel(level); err != nil {
		return fmt.Errorf("%s: %w", n.dir, err)
	}
	n.level.Store(uint32(level))
	return nil
}

// checkLevel refuses a group whose level this program does not know.
func (o *Options) checkLevel(level byte) error {
	if level <= o.knows() {
		return nil
	}
	return fmt.Errorf("the log of the group has messages of format level %d, this program knows up to %d: upgrade it", level, o.knows())
}

// knows returns the highest level that this program knows.
func (o *Options) knows() byte {
	if o.level != 0 {
		return o.level
	}
	return entry.Level
}

// allKnow reports whether all members have said that they know a level.
func (n *Node) allKnow(s *Status, level byte) bool {
	for _, m := range s.Members {
		if m.ID != n.id && n.clocks.level(m.ID) < level {
			return false
		}
	}
	return n.opts.knows() >= level
}
