package backup

// SetFreeSpace replaces what a restore asks for the room on its disk, until restore is called.
func SetFreeSpace(f func(dir string) (uint64, error)) (restore func()) {
	old := freeSpace
	freeSpace = f
	return func() { freeSpace = old }
}
