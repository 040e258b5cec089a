package guard

// SetRebuildBatch sets the number of ids in a commit of Rebuild, and returns a function that sets it back.
func SetRebuildBatch(n int) (reset func()) {
	before := rebuildBatch
	rebuildBatch = n
	return func() { rebuildBatch = before }
}
