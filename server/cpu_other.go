//go:build !unix

package server

import "time"

// processorTime does not know the processor time of the process on this system.
func processorTime() (system, user time.Duration, known bool) { return 0, 0, false }
