package freeze

// WaitsForChanges reports whether Freeze waits for the changes under way.
func (fs *FS) WaitsForChanges() bool {
	if !fs.gate.TryRLock() {
		return true
	}
	fs.gate.RUnlock()
	return false
}

// BallastGivenUp reports whether who makes the ballast is asked to stop.
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

// LosePatience has opens that lack a descriptor tried again but as long as it takes.
func (fs *FS) LosePatience() { fs.patience = 0 }

// Reserved returns how many descriptors are in reserve.
func (fs *FS) Reserved() int {
	fs.reserve.mu.Lock()
	defer fs.reserve.mu.Unlock()
	return len(fs.reserve.files)
}
