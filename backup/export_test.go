package backup

import "github.com/cockroachdb/pebble/v2/vfs"

// SetDiskUsage replaces what a restore asks for the room on its disk, until restore is called.
func SetDiskUsage(f func(dir string) (vfs.DiskUsage, error)) (restore func()) {
	old := diskUsage
	diskUsage = f
	return func() { diskUsage = old }
}
