package server

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sievekv/sievekv/internal/acl"
	"github.com/sievekv/sievekv/internal/dirsync"
	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/txn"
)

// Package acl decides what users may do. This file asks it, keeps the ACL file, and has the command ACL.

// loadUsers makes the users of a new server: the users of the ACL file, or the default user with the password.
func (s *Server) loadUsers() error {
	s.users = acl.New(s.host.Commands())
	switch {
	case s.opts.ACLFile != "" && s.opts.Password != "":
		return errors.New("server: Options.ACLFile and Options.Password: give only one of them; the file has the default user's password")
	case s.opts.ACLFile != "" && s.opts.ACL != nil:
		if err := s.users.Load(s.opts.ACLFile, bytes.NewReader(s.opts.ACL)); err != nil {
			return fmt.Errorf("server: Options.ACL: %w", err)
		}
	case s.opts.ACLFile != "":
		if err := s.readACLFile(); err != nil {
			return fmt.Errorf("server: Options.ACLFile: %w", err)
		}
	case s.opts.Password != "":
		return s.users.Set(acl.DefaultUser, []string{"resetpass", ">" + s.opts.Password})
	}
	return nil
}

func (s *Server) readACLFile() error {
	file, err := os.Open(s.opts.ACLFile)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was only read
	return s.users.Load(s.opts.ACLFile, file)
}

// reloadACLFile is readACLFile for a file that was read before. It refuses a pipe: the bytes read before are gone, and
// more may never come.
func (s *Server) reloadACLFile() error {
	if info, err := os.Stat(s.opts.ACLFile); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file, which could be read again", s.opts.ACLFile)
	}
	return s.readACLFile()
}

// writeACLFile replaces the ACL file. At any time the file has either the old or the new users; once writeACLFile has
// returned nil, it has the new ones even after a crash. If the path is a symbolic link, it replaces the target.
func (s *Server) writeACLFile() (err error) {
	s.savingACL.Lock() // an older version must not replace a newer one
	defer s.savingACL.Unlock()
	path := s.opts.ACLFile
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	dir := filepath.Dir(path)
	file, err := os.CreateTemp(dir, filepath.Base(path)+".new*") // 0600
	if err != nil {
		return err
	}
	err = s.users.Save(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name()) // the first error is returned
		return err
	}
	return syncDirectory(dir)
}

// syncDirectory makes the names in a directory durable. Tests replace it.
var syncDirectory = dirsync.Sync

// permit refuses commands that the user may not run. It is module.Session.Permit.
func (c *conn) permit(cmd *module.Command, args [][]byte) (reply.Reply, bool) {
	if c.user.Removed() {
		c.ended = true
		return reply.Error("NOPERM the user was removed"), true
	}
	denial := c.user.Check(cmd, args)
	if denial == nil {
		if c.server.group != nil && (!c.executing || cmd.Name == "EXEC") { // EXEC is decided as a whole
			if elsewhere, refused := c.refer(cmd, args); refused {
				return elsewhere, true
			}
		}
		c.track(cmd, args)
		if cmd.Flags&module.Admin != 0 {
			c.server.warnings.tell(slog.LevelInfo, cmd.LowerName()+" "+c.user.Name(), "sievekv: admin command", "user", c.user.Name(), "client", c.net.RemoteAddr(), "command", cmd.LowerName())
		}
		return reply.Reply{}, false
	}
	c.server.stats.countDenial(denial)
	_, multi := txn.Queued(c.session)
	c.noteDenial(denial.Reason(), denial.Object(), multi || c.executing, c.user.Name())
	c.server.warnings.tell(slog.LevelWarn, c.user.Name(), "sievekv: command refused to a user", "user", c.user.Name(), "client", c.net.RemoteAddr(),
		"command", cmd.LowerName(), "reason", denial.Reason())
	if c.executing {
		return reply.Error("NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. " +
			"This command is no longer allowed for the following reason: " + denial.Error()), true
	}
	return reply.Error("NOPERM " + denial.Error()), true
}

// noteDenial records a refusal for ACL LOG.
func (c *conn) noteDenial(reason, object string, multi bool, user string) {
	context := "toplevel"
	if multi {
		context = "multi"
	}
	most := int(c.server.host.SettingInt(aclLogMaxSetting))
	c.server.denials.add(aclEntry{reason: reason, context: context, object: cut(object), user: cut(user), client: c.line()}, most)
}

// cut bounds the memory of a name that is recorded.
func cut(text string) string {
	const most = 128
	return text[:min(len(text), most)]
}

// aclLog is what ACL LOG shows: refused commands and logins, the newest last.
type aclLog struct {
	mu      sync.Mutex
	entries []*aclEntry // guarded by mu
	nextID  int64       // guarded by mu
}

type aclEntry struct {
	id, count                     int64
	reason, context, object, user string
	client                        string
	created, updated              time.Time
}

// aclSame is how long equal refusals count as one entry.
const aclSame = time.Minute

func (l *aclLog) add(e aclEntry, most int) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.entries, func(old *aclEntry) bool {
		return old.reason == e.reason && old.context == e.context && old.object == e.object && old.user == e.user && now.Sub(old.updated) <= aclSame
	})
	if i >= 0 {
		old := l.entries[i]
		old.count, old.updated, old.client = old.count+1, now, e.client
		l.entries = append(slices.Delete(l.entries, i, i+1), old)
		return
	}
	e.id, e.count, e.created, e.updated = l.nextID, 1, now, now
	l.nextID++
	l.entries = append(l.entries, &e)
	if over := len(l.entries) - most; over > 0 {
		l.entries = slices.Delete(l.entries, 0, over)
	}
}

func (l *aclLog) reset() {
	l.mu.Lock()
	l.entries = nil
	l.mu.Unlock()
}

// newest answers up to n entries, the newest first.
func (l *aclLog) newest(c *module.Call, n int64) reply.Reply {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []reply.Reply
	var err error
	for _, e := range slices.Backward(l.entries) {
		if int64(len(list)) >= n {
			break
		}
		list, err = c.Grow(list, reply.Map(
			reply.Field("count", reply.Int(e.count)),
			reply.Field("reason", reply.BulkString(e.reason)),
			reply.Field("context", reply.BulkString(e.context)),
			reply.Field("object", reply.BulkString(e.object)),
			reply.Field("username", reply.BulkString(e.user)),
			reply.DoubleField("age-seconds", float64(now.Sub(e.updated).Milliseconds())/1000),
			reply.Field("client-info", reply.BulkString(e.client)),
			reply.Field("entry-id", reply.Int(e.id)),
			reply.Field("timestamp-created", reply.Int(e.created.UnixMilli())),
			reply.Field("timestamp-last-updated", reply.Int(e.updated.UnixMilli())),
		))
		if err != nil {
			return module.ErrorReply(err)
		}
	}
	return reply.Array(list...)
}

// aclCommands are the subcommands of ACL.
func aclCommands() []module.Command {
	sub := func(name string, arity int, flags module.Flags, syntax, summary string, f func(*conn, *module.Call) reply.Reply) module.Command {
		return module.Command{Name: name, Arity: arity, Flags: flags, Syntax: syntax, Summary: summary, Handler: onConn(f)}
	}
	return []module.Command{
		sub("CAT", -2, 0, "[category]", "Answers all categories, or the commands of one.", aclCat),
		sub("DELUSER", -3, module.Admin, "username [username ...]", "Removes users, closes their connections, and answers how many users it removed.", aclDelUser),
		sub("DRYRUN", -4, module.Admin, "username command [arg ...]", "Answers OK if a user may run a command, otherwise why not.", aclDryRun),
		sub("GENPASS", -2, 0, "[bits]", "Answers a random password in hexadecimal digits, of 256 bits or as many as given.", aclGenPass),
		sub("GETUSER", 3, module.Admin, "username", "Answers the rules of a user, nil if there is no such user.", aclGetUser),
		sub("LIST", 2, module.Admin, "", "Answers the users as lines of an ACL file.", func(c *conn, call *module.Call) reply.Reply {
			return eachUser(c, call, (*acl.User).Size, (*acl.User).String)
		}),
		sub("LOAD", 2, module.Admin|module.NoMulti, "", "Replaces all users by the users in the ACL file; changes nothing if a line is wrong.", aclLoad),
		sub("LOG", -2, module.Admin, "[count | RESET]", "Answers the last commands and logins that were refused, at most count, 10 by default.", aclLogCommand),
		sub("SAVE", 2, module.Admin|module.NoMulti, "", "Writes the users to the ACL file.", aclSave),
		sub("SETUSER", -3, module.Admin, "username [rule [rule ...]]", "Changes a user by rules, and creates the user if necessary; changes nothing if a rule is wrong.", aclSetUser),
		sub("USERS", 2, module.Admin, "", "Answers the names of the users.", func(c *conn, call *module.Call) reply.Reply {
			return eachUser(c, call, func(u *acl.User) int { return len(u.Name()) }, (*acl.User).Name)
		}),
		sub("WHOAMI", 2, 0, "", "Answers the name of the connection's user.", func(c *conn, _ *module.Call) reply.Reply {
			return reply.BulkString(c.user.Name())
		}),
	}
}

// eachUser answers a string for each user; size tells its length.
func eachUser(c *conn, call *module.Call, size func(*acl.User) int, show func(*acl.User) string) reply.Reply {
	users := c.server.users.Users()
	for _, user := range users {
		if err := call.Charge(size(user)); err != nil {
			return module.ErrorReply(err)
		}
	}
	return bulks(users, show)
}

func bulks[T any](list []T, show func(T) string) reply.Reply {
	elems := make([]reply.Reply, len(list))
	for i, each := range list {
		elems[i] = reply.BulkString(show(each))
	}
	return reply.Array(elems...)
}

func itself(text string) string { return text }

func aclCat(c *conn, call *module.Call) reply.Reply {
	switch len(call.Args) {
	case 0:
		return bulks(c.server.users.Categories(), itself)
	case 1:
		if list := c.server.users.InCategory(string(call.Args[0])); list != nil {
			return bulks(list, itself)
		}
		return reply.Errorf("ERR Unknown category '%.128s'", call.Args[0])
	}
	return module.WrongArity(call.Command)
}

func aclDelUser(c *conn, call *module.Call) reply.Reply {
	if slices.ContainsFunc(call.Args, func(name []byte) bool { return string(name) == acl.DefaultUser }) {
		return reply.Errorf("ERR The '%s' user cannot be removed", acl.DefaultUser)
	}
	n := int64(0)
	for _, name := range call.Args {
		if c.server.users.Remove(string(name)) {
			n++
		}
	}
	c.killRemoved()
	return reply.Int(n)
}

// ReplaceUsers replaces all users by the users in the content of an ACL file, as ACL LOAD does, and closes the
// connections of users that it does not have. If a line is wrong it changes nothing, and the error names the file and
// every wrong line. A server without Options.ACLFile returns an error.
func (s *Server) ReplaceUsers(file []byte) error {
	if s.opts.ACLFile == "" {
		return errors.New("server: ReplaceUsers: the server was started without an ACL file")
	}
	if err := s.users.Load(s.opts.ACLFile, bytes.NewReader(file)); err != nil {
		return err
	}
	for _, c := range s.connections() {
		if c.about.user.Load().Removed() {
			c.kill()
		}
	}
	return nil
}

// ReplacePassword replaces all passwords of the default user by one. Connections that have logged in go on. A server
// without Options.Password returns an error: its users are not all the same.
func (s *Server) ReplacePassword(password string) error {
	if s.opts.Password == "" {
		return errors.New("server: ReplacePassword: the server was started without a password")
	}
	if err := checkPassword("ReplacePassword", password); err != nil {
		return err
	}
	return s.users.Set(acl.DefaultUser, []string{"resetpass", ">" + password})
}

// checkPassword returns an error for a password that no client could give.
func checkPassword(of, password string) error {
	if most := int(resp.UnauthenticatedLimits.Bulk); len(password) > most {
		return fmt.Errorf("server: %s has %d bytes: at most %d, the most that a client may send before it is authenticated", of, len(password), most)
	}
	if password == "" {
		return fmt.Errorf("server: %s is empty", of)
	}
	return nil
}

// killRemoved closes the connections of removed users. A connection that logs in at the same time is closed at its
// next command.
func (c *conn) killRemoved() {
	c.killChosen(func(other *conn) bool { return other.about.user.Load().Removed() })
}

func aclDryRun(c *conn, call *module.Call) reply.Reply {
	user := c.server.users.User(string(call.Args[0]))
	if user == nil {
		return reply.Errorf("ERR User '%.128s' not found", call.Args[0])
	}
	words := call.Args[1:]
	cmd, args := c.server.users.Command(words)
	switch {
	case cmd == nil:
		return reply.Errorf("ERR Command '%.128s' not found", words[0])
	case !cmd.Takes(len(words)):
		return module.WrongArity(cmd)
	}
	denial := user.Check(cmd, args)
	if denial == nil {
		return reply.OK
	}
	if err := call.Charge(bytesOf(call.Args, 0)); err != nil {
		return module.ErrorReply(err)
	}
	return reply.BulkString(denial.Verbose())
}

func aclGenPass(_ *conn, call *module.Call) reply.Reply {
	bits := int64(256)
	switch len(call.Args) {
	case 0:
	case 1:
		var ok bool
		if bits, ok = text.ParseInt(call.Args[0]); !ok {
			return errNotInteger
		}
		if bits <= 0 || bits > 4096 {
			return reply.Error("ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096")
		}
	default:
		return module.WrongArity(call.Command)
	}
	random := make([]byte, (bits+7)/8)
	if _, err := rand.Read(random); err != nil {
		return module.ErrorReply(err)
	}
	return reply.BulkString(hex.EncodeToString(random)[:(bits+3)/4])
}

func aclGetUser(c *conn, call *module.Call) reply.Reply {
	user := c.server.users.User(string(call.Args[0]))
	if user == nil {
		return reply.Nil
	}
	if err := call.Charge(user.Size()); err != nil {
		return module.ErrorReply(err)
	}
	d := user.Describe()
	fields := func(s acl.Selector) []reply.Pair {
		return []reply.Pair{
			reply.Field("commands", reply.BulkString(s.Commands)), reply.Field("keys", reply.BulkString(s.Keys)),
			reply.Field("channels", reply.BulkString(s.Channels)),
		}
	}
	var selectors, flags []reply.Reply
	for _, s := range d.Selectors[1:] {
		selectors = append(selectors, reply.Map(fields(s)...))
	}
	for _, flag := range d.Flags {
		flags = append(flags, reply.Status(flag))
	}
	pairs := []reply.Pair{reply.Field("flags", reply.Set(flags...)), reply.Field("passwords", bulks(d.Passwords, itself))}
	pairs = append(pairs, fields(d.Selectors[0])...)
	return reply.Map(append(pairs, reply.Field("selectors", reply.Array(selectors...)))...)
}

var errNoACLFile = reply.Error("ERR The server was started without an ACL file: users are changed by ACL SETUSER, until it ends")

func aclLoad(c *conn, _ *module.Call) reply.Reply {
	if c.server.opts.ACLFile == "" {
		return errNoACLFile
	}
	if err := c.server.reloadACLFile(); err != nil {
		return reply.Errorf("ERR %s. Nothing has changed.", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	c.killRemoved()
	return reply.OK
}

func aclSave(c *conn, _ *module.Call) reply.Reply {
	if c.server.opts.ACLFile == "" {
		return errNoACLFile
	}
	if err := c.server.writeACLFile(); err != nil {
		c.server.logger.Error("sievekv: the ACL file was not written", "file", c.server.opts.ACLFile, "error", err)
		return reply.Error("ERR There was an error trying to save the ACLs. Please check the server logs for more information")
	}
	return reply.OK
}

func aclLogCommand(c *conn, call *module.Call) reply.Reply {
	if len(call.Args) == 1 && text.FoldCase(call.Args[0]) == "RESET" {
		c.server.denials.reset()
		return reply.OK
	}
	n, refused := countArgument(call, math.MinInt64, errNotInteger)
	if refused != nil {
		return *refused
	}
	return c.server.denials.newest(call, n)
}

func aclSetUser(c *conn, call *module.Call) reply.Reply {
	words := make([]string, len(call.Args)-1)
	for i, arg := range call.Args[1:] {
		words[i] = string(arg)
	}
	if err := c.server.users.Set(string(call.Args[0]), words); err != nil {
		return reply.Error("ERR " + err.Error())
	}
	return reply.OK
}
