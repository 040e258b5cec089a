package txn

import (
	"context"
	"fmt"
	"time"

	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// budgetSetting is the time that an EXEC of a server's client has if it writes, in milliseconds, 0 for no limit. It counts
// from when EXEC begins to wait for the writes under way, since EXEC makes others wait from then on, up to the commit. A
// session within the process that has the store open has no limit: its caller has a context.
const budgetSetting = "exec-budget"

func settings() []module.Setting {
	return []module.Setting{{
		Name: budgetSetting, Default: "1000", Check: module.IntegerSetting(0, 3_600_000),
		Summary: "Milliseconds after which an EXEC that writes is given up and changes nothing; 0 for never.",
	}, {
		Name: onErrorSetting, Default: continues, Check: module.WordSetting(continues, rollsBack),
		Summary: "What EXEC does when a command answers an error, also in an array: continue as Redis does, or roll all back.",
	}}
}

// A clock calls f after some time, unless stop is called before. It is time.AfterFunc except in tests.
type clock func(d time.Duration, f func()) (stop func() bool)

func systemClock(d time.Duration, f func()) (stop func() bool) { return time.AfterFunc(d, f).Stop }

// limit returns the context of a transaction that may take as long as the setting says. When the time is over, the
// context ends, and its cause is the error for the client. The caller calls done at last.
func (after clock) limit(c *module.Call) (ctx context.Context, done func()) {
	n := c.Host.SettingInt(budgetSetting)
	if n == 0 || c.Session.Connection == nil {
		return c.Context, func() {}
	}
	ctx, cancel := context.WithCancelCause(c.Context)
	stop := after(time.Duration(n)*time.Millisecond, func() {
		cancel(reply.TextError(fmt.Sprintf("EXECABORT Transaction undone, because it took longer than the %d milliseconds of %s. "+
			"Give fewer commands at a time, or commands that read outside of it.", n, budgetSetting)))
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
