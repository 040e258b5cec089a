package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
	"github.com/sievekv/sievekv/server/acl"
	"github.com/sievekv/sievekv/server/resp"
)

// serveFlags are those of serve.
type serveFlags struct {
	addr, socket  string
	passwordFile  string
	aclFile       string
	tls           tlsFiles
	metricsAddr   string
	metricsSecret string // a file
	metrics       server.MetricsOptions
	metricsTLS    tlsFiles
	openToAll     bool
	settings      []string
}

// drainTime is how long commands that run may go on after SIGTERM. Tests have more. The process ends lastTime after it
// whatever goes on: a command that does not end, or a disk that does not answer.
var drainTime = 10 * time.Second

const lastTime = 4 * time.Second

// metricsTimes are what a client of the metrics has for the handshake and its headers, to take the answer, and between two
// requests. Tests have more.
var metricsTimes = struct{ header, write, idle time.Duration }{5 * time.Second, 30 * time.Second, 30 * time.Second}

// lastResort ends the process, with exit, when a time has passed after begin was called first, unless stop was called
// before. All that was acknowledged is as safe then as if the process had been killed: under level always it is on
// stable storage.
type lastResort struct {
	after  time.Duration
	stderr io.Writer
	exit   func(code int)

	mu    sync.Mutex
	timer *time.Timer // nil until begin; guarded by mu
}

func (l *lastResort) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		return
	}
	l.timer = time.AfterFunc(l.after, func() {
		fmt.Fprintf(l.stderr, "the store could not be closed within %v, as a command or the disk does not end: the process ends without that\n", l.after)
		l.exit(exit.Local)
	})
}

func (l *lastResort) stop() {
	l.begin() // not any more
	l.timer.Stop()
}

func (sh *shell) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serves the store to clients of Redis",
		Long:  serveHelp,
		Args:  exactArgs(0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return sh.serve(cmd.Context(), &f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.addr, "addr", "127.0.0.1:6380", "`HOST:PORT` to listen on; \"\" for none, an empty HOST for every address")
	flags.StringVar(&f.socket, "unixsocket", "", "`PATH` of a socket to listen on, for clients of this user")
	flags.StringVar(&f.passwordFile, "requirepass-file", "", "`FILE` whose first line is the password clients have to give")
	flags.StringVar(&f.aclFile, "acl-file", "", "`FILE` with users and what they may do, in the form of Redis; it takes the place of --requirepass-file")
	flags.BoolVar(&f.openToAll, "no-protected-mode", false, "serve other machines though there is no password")
	f.tls.register(flags, "tls", "addr")
	flags.Var(&f.tls.client, "tls-client-auth", "`WHETHER` clients need such a certificate: required, or optional, for clients that have none (default required)")
	flags.StringVar(&f.metricsAddr, "metrics-addr", "", "`HOST:PORT` for /metrics, /healthz and /readyz over HTTP, such as 127.0.0.1:9121")
	flags.StringVar(&f.metricsSecret, "metrics-password-file", "", "`FILE` whose first line is the password for /metrics, which then shows the keys of the largest filters")
	flags.BoolVar(&f.metrics.Keys, "metrics-keys", false, "show the keys of the largest filters without a password, too")
	flags.StringArrayVar(&f.metrics.Hosts, "metrics-host", nil, "a `NAME` that /metrics is asked for by, beside localhost and addresses; may be given several times")
	f.metricsTLS.register(flags, "metrics-tls", "metrics-addr")
	flags.StringArrayVar(&f.settings, "set", nil, "a setting as of CONFIG SET, `NAME=VALUE`; may be given several times")
	return cmd
}

// serve serves the store until SIGTERM, Ctrl-C, or the command SHUTDOWN. What the flags say, and what is in the files that
// they name, is checked before there is a store.
func (sh *shell) serve(ctx context.Context, f *serveFlags) (err error) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // which would end the process otherwise
	defer signal.Stop(hangups)
	if err := f.check(); err != nil {
		return err
	}
	sh.served = true
	opts, err := f.options(sh)
	if err != nil {
		return err
	}
	if f.metrics.Password, err = sh.readPassword("--metrics-password-file", f.metricsSecret); err != nil {
		return err
	}
	for _, files := range []*tlsFiles{&f.tls, &f.metricsTLS} {
		warnings, err := files.read()
		if err != nil {
			return exit.WithCode(exit.Local, fmt.Errorf("serve: %w", err))
		}
		for _, text := range warnings {
			fmt.Fprintln(sh.stderr, "warning:", text)
		}
	}
	if err := f.tryOut(sh.table(), opts.ACL); err != nil {
		return err
	}
	last := &lastResort{after: drainTime + lastTime, stderr: sh.stderr, exit: os.Exit}
	defer last.stop()
	defer context.AfterFunc(ctx, last.begin)() // also while the store is opened
	if os.Geteuid() == 0 {
		fmt.Fprintln(sh.stderr, "warning: running as root: serve needs none of its rights; a user of its own is safer")
	}
	db, at, err := sh.openAndListen(f)
	if err != nil {
		return err
	}
	defer sh.closeStore(db, &err)
	defer at.close() // again, if it was served
	if err := f.set(db); err != nil {
		return err
	}
	limitMemory(db)
	s, err := server.New(db, opts)
	if err != nil {
		return exit.WithCode(exit.Local, fmt.Errorf("serve: %w", err))
	}
	// Whoever reads below that the store is served can find the address in its directory.
	if err := f.leaveAddress(db.Dir(), at.clients); err != nil {
		return err
	}
	failed := make(chan error, len(at.clients)+1)
	for _, l := range at.clients {
		go func() { failed <- l.serve(s) }()
		fmt.Fprintf(sh.stderr, "serving %s at %s\n", db.Dir(), l.Addr())
	}
	stopMetrics := f.serveMetrics(sh, s, at.metrics, failed)
	logger := sh.logger()
	err = f.await(ctx, logger, s, failed, hangups)
	last.begin()
	logger.Info("sievekv: shutting down")
	removeAddress(db.Dir())
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	// Metrics go last: their clients must not take from the time that commands have, and /readyz says meanwhile that
	// the server is shutting down.
	drained := s.Shutdown(draining)
	stopMetrics(draining)
	if errors.Is(drained, context.DeadlineExceeded) {
		// Their clients were told nothing, and all that others were told is on the disk.
		logger.Warn("sievekv: commands were given up", "ran_for_longer_than", drainTime)
		if !errors.Is(drained, server.ErrStuck) {
			drained = db.Sync()
		}
	}
	return errors.Join(err, drained)
}

// await returns when the server is to end, with an error if it cannot go on. At SIGHUP files are read again.
func (f *serveFlags) await(ctx context.Context, logger *slog.Logger, s *server.Server, failed <-chan error, hangups <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done(): // SIGTERM is how a server is ended, no error
			return nil
		case <-s.ShutdownAsked():
			return nil
		case err := <-failed:
			return err
		case <-hangups:
			f.readAgain(logger)
		}
	}
}

// readAgain reads the files of TLS again. Connections that exist go on with what they have.
func (f *serveFlags) readAgain(logger *slog.Logger) {
	none := true
	for _, files := range []*tlsFiles{&f.tls, &f.metricsTLS} {
		if files.cert == "" {
			continue
		}
		none = false
		warnings, err := files.read()
		if err != nil {
			logger.Warn(fmt.Sprintf("SIGHUP: %v; --%s goes on with what was read before", err, files.address))
			continue
		}
		for _, text := range warnings {
			logger.Warn("SIGHUP: " + text)
		}
		logger.Info(fmt.Sprintf("SIGHUP: --%s has a certificate that is good until %s", files.address, inUTC(files.leaf().NotAfter)))
	}
	if none {
		logger.Info("SIGHUP: there is no certificate to read again")
	}
}

// limitMemory has the garbage collector run more often as the process comes near to what it
// is to take: the cache, the buffers of clients, and 128 MiB for memtables and all the rest.
// Otherwise garbage may take as much again. $GOMEMLIMIT says otherwise.
func limitMemory(db *kv.DB) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(module.Of(db).SettingInt("cache-size") + module.Of(db).SettingInt("maxmemory-clients") + 128<<20)
	}
}

// check returns an error for flags that do not go together.
func (f *serveFlags) check() error {
	switch {
	case f.addr == "" && f.socket == "":
		return exit.Usagef(`serve: --addr "" leaves no address to listen on: give one, or --unixsocket PATH`)
	case f.addr == "" && f.tls.cert != "":
		return exit.Usagef(`serve: --tls-cert is for --addr, which is "": give one, or leave it out`)
	case f.metricsAddr == "" && f.metricsTLS.cert != "":
		return exit.Usagef("serve: --metrics-tls-cert is for --metrics-addr, which is not given")
	case f.aclFile != "" && f.passwordFile != "":
		return exit.Usagef("serve: --acl-file and --requirepass-file: the first says what the default user's password is, give only one")
	}
	if err := f.tls.check(); err != nil {
		return err
	}
	return f.metricsTLS.check()
}

func (f *serveFlags) options(sh *shell) (*server.Options, error) {
	opts := &server.Options{ProtectedModeOff: f.openToAll, ACLFile: f.aclFile}
	var err error
	if f.aclFile != "" {
		// Once, as a pipe would be empty the second time, and let everybody in.
		opts.ACL, err = sh.readSecret("--acl-file", f.aclFile, "the users")
		return opts, err
	}
	opts.Password, err = sh.readPassword("--requirepass-file", f.passwordFile)
	return opts, err
}

// tryOut tries the users of an ACL file, nil for none, and the settings with the table that the store will have.
func (f *serveFlags) tryOut(table *module.Table, users []byte) error {
	if users != nil {
		if err := acl.New(table.Commands()).Load(f.aclFile, bytes.NewReader(users)); err != nil {
			return exit.WithCode(exit.Local, fmt.Errorf("serve: --acl-file %w", err)) // which begins with its name
		}
	}
	pairs := make([][2]string, len(f.settings))
	for i, text := range f.settings {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return exit.Usagef("serve: --set %s: must be NAME=VALUE", text)
		}
		pairs[i] = [2]string{name, value}
	}
	taken, err := table.CheckSettings(pairs)
	if err != nil {
		return exit.WithCode(exit.Usage, fmt.Errorf("serve: --set %s: %w", f.settings[taken], err))
	}
	return nil
}

// set changes settings as the flags say, which tryOut has found good.
func (f *serveFlags) set(db *kv.DB) error {
	for _, text := range f.settings {
		name, value, _ := strings.Cut(text, "=")
		if err := module.Of(db).SetSetting(name, value); err != nil {
			return exit.WithCode(exit.Usage, fmt.Errorf("serve: --set %s: %w", text, err))
		}
	}
	return nil
}

// readPassword returns the first line of a file that a flag names, "" for none.
func (sh *shell) readPassword(flag, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := sh.readSecret(flag, file, "the password")
	if err != nil {
		return "", err
	}
	password, _, _ := strings.Cut(string(text), "\n")
	password = strings.TrimSuffix(password, "\r")
	switch most := resp.UnauthenticatedLimits.Bulk; {
	case password == "":
		err = errors.New("its first line, the password, is empty")
	case int64(len(password)) > most:
		err = fmt.Errorf("the password has %d bytes, at most %d", len(password), most)
	default:
		return password, nil
	}
	return "", exit.WithCode(exit.Local, fmt.Errorf("serve: %w", fileError(flag, file, err)))
}

// readSecret returns what is in a file that a flag names, and warns if others can read or change it.
func (sh *shell) readSecret(flag, file, what string) ([]byte, error) {
	text, mode, err := readWithMode(file)
	if err != nil {
		return nil, exit.WithCode(exit.Local, fmt.Errorf("serve: %w", fileError(flag, file, err)))
	}
	if othersMay(mode) {
		// Not refused: secrets that a container is given often are like this, in a place where there are no others.
		fmt.Fprintf(sh.stderr, "warning: %s %s: others can read or change %s (mode %04o): chmod go= FILE ends that\n",
			flag, file, what, mode.Perm())
	}
	return text, nil
}

// listener is an address, and how TLS is spoken there, nil for without.
type listener struct {
	net.Listener
	tls *tls.Config
}

func (l listener) serve(s *server.Server) error {
	if l.tls != nil {
		return s.ServeTLS(l, l.tls)
	}
	return s.Serve(l)
}

// readWithMode returns what a file holds, and its mode.
func readWithMode(path string) (text []byte, mode os.FileMode, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	text, err = io.ReadAll(f)
	return text, info.Mode(), err
}

// othersMay reports whether the group or others may read or write a regular file of a mode. On Windows modes say nothing.
func othersMay(mode os.FileMode) bool {
	return runtime.GOOS != "windows" && mode.IsRegular() && mode.Perm()&0o066 != 0
}

// addresses are where a server listens.
type addresses struct {
	clients []listener
	metrics net.Listener // nil for none
}

// openAndListen opens the store and begins to listen. A store that is not there is made only when all addresses are free;
// one that is there is opened first, as whoever finds it in use is told its address.
func (sh *shell) openAndListen(f *serveFlags) (db *kv.DB, at *addresses, err error) {
	db, err = sh.openExisting()
	missing := errors.Is(err, kv.ErrNotExist)
	if err != nil && !missing {
		return nil, nil, err
	}
	at, err = f.listen()
	if err == nil && missing {
		db, err = sh.openOrCreate()
	}
	if err != nil {
		at.close()
		if db != nil {
			sh.closeStore(db, &err)
		}
		return nil, nil, err
	}
	return db, at, nil
}

// listen begins to listen on all addresses. What it returns with an error is to be closed too.
func (f *serveFlags) listen() (at *addresses, err error) {
	at = new(addresses)
	failed := func(flag, address string, err error) (*addresses, error) {
		return at, exit.WithCode(exit.Open, fmt.Errorf("serve: --%s %s: %w", flag, address, err))
	}
	if f.addr != "" {
		l, err := net.Listen("tcp", f.addr)
		if err != nil {
			return failed("addr", f.addr, err)
		}
		at.clients = append(at.clients, listener{l, f.tls.config()})
	}
	if f.socket != "" {
		l, err := listenUnix(f.socket)
		if err != nil {
			return failed("unixsocket", f.socket, err)
		}
		at.clients = append(at.clients, listener{l, nil})
	}
	if f.metricsAddr != "" {
		if at.metrics, err = net.Listen("tcp", f.metricsAddr); err != nil {
			return failed("metrics-addr", f.metricsAddr, err)
		}
	}
	return at, nil
}

// close ends listening. Errors are of nobody's interest: another one is the reason, or it has ended already.
func (at *addresses) close() {
	for _, l := range at.clients {
		_ = l.Close()
	}
	if at.metrics != nil {
		_ = at.metrics.Close()
	}
}

// listenUnix makes a socket that only this user may connect to. One that a killed server left
// is replaced; one that somebody listens on, or another file, is not.
func listenUnix(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		if c, err := net.Dial("unix", path); err == nil {
			_ = c.Close() // it was only to see
			return nil, errors.New("another process listens on it")
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	// Made so, and not changed after: whoever connects in between would stay. The umask is the whole process's; what others
	// make meanwhile, files of the store, is for this user alone with any umask.
	defer system.SetUmask(system.SetUmask(0o177))
	return net.Listen("unix", path)
}

// serveMetrics serves them over HTTP, if that is asked for and l is not nil, until stop is called.
func (f *serveFlags) serveMetrics(sh *shell, s *server.Server, l net.Listener, failed chan<- error) (stop func(context.Context)) {
	if l == nil {
		return func(context.Context) {}
	}
	// Few connections are served at a time: one that says nothing must not keep its place for long. TLS comes above, as
	// the handler asks for the certificate.
	l = s.MetricsListener(l)
	scheme := "http"
	if config := f.metricsTLS.config(); config != nil {
		l, scheme = tls.NewListener(l, config), "https"
	}
	h := &http.Server{
		Handler: s.MetricsHandler(&f.metrics), ConnContext: s.MetricsConnContext, ErrorLog: s.ErrorLog(), ReadHeaderTimeout: metricsTimes.header, ReadTimeout: 2 * metricsTimes.header,
		WriteTimeout: metricsTimes.write, IdleTimeout: metricsTimes.idle, MaxHeaderBytes: 16 << 10,
	}
	go func() {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve: --metrics-addr %s: %w", f.metricsAddr, err)
		}
	}()
	fmt.Fprintf(sh.stderr, "metrics at %s://%s/metrics\n", scheme, l.Addr())
	return func(ctx context.Context) {
		if h.Shutdown(ctx) != nil {
			_ = h.Close() // what it has to tell is of nobody's interest any more
		}
	}
}

// addressFile is the file in a store's directory that says where the store is served: the
// process, and an address on each line after it.
const addressFile = "serve.addr"

// leaveAddress says in the store's directory how to connect, for others who find it locked, in whatever
// directory they are.
func (f *serveFlags) leaveAddress(dir string, listeners []listener) error {
	text := fmt.Sprintf("%d\n", os.Getpid())
	for _, l := range listeners {
		network, addr := l.Addr().Network(), l.Addr().String()
		switch {
		case network == "unix":
			path, err := filepath.Abs(addr)
			if err != nil {
				return exit.WithCode(exit.Local, fmt.Errorf("serve: %w", err))
			}
			addr = path
		case f.tls.requires():
			network = "tls+cert"
		case f.tls.cert != "":
			network = "tls"
		}
		text += network + " " + addr + "\n"
	}
	path := filepath.Join(dir, addressFile)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return exit.WithCode(exit.Local, fmt.Errorf("serve: %w", err))
	}
	return exit.WithCode(exit.Local, os.Rename(path+".new", path))
}

func removeAddress(dir string) { _ = os.Remove(filepath.Join(dir, addressFile)) } // a stale one names a process that has gone

// howToConnect says how to reach the store in dir that a process serves, "" if it does not.
func howToConnect(dir string, pid int) string {
	text, err := os.ReadFile(filepath.Join(dir, addressFile))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
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

const serveHelp = `serve serves the store over the protocol of Redis, so that clients made for Redis with RedisBloom, redis-cli
and kvshell -h can use it, until SIGTERM, Ctrl-C or the command SHUTDOWN. Then commands that run have ten
seconds to end, everything is synced, and the exit code is 0. If a command or the disk still does not end, the process
ends without closing the store, with exit code 6, four seconds later: nothing that was acknowledged at --sync always is
lost by it. A second SIGTERM or Ctrl-C ends it at once.

A client's reply to a write comes when the write is as durable as --sync says. Commands that a client sends
without waiting for replies are made durable together.

Without a password (--requirepass-file) or users (--acl-file) only clients on this machine are served. Whoever has the
password can read, change and delete everything, and end the server; users of the ACL file can do what it lets them. A
client's certificate (--tls-client-ca) is asked for beside these, and is no login.

SIGHUP has the files of TLS read again; it ends no server. Connections that exist go on, and if a file is bad those that
were read before stay in use.

CONFIG GET * lists the settings; CONFIG SET changes them until the server ends, --set from its start.

`
