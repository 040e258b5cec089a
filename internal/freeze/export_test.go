package freeze

// WaitsForChanges reports whether Freeze waits for the changes under way.
func (fs *FS) WaitsForChanges() bool {
	if !fs.changes.TryRLock() {
		return true
	}
	fs.changes.RUnlock()
	return false
}

// BallastGivenUp reports whether the making of the ballast is asked to stop.
func (s *Space) BallastGivenUp() bool { return s.ballast.giveUp.Load() }

// Stopping reports whether Close was called.
func (s *Space) Stopping() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// LosePatience ends the wait for a descriptor at once, except where it has no end.
func (fs *FS) LosePatience() { fs.patience = 0 }

// Reserved returns how many descriptors are in reserve.
func (fs *FS) Reserved() int {
	fs.reserve.mu.Lock()
	defer fs.reserve.mu.Unlock()
	return len(fs.reserve.files)
}
