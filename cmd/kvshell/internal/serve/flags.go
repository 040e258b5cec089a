package serve

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cliflags"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
)

// Flags are the flags of serve.
type Flags struct {
	addr, socket  string
	socketMode    socketMode
	passwordFile  string
	aclFile       string
	tls           tlsFiles
	metricsAddr   string
	metricsSecret string // a file
	metrics       server.MetricsOptions
	metricsTLS    tlsFiles
	uiAddr        string
	uiHosts       []string
	uiTLS         tlsFiles
	openToAll     bool
	settings      []string
	cluster       ClusterFlags

	// ClientsMemory is the setting maxmemory-clients unless settings has it; 0 for its default.
	ClientsMemory int64
}

const clientsMemorySetting = "maxmemory-clients"

// settingFlag is the name of the flag for a setting.
const settingFlag = "set"

// Register adds the flags to a command.
func (f *Flags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.addr, "addr", "127.0.0.1:6380", "`HOST:PORT` to listen on; \"\" for none, an empty HOST for every address")
	flags.StringVar(&f.socket, "unixsocket", "", "`PATH` of a socket to listen on, for clients of this user unless --unixsocketperm says more")
	flags.Var(&f.socketMode, "unixsocketperm", "`MODE` of the socket, as of chmod: 660 for clients of this group, 666 for all users of the machine (default 600)")
	cliflags.FileVar(flags, &f.passwordFile, "requirepass-file", "`FILE` whose first line is the password clients have to give")
	cliflags.FileVar(flags, &f.aclFile, "acl-file", "`FILE` with users and what they may do, in the form of Redis; it takes the place of --requirepass-file")
	flags.BoolVar(&f.openToAll, "no-protected-mode", false, "serve other machines though there is no password")
	f.tls.register(flags, "tls", "addr")
	flags.Var(&f.tls.client, "tls-client-auth", "`WHETHER` clients need such a certificate: required, or optional, for clients that have none (default required)")
	flags.StringVar(&f.metricsAddr, "metrics-addr", "", "`HOST:PORT` for /metrics, /healthz and /readyz over HTTP, such as 127.0.0.1:9121")
	cliflags.FileVar(flags, &f.metricsSecret, "metrics-password-file", "`FILE` whose first line is the password for /metrics, which then shows the keys of the largest filters")
	flags.BoolVar(&f.metrics.Keys, "metrics-keys", false, "show the keys of the largest filters without a password, too")
	flags.StringArrayVar(&f.metrics.Hosts, "metrics-host", nil, "a `NAME` that /metrics is asked for by, beside localhost and addresses; may be given several times")
	f.metricsTLS.register(flags, "metrics-tls", "metrics-addr")
	flags.StringVar(&f.uiAddr, "ui-addr", "", "`HOST:PORT` for the dashboard, pages for a browser, such as 127.0.0.1:6381; another machine's browser needs TLS and a password")
	flags.StringArrayVar(&f.uiHosts, "ui-host", nil, "a `NAME` that the dashboard is asked for by, beside localhost and addresses; may be given several times")
	f.uiTLS.register(flags, "ui-tls", "ui-addr")
	f.cluster.register(flags)
	flags.StringArrayVar(&f.settings, settingFlag, nil, "a setting as of CONFIG SET, `NAME=VALUE`; may be given several times")
}

// tlsFiles returns the files of the addresses that may take TLS.
func (f *Flags) tlsFiles() []*tlsFiles { return []*tlsFiles{&f.tls, &f.metricsTLS, &f.uiTLS} }

// check returns an error for flags that do not go together.
func (f *Flags) check() error {
	switch {
	case f.addr == "" && f.socket == "":
		return exit.Usagef(`serve: --addr "" leaves no address to listen on: give one, or --unixsocket PATH`)
	case f.socket == "" && f.socketMode != 0:
		return exit.Usagef("serve: --unixsocketperm %v is for --unixsocket, which is not given", &f.socketMode)
	case f.addr == "" && f.tls.cert != "":
		return exit.Usagef(`serve: --tls-cert is for --addr, which is "": give one, or leave it out`)
	case f.metricsAddr == "" && f.metricsTLS.cert != "":
		return exit.Usagef("serve: --metrics-tls-cert is for --metrics-addr, which is not given")
	case f.uiAddr == "" && f.uiTLS.cert != "":
		return exit.Usagef("serve: --ui-tls-cert is for --ui-addr, which is not given")
	case f.uiAddr == "" && len(f.uiHosts) > 0:
		return exit.Usagef("serve: --ui-host is for --ui-addr, which is not given")
	case f.aclFile != "" && f.passwordFile != "":
		return exit.Usagef("serve: --acl-file and --requirepass-file: the first says what the default user's password is, give only one")
	}
	for _, files := range f.tlsFiles() {
		if err := files.check(); err != nil {
			return err
		}
	}
	return cmp.Or(checkAddress("addr", f.addr), checkAddress("metrics-addr", f.metricsAddr), f.checkUI(), f.cluster.check(f.addr))
}

// checkAddress returns an error for a flag that is not empty and cannot be the address of a socket.
func checkAddress(flag, address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil && port != "" {
		if _, err = net.LookupPort("tcp", port); err == nil {
			return nil
		}
	}
	return exit.Usagef("serve: --%s %s: must be HOST:PORT, such as 127.0.0.1:6380, with a port of 0 to 65535", flag, address)
}

// oldNames are old names of arguments of RedisBloom's module, and the settings that these are.
var oldNames = map[string]string{
	"ERROR_RATE": "bf-error-rate", "INITIAL_SIZE": "bf-initial-size", "CF_MAX_EXPANSIONS": "cf-max-expansions",
}

// setting returns the name and the value of a setting NAME=VALUE.
func setting(text string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(text, "=")
	if now, old := oldNames[strings.ToUpper(name)]; old {
		name = now
	}
	return name, value, ok
}

// checkSettings returns an error for a setting that a store with this table will not take.
func (f *Flags) checkSettings(table *module.Table) error {
	pairs := make([][2]string, len(f.settings))
	for i, text := range f.settings {
		name, value, ok := setting(text)
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

// Set changes the settings of a store. They have passed checkSettings.
func (f *Flags) Set(db *kv.DB) error {
	if f.ClientsMemory != 0 {
		if err := module.Of(db).SetSetting(clientsMemorySetting, strconv.FormatInt(f.ClientsMemory, 10)); err != nil {
			return err
		}
	}
	for _, text := range f.settings {
		name, value, _ := setting(text)
		if err := module.Of(db).SetSetting(name, value); err != nil {
			return exit.WithCode(exit.Usage, fmt.Errorf("serve: --set %s: %w", text, err))
		}
	}
	return nil
}
