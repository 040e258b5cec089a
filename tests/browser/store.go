package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/sievekv/sievekv/tests/process"
)

// store is a store that kvshell serves, with a dashboard.
type store struct {
	dir     string
	program *process.Program
	server  *process.Server
	pages   string // the address of the dashboard
}

const user, password = "ann", "correct-horse"

// hostile are names of keys that a page must not take for anything but text.
var hostile = []string{
	"<script>window.pwned=1</script>", `"><img src=x onerror="window.pwned=2">`, "</td></table><h1>gone</h1>", "{{.}}", "javascript:window.pwned=3", "' onfocus='window.pwned=4' autofocus='",
	"line\nbreak\x00\x1b[31m", "\xff\xfe\x80", "\u202egnitset", "https://example.com/",
}

// startStore serves a new store that has filters of all kinds.
func startStore() (s *store, err error) {
	s = &store{}
	if s.dir, err = os.MkdirTemp("", "dashboard"); err != nil {
		return nil, err
	}
	users := filepath.Join(s.dir, "users.acl")
	rules := fmt.Sprintf("user default on nopass ~* +@all\nuser %s on >%s ~* +@all\n", user, password)
	if err := os.WriteFile(users, []byte(rules), 0o600); err != nil {
		return nil, err
	}
	s.program = process.In(s.dir)
	build := exec.Command("go", "build", "-o", s.program.Path(), "./cmd/kvshell")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build of kvshell: %w\n%s", err, out)
	}
	s.server, err = s.program.Start(filepath.Join(s.dir, "store"), "--ui-addr", "127.0.0.1:0", "--acl-file", users, "--set", "slowlog-log-slower-than=0")
	if err != nil {
		return nil, err
	}
	found := regexp.MustCompile(`serving the dashboard" url=(\S+)`).FindStringSubmatch(s.server.Output())
	if found == nil {
		return nil, errors.New("kvshell does not say where the dashboard is")
	}
	s.pages = found[1]
	return s, s.fill()
}

// do runs a command.
func (s *store) do(words ...string) (any, error) {
	answer, err := process.Ask(s.server.Addr, words...)
	if failure, ok := answer.(error); ok && err == nil {
		err = failure
	}
	if err != nil {
		err = fmt.Errorf("%.60q: %w", words, err)
	}
	return answer, err
}

// add adds items, whose numbers are from up to to.
func (s *store) add(command, key string, from, to int) error {
	const most = 10_000
	for ; from < to; from += most {
		words := []string{command, key}
		for i := from; i < min(to, from+most); i++ {
			words = append(words, fmt.Sprint("item ", i))
		}
		if _, err := s.do(words...); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) fill() error {
	for _, words := range [][]string{
		{"BF.RESERVE", "crawl:urls", "0.001", "1000000"}, {"BF.RESERVE", "users:seen", "0.01", "50000", "NONSCALING"}, {"BF.RESERVE", "mails:sent", "0.001", "20000", "NONSCALING"},
		{"CBF.RESERVE", "sessions:online", "0.01", "20000"}, {"BF.RESERVE", "clicks:recent", "0.01", "10000", "WINDOW", "3600", "SLICES", "4"},
		{"BF.RESERVE", "orders:done", "0.01", "100", "EXPANSION", "2"}, {"CF.RESERVE", "tokens:revoked", "100000"}, {"SET", "a string", "x"},
	} {
		if _, err := s.do(words...); err != nil {
			return err
		}
	}
	var errs []error
	for _, a := range []struct {
		command, key string
		items        int
	}{
		{"BF.MADD", "crawl:urls", 60_000}, {"BF.MADD", "users:seen", 45_000}, {"BF.MADD", "mails:sent", 19_000}, {"CBF.MADD", "sessions:online", 5000}, {"BF.MADD", "clicks:recent", 5000},
		{"BF.MADD", "orders:done", 5000}, {"BF.MEXISTS", "crawl:urls", 90_000},
	} {
		errs = append(errs, s.add(a.command, a.key, 0, a.items))
	}
	for i := range 200 {
		_, err := s.do("CF.ADD", "tokens:revoked", fmt.Sprint(i))
		errs = append(errs, err)
	}
	for i := range 120 {
		_, err := s.do("BF.RESERVE", fmt.Sprintf("tenant:%04d", i), "0.01", "1000")
		errs = append(errs, err)
	}
	for _, key := range hostile {
		_, err := s.do("BF.ADD", key, "x")
		_, asked := s.do("BF.EXISTS", key, "x")
		errs = append(errs, err, asked)
	}
	return errors.Join(errs...)
}

// path returns the path of a filter's page.
func path(key string) string {
	return "filter?key=" + base64.RawURLEncoding.EncodeToString([]byte(key))
}

// stop ends the server, and removes everything.
func (s *store) stop() {
	err := errors.Join(s.server.Stop(), os.RemoveAll(s.dir))
	if err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
	}
}
