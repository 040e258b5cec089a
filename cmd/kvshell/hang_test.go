package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/serve"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// hangVariable gives a process less time to end, and the command HANG. HANG COMMAND never answers. After HANG SYNC no
// sync ends, and after HANG DISK no call to the disk. With the value OPENING no call to the disk ends from the start.
const hangVariable = "KVSHELL_TEST_HANG"

// hangingDisk is a disk on which, from some time on, the calls that hangs chooses never end.
type hangingDisk struct {
	hangs atomic.Pointer[func(faultfs.Site) bool]
	told  sync.Once
}

func (d *hangingDisk) before(s faultfs.Site, _ string) error {
	if f := d.hangs.Load(); f != nil && (*f)(s) {
		d.told.Do(func() { fmt.Fprintln(os.Stderr, "hanging at", s) })
		select {}
	}
	return nil
}

func (d *hangingDisk) hang(at func(faultfs.Site) bool) { d.hangs.Store(&at) }

// hangWhere arranges for what a value of hangVariable says.
func hangWhere(value string) {
	if value == "" {
		return
	}
	serve.DrainTime = time.Second
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test has gone, without which nobody would end this process
		os.Exit(exit.Refused)
	}()
	disk := &hangingDisk{}
	everywhere := func(faultfs.Site) bool { return true }
	if value == "OPENING" {
		disk.hang(everywhere)
	}
	hang := module.Command{
		Name: "HANG", Arity: 2, Syntax: "what", Group: "server", Summary: "Hangs.", Complexity: "O(1)", Example: "HANG DISK",
		Handler: func(c *module.Call) reply.Reply {
			switch string(c.Args[0]) {
			case "COMMAND":
				fmt.Fprintln(os.Stderr, "hanging at a command")
				select {}
			case "SYNC":
				disk.hang(func(s faultfs.Site) bool { return s.Op == "sync" })
			case "DISK":
				disk.hang(everywhere)
			}
			return reply.OK
		},
	}
	adjust = func(o *kv.Options) {
		o.FS = &faultfs.FS{FS: vfs.Default, Before: disk.before}
		o.Modules = coreext.Add(o.Modules, module.Module{Name: "hang", Commands: []module.Command{hang}})
	}
}
