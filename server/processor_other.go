//go:build !unix

package server

import "time"

// processorTime is what the process has used of the processors, 0 if that is not known.
func processorTime() time.Duration { return 0 }
