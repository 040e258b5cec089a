//go:build !linux

package server

import "net"

// hungUp reports whether the other end of a connection has closed its side, and whether that is known.
func hungUp(net.Conn) (hungUp, known bool) { return false, false }
