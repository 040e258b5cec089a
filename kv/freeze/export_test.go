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
