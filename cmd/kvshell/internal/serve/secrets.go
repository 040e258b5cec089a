package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/text"
	"github.com/sievekv/sievekv/internal/acl"
	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
)

// readSecrets reads the passwords and the users. It tries the users with the commands of the table: a store must not be
// made if they are bad.
func (s *Service) readSecrets(ctx context.Context, table *module.Table) (err error) {
	f := s.flags
	s.options = &server.Options{ProtectedModeOff: f.openToAll, ACLFile: f.aclFile}
	if s.options.Password, err = s.readPassword(ctx, "--requirepass-file", f.passwordFile); err != nil {
		return err
	}
	if f.metrics.Password, err = s.readPassword(ctx, "--metrics-password-file", f.metricsSecret); err != nil {
		return err
	}
	if f.aclFile == "" {
		return nil
	}
	// It is read once: a pipe would be empty the second time, and let everybody in.
	if s.options.ACL, err = s.readSecret(ctx, "--acl-file", f.aclFile, "the users"); err != nil {
		return err
	}
	if err := acl.New(table.Commands()).Load(f.aclFile, bytes.NewReader(s.options.ACL)); err != nil {
		return exit.WithCode(exit.Local, fmt.Errorf("serve: --acl-file %w", err)) // the error begins with the file's name
	}
	return nil
}

// readPassword returns the first line of a file that a flag names, "" without a file. A byte order mark is not part of it.
func (s *Service) readPassword(ctx context.Context, flag, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	secret, err := s.readSecret(ctx, flag, file, "the password")
	if err != nil {
		return "", err
	}
	password, err := text.Password(secret)
	if most := resp.UnauthenticatedLimits.Bulk; int64(len(password)) > most {
		err = fmt.Errorf("the password has %d bytes, at most %d", len(password), most)
	}
	if err == nil {
		return password, nil
	}
	return "", exit.WithCode(exit.Local, fmt.Errorf("serve: %w", fileError(flag, file, err)))
}

// readSecret returns what is in a file that a flag names, and warns if other users can read or change it.
func (s *Service) readSecret(ctx context.Context, flag, file, what string) ([]byte, error) {
	secret, err := system.ReadFile(ctx, file, system.MaxSecrets)
	if err != nil {
		return nil, exit.WithCode(exit.Local, fmt.Errorf("serve: %w", fileError(flag, file, err)))
	}
	if othersMay(secret.Mode) {
		// This is no error: the secrets of a container often have such a mode, where there are no other users.
		s.log.Warn(fmt.Sprintf("%s %s: others can read or change %s (mode %04o): chmod go= FILE ends that", flag, file, what, secret.Mode.Perm()))
	}
	return secret.Data, nil
}

// secretsAgain reads the password and the users of clients again, and reports whether there is a file of them.
func (s *Service) secretsAgain(ctx context.Context, srv *server.Server) bool {
	switch f := s.flags; {
	case f.passwordFile != "":
		s.tellAgain("--requirepass-file", f.passwordFile, "the password", s.passwordAgain(ctx, srv))
	case f.aclFile != "":
		s.tellAgain("--acl-file", f.aclFile, "the users", s.usersAgain(ctx, srv))
	default:
		return false
	}
	return true
}

func (s *Service) tellAgain(flag, file, what string, err error) {
	if err != nil {
		text := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "serve: "), "\n", "; ")
		s.log.Error(fmt.Sprintf("SIGHUP: %s; the server goes on with %s from before", text, what))
		return
	}
	s.log.Info(fmt.Sprintf("SIGHUP: %s %s was read again", flag, file))
}

// passwordAgain reads the password again. One that is the same changes nothing: others may have been added by ACL SETUSER.
func (s *Service) passwordAgain(ctx context.Context, srv *server.Server) error {
	const flag = "--requirepass-file"
	if err := isRegular(flag, s.flags.passwordFile); err != nil {
		return err
	}
	password, err := s.readPassword(ctx, flag, s.flags.passwordFile)
	if err != nil || password == s.options.Password {
		return err
	}
	if err := srv.ReplacePassword(password); err != nil {
		return err
	}
	s.options.Password = password
	return nil
}

func (s *Service) usersAgain(ctx context.Context, srv *server.Server) error {
	const flag = "--acl-file"
	if err := isRegular(flag, s.flags.aclFile); err != nil {
		return err
	}
	users, err := s.readSecret(ctx, flag, s.flags.aclFile, "the users")
	if err != nil {
		return err
	}
	if err := srv.ReplaceUsers(users); err != nil {
		return fmt.Errorf("%s %w", flag, err) // the error begins with the file's name
	}
	return nil
}

// isRegular returns an error for a file that is read again and is no regular one: to read a pipe could take for ever.
func isRegular(flag, path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fileError(flag, path, errors.New("is no regular file, which could be read again"))
	}
	return nil
}

// othersMay reports whether the group or other users may read or write a regular file of this mode. On Windows modes
// say nothing.
func othersMay(mode os.FileMode) bool {
	return runtime.GOOS != "windows" && mode.IsRegular() && mode.Perm()&0o066 != 0
}
