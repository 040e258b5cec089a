//go:build !windows

package edit

import "os"

// canMove reports whether a terminal can move its cursor.
func canMove(*os.File) bool {
	name := os.Getenv("TERM")
	return name != "" && name != "dumb"
}
