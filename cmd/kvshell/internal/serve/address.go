package serve

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
)

// AddressFile is the file in a store's directory that says where the store is served. Its first line is the number of
// the process. Each further line is an address.
const AddressFile = "serve.addr"

// leaveAddress writes the address file. With it a process that finds the store locked can tell its user how to connect,
// whatever directory it runs in.
func (s *Service) leaveAddress(dir string) error {
	text := fmt.Sprintf("%d\n", os.Getpid())
	for _, l := range s.at.clients {
		network, addr := l.Addr().Network(), l.Addr().String()
		switch {
		case network == "unix":
			path, err := filepath.Abs(addr)
			if err != nil {
				return exit.WithCode(exit.Local, fmt.Errorf("serve: %w", err))
			}
			addr = path
		case s.flags.tls.requires():
			network = "tls+cert"
		case s.flags.tls.cert != "":
			network = "tls"
		}
		text += network + " " + addr + "\n"
	}
	err := system.WriteWhole(filepath.Join(dir, AddressFile), func(f *os.File) error {
		_, err := f.WriteString(text)
		return err
	})
	if err != nil {
		return exit.WithCode(exit.Local, fmt.Errorf("serve: %w", err))
	}
	return nil
}

// removeAddress removes the address file, unless it is another process's: the directory may have been replaced. If that
// fails, the file names a process that has ended, and nobody heeds it.
func removeAddress(dir string) {
	if strings.HasPrefix(readAddress(dir), fmt.Sprintf("%d\n", os.Getpid())) {
		_ = os.Remove(filepath.Join(dir, AddressFile))
	}
}

// readAddress returns what the address file has, "" if it cannot be read or is something else, such as a pipe.
func readAddress(dir string) string {
	path := filepath.Join(dir, AddressFile)
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text, _ := os.ReadFile(path) // it says how to connect, which nobody needs to know
	return string(text)
}

// HowToConnect returns the command line that connects to the store in dir, which a process serves; "" if it does not.
func HowToConnect(dir string, pid int) string {
	text := readAddress(dir)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) < 2 || lines[0] != fmt.Sprint(pid) {
		return ""
	}
	network, addr, _ := strings.Cut(lines[1], " ")
	if network == "unix" {
		return "kvshell -s " + addr
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	how := "kvshell -h " + host + " -p " + port
	switch network {
	case "tls":
		how += " --tls"
	case "tls+cert":
		how += " --tls --cert FILE --key FILE"
	}
	return how
}
