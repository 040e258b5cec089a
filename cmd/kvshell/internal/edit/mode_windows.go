package edit

import (
	"os"

	"golang.org/x/sys/windows"
)

// canMove reports whether a console can move its cursor, which it may have to be told.
func canMove(out *os.File) bool {
	var mode uint32
	h := windows.Handle(out.Fd())
	if os.Getenv("TERM") == "dumb" || windows.GetConsoleMode(h, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
