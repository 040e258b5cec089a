package server

import (
	"time"

	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/txn"
)

// After a transaction that took longer than shortTransaction, the next one that may take long waits transactionRest times
// as long as it took, at most longestTransactionRest: otherwise transactions one after the other would leave no time to
// other writes.
const (
	shortTransaction       = 10 * time.Millisecond
	transactionRest        = 4
	longestTransactionRest = 4 * time.Second
)

// acquireTransaction waits until EXEC may run, if it writes and may take long: such transactions run one at a time. The
// connection that has used the processor least is next. It is not ok if the client is gone, or if the server has given up
// commands.
func (c *conn) acquireTransaction(cmd *module.Command) (ok bool) {
	if cmd == nil || cmd.Name != "EXEC" {
		return true
	}
	if long, writes := txn.QueuedLong(c.session, mayTakeLong); !long || !writes {
		return true
	}
	c.endTurn()
	c.beginWatch()
	c.alone = c.server.transactions.await(c.use, c.ctx.Done())
	return c.alone != nil
}

// releaseTransaction ends what acquireTransaction began.
func (c *conn) releaseTransaction() {
	one := c.alone
	if one == nil {
		return
	}
	c.alone = nil
	if took := time.Since(one.since); took > shortTransaction {
		time.AfterFunc(min(transactionRest*took, longestTransactionRest), one.end)
		return
	}
	one.end()
}

// runsLong reports whether a command that runs now is expected to take long. MULTI only queues commands; EXEC runs
// them.
func (c *conn) runsLong(cmd *module.Command) bool {
	isLong := c.server.stats.isLong
	if cmd != nil && cmd.Name == "EXEC" {
		long, _ := txn.QueuedLong(c.session, isLong)
		return long
	}
	if !isLong(cmd) {
		return false
	}
	_, multi := txn.Queued(c.session)
	return !multi
}
