package main

func inLog(name, file, old, changed string) mutation {
	return mutation{name: name, edits: []edit{{"internal/raftlog/" + file, old, changed}}, pkg: "./internal/raftlog", tests: "^Test"}
}

func inWire(name, file, old, changed string) mutation {
	return mutation{name: name, edits: []edit{{"internal/wire/" + file, old, changed}}, pkg: "./internal/wire", tests: "^Test"}
}

// logs are what keeps a member's log whole, and strangers out of a group.
var logs = []mutation{
	inLog("an entry of another history follows", "format.go", "before != prev.crc:", "before != prev.crc && false:"),
	inLog("the last entry of a log is not compared", "open.go", "	if w.prev != s.last {", "	if w.prev.index != s.last.index {"),
	inLog("a log that has lost its end is opened", "open.go", "if l.state.batch < least {", "if false {"),
	inLog("a log that is gone is made anew", "open.go", "case !desc.Exists && least > 0:", "case !desc.Exists && least > 1<<62:"),
	inLog("a file of another log is read", "open.go", "if some && l.state.id != l.synced.id {", "if false {"),
	inLog("what was synced is noted before it is", "write.go",
		"	if err := c.batch.SyncWait(); err != nil {", "	_ = l.synced.set(c.state.batch + 1)\n	if err := c.batch.SyncWait(); err != nil {"),
	inLog("a sync that failed is answered", "write.go",
		"	if err := l.Failed(); err != nil {\n		return err\n	}\n	if err := l.synced", "	if err := l.synced"),
	inLog("a log goes on after an error", "write.go", "if err := l.build(c, fill); err != nil {\n		return l.fail(err)", "if err := l.build(c, fill); err != nil {\n		return err"),
	inLog("entries that were replaced stay", "write.go", "if index > last {\n		return nil\n	}", "if index <= last || true {\n		return nil\n	}"),
	inLog("a second vote is stored", "write.go", "case next.term == old.term && old.vote != 0 && next.vote != old.vote:", "case false:"),
	inLog("a committed entry is replaced", "write.go", "case index <= s.hard.commit:", "case index <= s.base.index:"),
	inLog("the commit index goes down", "write.go", "max(old.commit, hs.GetCommit())", "hs.GetCommit()"),
	inLog("a truncation leaves the commit index behind", "write.go", "max(c.state.hard.commit, index)", "c.state.hard.commit"),
	inLog("a truncation takes the newest state record away", "reclaim.go", "End: appendEntryKey(nil, base)}", "End: appendEntryKey(nil, base+1)}"),
	inLog("what is excised may still be needed after a crash", "reclaim.go", "	if err := l.disk.Flush(); err != nil {", "	if err := error(nil); err != nil {"),
	inWire("another group's member is let in", "accept.go", "case h.cluster != t.opts.Cluster:", "case false:"),
	inWire("a member that is not known is let in", "accept.go", "case t.peers[h.from] == nil:", "case false:"),
	inWire("a member speaks for another", "accept.go", "m.GetFrom() != from && !passedOn ||", "m.GetFrom() != from && !passedOn && false ||"),
	inWire("a client needs no certificate", "secure.go", "tls.RequireAndVerifyClientCert", "tls.RequestClientCert"),
	inWire("a server of another CA is dialed", "secure.go", "return verify(state, c.RootCAs)", "return nil"),
	inWire("filters leave the machine in the clear", "wire.go", "err = CheckLoopback(o.Listener.Addr().String())", "err = nil"),
	inWire("a frame is as long as it says", "frame.go", "if n > uint32(most) {", "if false {"),
	inWire("there may be any number of strangers", "accept.go", "if len(t.strangers) >= maxStrangers {", "if false {"),
	inWire("a queue has no bound", "peer.go", "len(p.queue) > 0 && p.size+size > p.t.opts.Queue", "false"),
}
