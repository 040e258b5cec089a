package coreext

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sievekv/sievekv/backup"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// backupDirSetting names the directory that clients of a server make backups in. Else they could write anywhere.
const backupDirSetting = "backup-dir"

func backupDir() module.Setting {
	return module.Setting{
		Name: backupDirSetting, Default: "",
		Summary: "The directory that SIEVE.BACKUP of a server makes backups in, an absolute path; empty: a server makes none. Clients cannot change it.",
		Check: func(word string) (string, error) {
			if word != "" && !filepath.IsAbs(word) {
				return "", errors.New("argument must be an absolute path, or empty")
			}
			return word, nil
		},
		FitsCall: func(c *module.Call, value func(string) string) error {
			if isRemote(c) && value(backupDirSetting) != c.Host.Setting(backupDirSetting) {
				return errors.New("argument can only be set when the server is started, with --set")
			}
			return nil
		},
	}
}

// isRemote reports whether a command comes from a connection of a server.
func isRemote(c *module.Call) bool { return c.Session.Connection != nil }

func backupCommand() module.Command {
	return module.Command{
		Name: "SIEVE.BACKUP", Arity: -2, Flags: module.Admin | module.NoMulti, Group: "server",
		Syntax: "directory [COPY] [CHECK]",
		Summary: "Makes a second store, as of one commit, in a directory that does not exist yet; " +
			"of a server, it is a name in the directory that the setting backup-dir names. Tables are linked, or copied with COPY; " +
			"with CHECK all of the backup is read before it is called done.",
		Complexity: "O(N) for N tables, or for N bytes stored if they are copied or checked",
		Example:    "SIEVE.BACKUP .", Handler: sieveBackup,
	}
}

func sieveBackup(c *module.Call) reply.Reply {
	var o backup.Options
	for _, word := range c.Args[1:] {
		switch text.FoldCase(word) {
		case "COPY":
			o.Copy = true
		case "CHECK":
			o.Check = true
		default:
			return reply.Errorf("ERR option '%.128s' of SIEVE.BACKUP, want COPY or CHECK", word)
		}
	}
	dir, err := backupPath(c, string(c.Args[0]))
	if err != nil {
		return reply.Errorf("ERR %v", err)
	}
	if err := backup.Make(c.Context, c.DB, dir, o); err != nil {
		return module.ErrorReply(err)
	}
	return reply.OK
}

// backupPath returns the path for a backup.
func backupPath(c *module.Call, name string) (string, error) {
	if name == "" {
		return "", errors.New(`directory is "", want the name of a backup`)
	}
	if !isRemote(c) {
		return name, nil
	}
	top := c.Host.Setting(backupDirSetting)
	if top == "" {
		return "", errors.New("this server makes no backups: start it with --set backup-dir=DIR")
	}
	if !isBackupName(name) {
		return "", fmt.Errorf("directory is %.128q, want a name of 1 to 128 bytes of printable UTF-8 that does not begin with a dot and has no '/', '\\' or ':'", name)
	}
	return filepath.Join(top, name), nil
}

// isBackupName reports whether a client may give a backup that name. It must not lead elsewhere, or mislead people who
// see it in a list, or programs that read lists.
func isBackupName(name string) bool {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return len(name) <= 128 && !strings.HasPrefix(name, ".") && !strings.ContainsAny(name, `/\:`) &&
		utf8.ValidString(name) && !strings.ContainsFunc(name, unprintable)
}
