package server

import (
	"encoding/binary"
	"net"
	"syscall"
)

// hungUp reports whether the other end of a TCP connection has closed its side, even if bytes that it sent before are
// still unread, and whether that is known.
func hungUp(nc net.Conn) (hungUp, known bool) {
	const established = 1 // the other end has not closed its side only in this state, of those that an accepted connection has
	withDescriptor(nc, func(fd int) {
		state, err := tcpState(fd) // an error for what is not TCP
		hungUp, known = err == nil && state != established, err == nil
	})
	return hungUp, known
}

// tcpState returns the state of a TCP socket: the first byte of struct tcp_info. The system returns the number of bytes
// that the caller asks for.
func tcpState(fd int) (int, error) {
	n, err := syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_INFO)
	var first [4]byte
	binary.NativeEndian.PutUint32(first[:], uint32(n))
	return int(first[0]), err
}
