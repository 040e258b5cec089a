package serve

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
)

// configured returns the flags that a command line and a file make.
func configured(t *testing.T, file string, line ...string) (f *Flags, c *Config, path string, err error) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "conf")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	f = &Flags{}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.Register(flags)
	flags.String(ConfigFlag, "", "")
	flags.String("host", "", "")
	flags.Lookup("host").Hidden = true
	if err := flags.Parse(line); err != nil {
		t.Fatal(err)
	}
	c, err = ReadConfig(t.Context(), flags, path)
	return f, c, path, err
}

func TestReadConfig(t *testing.T) {
	f, _, _, err := configured(t, "\xef\xbb\xbf# all\r\n\r\n\taddr\t 0.0.0.0:1 \r\nunixsocket /tmp/a b\nunixsocketperm 660\n  # no\nno-protected-mode\nmetrics-keys false\n"+
		"set maxclients=5\nset timeout=1\nset slowlog-max-len=7\nmetrics-host a\nmetrics-host b\nmetrics-addr \"\"",
		"--unixsocketperm", "600", "--set", "TIMEOUT=2", "--metrics-host", "c")
	if err != nil {
		t.Fatal(err)
	}
	if f.addr != "0.0.0.0:1" || f.socket != "/tmp/a b" || f.socketMode != 0o600 || !f.openToAll || f.metrics.Keys || f.metricsAddr != "" {
		t.Errorf("the flags are %+v", f)
	}
	if want := []string{"maxclients=5", "timeout=1", "slowlog-max-len=7", "TIMEOUT=2"}; !slices.Equal(f.settings, want) {
		t.Errorf("the settings are %q, want %q", f.settings, want)
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(f.metrics.Hosts, want) {
		t.Errorf("the hosts are %q, want %q", f.metrics.Hosts, want)
	}
}

// What is wrong with a file is told with the line.
func TestReadConfig_bad(t *testing.T) {
	for file, want := range map[string]string{
		"\naddress x":           `:2: unknown key "address"`,
		"adr x":                 `:1: unknown key "adr"; did you mean addr?`,
		"--addr x":              `:1: unknown key "--addr"; did you mean addr?`,
		"host x":                `:1: unknown key "host"`,
		"config x":              `:1: unknown key "config"`,
		"addr=x":                `:1: unknown key "addr=x"`,
		"addr a:1\n#\naddr a:1": ":3: addr is in line 1 already",
		"set a=1\nset A=2":      ":2: set a is in line 1 already",
		"set bf-error-rate=0.1\nset ERROR_RATE=0.1":         ":2: set bf-error-rate is in line 1 already",
		"metrics-host a\nmetrics-host a":                    ":2: metrics-host a is in line 1 already",
		"addr":                                              ":1: addr needs a value behind it",
		"requirepass-file \"\"":                             `:1: requirepass-file "": must be the name of a file, and it is empty`,
		"unixsocketperm 777":                                ":1: unixsocketperm 777: must be 600, 660 or 666",
		"no-protected-mode maybe":                           ":1: no-protected-mode maybe: must be true or false",
		strings.Repeat("#\n", maxConfig):                    ": it has more than 1048576 bytes",
		"\xff\xfea":                                         ": not in UTF-16, as which it begins",
		"addr a:1 # not a comment\nunixsocketperm 666 # it": ":2: unixsocketperm 666 # it: must be 600, 660 or 666",
	} {
		_, _, path, err := configured(t, file)
		if err == nil || !strings.Contains(err.Error(), "--config "+path+want) {
			t.Errorf("%.40q: %v, want %s", file, err, want)
		}
	}
	if _, err := ReadConfig(t.Context(), pflag.NewFlagSet("", 0), filepath.Join(t.TempDir(), "nosuch")); exit.Code(err) != exit.Local {
		t.Errorf("without the file: %v", err)
	}
	// The second line for a flag of the command line is repeated, too.
	if _, _, _, err := configured(t, "addr a:1\naddr a:1", "--addr", "b:1"); err == nil {
		t.Error("a line is repeated")
	}
}

// An error about a flag that comes later tells where the file has it.
func TestConfig_Explain(t *testing.T) {
	_, c, path, err := configured(t, "tls-key x\nset timeout=5\naddr a:1\nset a=b\ntls-cert x", "--addr", "b:1")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"serve: --set timeout=5: no": ":2", "serve: --set a=b: no": ":4", "serve: --tls-cert x, --tls-key x: no": ":5", "--tls-key: no": ":1",
		"serve: --addr b:1: no": "", "--tls-certificate": "", "--set timeout": "", "": "",
	} {
		got := c.Explain(exit.Usagef("%s", text)).Error()
		if want != "" {
			want = " (--config " + path + want + ")"
		}
		if got != text+want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	if err := (*Config)(nil).Explain(nil); err != nil || c.Explain(nil) != nil {
		t.Error("no error is explained")
	}
	own := errors.New("x")
	if got := c.Explain(exit.WithCode(exit.Corrupt, own)); !errors.Is(got, own) || exit.Code(got) != exit.Corrupt {
		t.Error(got)
	}
}
