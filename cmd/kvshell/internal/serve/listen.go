package serve

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
	"github.com/sievekv/sievekv/server"
)

// addresses are where a server listens.
type addresses struct {
	clients []listener
	metrics net.Listener // nil for none
	ui      net.Listener // nil for none
}

// listener is an address for clients.
type listener struct {
	net.Listener
	tls *tls.Config // nil for an address without TLS
}

func (l listener) serve(s *server.Server) error {
	if l.tls != nil {
		return s.ServeTLS(l, l.tls)
	}
	return s.Serve(l)
}

// Listen begins to listen on all addresses, until Close.
func (s *Service) Listen() (err error) {
	f := s.flags
	failed := func(flag, address string, err error) error {
		return exit.WithCode(exit.Open, fmt.Errorf("serve: --%s %s: %w", flag, address, err))
	}
	if f.addr != "" {
		l, err := net.Listen("tcp", f.addr)
		if err != nil {
			return failed("addr", f.addr, err)
		}
		s.at.clients = append(s.at.clients, listener{l, f.tls.config()})
	}
	if f.socket != "" {
		l, err := listenUnix(f.socket, f.socketMode.orDefault())
		if err != nil {
			return failed("unixsocket", f.socket, err)
		}
		s.at.clients = append(s.at.clients, listener{l, nil})
	}
	if f.metricsAddr != "" {
		if s.at.metrics, err = net.Listen("tcp", f.metricsAddr); err != nil {
			return failed("metrics-addr", f.metricsAddr, err)
		}
	}
	if f.uiAddr != "" {
		if s.at.ui, err = net.Listen("tcp", f.uiAddr); err != nil {
			return failed("ui-addr", f.uiAddr, err)
		}
	}
	return nil
}

// close ends listening. Its errors do not matter: the caller returns another one, or the server has closed the address.
func (at *addresses) close() {
	for _, l := range at.clients {
		_ = l.Close()
	}
	for _, l := range []net.Listener{at.metrics, at.ui} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// socketMode is a flag that takes the mode of a socket, 0 if it is not given.
type socketMode uint32

func (m *socketMode) String() string {
	if *m == 0 {
		return ""
	}
	return fmt.Sprintf("%o", uint32(*m))
}

func (m *socketMode) Type() string { return "MODE" }

func (m *socketMode) Set(text string) error {
	switch n, err := strconv.ParseUint(text, 8, 32); {
	case err != nil, n != 0o600 && n != 0o660 && n != 0o666:
		return errors.New("must be 600, 660 or 666")
	default:
		*m = socketMode(n)
		return nil
	}
}

func (m socketMode) orDefault() fs.FileMode { return fs.FileMode(cmp.Or(m, 0o600)) }

// listenUnix makes a socket with a mode. A socket that a killed server left is replaced. Another file, or a socket that
// a process may have open, is not.
func listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	switch info, err := os.Lstat(path); {
	case err != nil: // net.Listen tells if something is wrong with the path
	case info.Mode()&os.ModeSocket == 0:
		return nil, errors.New("there is a file of this name that is no socket: name another, or remove it")
	default:
		if err := refuseOpen(path); err != nil {
			return nil, err
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	// The socket is made with its mode: if that were changed later, another user could connect in between, and stay.
	// The umask holds for the whole process; the store's files, which may be made meanwhile, are for this user alone
	// anyway.
	defer system.SetUmask(system.SetUmask(0o777 &^ int(mode)))
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	socket := &unixListener{UnixListener: l.(*net.UnixListener), path: path}
	socket.SetUnlinkOnClose(false)
	socket.file, _ = os.Lstat(path) // there is none if the name is one of Linux' abstract ones
	return socket, nil
}

// refuseOpen returns an error unless it is sure that no process has the socket open.
func refuseOpen(path string) error {
	const windows = syscall.Errno(10061) // WSAECONNREFUSED, which package syscall names otherwise
	c, err := net.Dial("unix", path)
	switch {
	case err == nil:
		_ = c.Close() // the connection was only a question
		return errors.New("another process listens on it")
	case errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, windows):
		return nil
	}
	// Its process may be busy or stopped, or it may be of another kind, or another user's.
	return fmt.Errorf("there is a socket of this name, which a process may have open: name another, or remove it (%w)", err)
}

// unixListener is a socket whose file is removed when it is closed. A file that somebody else has put in its place stays.
type unixListener struct {
	*net.UnixListener
	path string
	file fs.FileInfo // of the socket that was made, nil if it has none
	once sync.Once
}

// Close ends listening. The file is removed before the socket is closed: until then no other file can have its number.
func (l *unixListener) Close() error {
	l.once.Do(func() {
		if now, err := os.Lstat(l.path); err == nil && l.file != nil && os.SameFile(now, l.file) {
			_ = os.Remove(l.path) // one that stays is replaced by the next server
		}
	})
	return l.UnixListener.Close()
}
