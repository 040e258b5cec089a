//go:build !unix

package server

import "time"

// processorTime would return the processor time of the process; it is not known here.
func processorTime() (system, user time.Duration, known bool) { return 0, 0, false }
