//go:build unix

package rounds

import (
	"os"
	"syscall"
)

// stop stops a process until resume.
func stop(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// resume has a process go on.
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
