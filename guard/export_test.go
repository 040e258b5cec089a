package guard

// SetRebuildBatch sets the number of ids in a commit of Rebuild, and returns a function that sets it back.
func SetRebuildBatch(n int) (reset func()) {
	before := rebuildBatch
	rebuildBatch = n
	return func() { rebuildBatch = before }
}

// States returns the number of ids that the guard has in memory.
func (g *Guard) States() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.ids)
}
