package server_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/server"
)

// Users log in, do what their rules allow, and are told what they may not.
func TestACL(t *testing.T) {
	w := serve(t, nil)
	admin := w.client()
	admin.answers(`
		ACL WHOAMI => "default"
		ACL LIST => ["user default on nopass sanitize-payload ~* &* +@all"]
		ACL SETUSER reader on >secret ~user:* +@read +@connection => +OK
		ACL USERS => ["default" "reader"]
		ACL GETUSER reader => ["flags" [+on +sanitize-payload] "passwords" ["2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"] "commands" "-@all +@read +@connection" "keys" "~user:*" "channels" "" "selectors" []]
		ACL GETUSER nosuch => $-1
		ACL SETUSER reader +nosuch => -ERR Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL
		ACL SETUSER reader (+get => -ERR Unmatched parenthesis in acl selector starting at '(+get'.
		ACL DELUSER default reader => -ERR The 'default' user cannot be removed
		ACL CAT nosuch => -ERR Unknown category 'nosuch'
		ACL CAT a b => -ERR wrong number of arguments for 'acl|cat' command
		ACL GENPASS 0 => -ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096
		ACL GENPASS x => -ERR value is not an integer or out of range
		ACL DRYRUN nosuch GET a => -ERR User 'nosuch' not found
		ACL DRYRUN reader NOSUCH a => -ERR Command 'NOSUCH' not found
		ACL DRYRUN reader GET => -ERR wrong number of arguments for 'get' command
		ACL DRYRUN reader GET user:1 => +OK
		ACL DRYRUN reader GET other => "User reader has no permissions to access the 'other' key"
		ACL SETUSER bits on nopass +@bitmap %R~user:* => +OK
		ACL DRYRUN bits BITFIELD user:1 => +OK
		ACL DRYRUN bits BITFIELD user:1 OVERFLOW x GET y z get u8 0 => +OK
		ACL DRYRUN bits BITFIELD other GET u8 0 => "User bits has no permissions to access the 'other' key"
		ACL DRYRUN bits BITFIELD user:1 GET u8 0 SET u8 0 1 => "User bits has no permissions to access the 'user:1' key"
		ACL DRYRUN bits BITFIELD user:1 GET u8 => "User bits has no permissions to access the 'user:1' key"
		ACL DRYRUN bits BITFIELD user:1 INCRBY u8 0 1 => "User bits has no permissions to access the 'user:1' key"
		ACL DELUSER bits => :1
		ACL DRYRUN reader CONFIG SET a b => "User reader has no permissions to run the 'config|set' command"
		ACL LOAD => -ERR The server was started without an ACL file: users are changed by ACL SETUSER, until it ends
		ACL SAVE => -ERR The server was started without an ACL file: users are changed by ACL SETUSER, until it ends
		ACL LOG => []
		ACL LOG x => -ERR value is not an integer or out of range
		ACL LOG 1 2 => -ERR wrong number of arguments for 'acl|log' command
		ACL LOG RESET 2 => -ERR wrong number of arguments for 'acl|log' command
		SET user:1 ann => +OK`)
	for bits, digits := range map[string]int{"": 64, " 1": 1, " 4": 1, " 5": 2, " 4096": 1024} {
		if pass := admin.do("ACL GENPASS" + bits); len(pass) != digits+2 || strings.Trim(pass, `"0123456789abcdef`) != "" || pass == admin.do("ACL GENPASS"+bits) && digits > 8 {
			t.Errorf("ACL GENPASS%s = %s", bits, pass)
		}
	}
	for _, category := range []string{"bloom", "cuckoo", "counting", "read", "write", "admin", "dangerous", "string", "keyspace", "fast", "slow", "connection", "transaction"} {
		if list := admin.do("ACL CAT"); !strings.Contains(list, `"`+category+`"`) {
			t.Errorf("ACL CAT = %s, without %s", list, category)
		}
	}
	reader := w.client()
	reader.answers(`
		AUTH reader wrong => -WRONGPASS invalid username-password pair or user is disabled.
		AUTH reader secret => +OK
		ACL WHOAMI => -NOPERM User reader has no permissions to run the 'acl|whoami' command
		GET user:1 => "ann"
		GET other => -NOPERM No permissions to access a key
		SET user:1 bob => -NOPERM User reader has no permissions to run the 'set' command
		FLUSHALL => -NOPERM User reader has no permissions to run the 'flushall' command
		SHUTDOWN => -NOPERM User reader has no permissions to run the 'shutdown' command
		CONFIG SET maxclients 1 => -NOPERM User reader has no permissions to run the 'config|set' command
		SIEVE.COMPACT => -NOPERM User reader has no permissions to run the 'sieve.compact' command
		RESET => +RESET
		SET user:1 bob => +OK
		HELLO 2 AUTH reader secret => [...]
		SET user:1 carl => -NOPERM User reader has no permissions to run the 'set' command`)
	admin.answers(`
		ACL SETUSER reader +set => +OK
		ACL LOG 1 => [["count" :2 "reason" "command" "context" "toplevel" "object" "set" "username" "reader" "age-seconds" ... "client-info" "id=... "entry-id" :... "timestamp-created" :... "timestamp-last-updated" :...]]`)
	reader.answers("SET user:1 carl => +OK")
	if list := admin.do("CLIENT LIST"); !strings.Contains(list, "user=reader") || !strings.Contains(list, "user=default") {
		t.Errorf("CLIENT LIST = %s", list)
	}
	log := admin.do("ACL LOG -1") + admin.do("ACL LOG 100")
	for _, part := range []string{`"reason" "auth"`, `"object" "AUTH"`, `"reason" "key"`, `"object" "other"`, `"object" "shutdown"`} {
		if !strings.Contains(log, part) {
			t.Errorf("ACL LOG has no %s: %s", part, log)
		}
	}
	admin.answers(`
		ACL LOG RESET => +OK
		ACL LOG => []
		CLIENT KILL USER nosuch => -ERR No such user 'nosuch'
		ACL SETUSER other on nopass +ping => +OK
		ACL DELUSER reader nosuch => :1`)
	reader.ended()
	for _, text := range []string{"sievekv: login", "sievekv: wrong password", "sievekv: command refused to a user", "sievekv: admin command", "user=reader", "command=acl|setuser"} {
		if !strings.Contains(w.log.String(), text) {
			t.Errorf("nothing was logged of %q: %s", text, w.log)
		}
	}
	other := w.client()
	other.answers("AUTH other x => +OK\nPING => +PONG")
	admin.answers("CLIENT KILL USER other => :1")
	other.ended()
}

// Each command of a transaction is checked when it is queued and when it runs.
func TestACL_transaction(t *testing.T) {
	w := serve(t, nil)
	admin, user := w.client(), w.client()
	admin.answers("ACL SETUSER u on nopass ~a +@transaction +set +get => +OK")
	user.answers(`
		AUTH u x => +OK
		MULTI => +OK
		SET b v => -NOPERM No permissions to access a key
		SET a v => +QUEUED
		EXEC => -EXECABORT Transaction discarded because of previous errors.
		WATCH b => -NOPERM No permissions to access a key
		MULTI => +OK
		SET a v => +QUEUED
		GET a => +QUEUED`)
	admin.answers(`
		ACL LOG 1 => [["count" :1 "reason" "key" "context" "toplevel" "object" "b" ...]]
		ACL LOG 2 => [[...] ["count" :1 "reason" "key" "context" "multi" "object" "b" ...]]
		ACL SETUSER u -set => +OK`)
	user.answers(`
		EXEC => [-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: User u has no permissions to run the 'set' command $-1]`)
	admin.answers("EXISTS a => :0")
}

// When a connection ends or is reset, the server's own work needs no permission: it reports no refusal, and keys stop
// being watched.
func TestACL_connectionEnds(t *testing.T) {
	for name, tt := range map[string]struct{ rules, lines string }{
		"nothing":   {"+ping", "PING => +PONG"},
		"WATCH":     {"+watch", "WATCH k l => +OK"},
		"MULTI":     {"+watch +multi +get", "WATCH k l => +OK\nMULTI => +OK\nGET k => +QUEUED"},
		"RESET":     {"+watch", "WATCH k l => +OK\nRESET => +RESET"},
		"no rights": {"+watch", "WATCH k l => +OK\nACL WHOAMI => -NOPERM ..."},
	} {
		t.Run(name, func(t *testing.T) {
			w := serve(t, nil)
			admin, user := w.client(), w.client()
			admin.answers("ACL SETUSER u on nopass ~* -@all " + tt.rules + " => +OK")
			user.answers("AUTH u x => +OK\n" + tt.lines)
			if name == "no rights" {
				admin.answers("ACL LOG RESET => +OK\nACL DELUSER u => :1")
				user.ended()
			}
			_ = user.Close() // the server may have closed it
			eventually(t, "the connection is gone", func() bool { return w.server.Connections() == 1 })
			if n := admin.info("clients", "total_watched_keys"); n != "0" {
				t.Errorf("%s keys are still watched", n)
			}
			admin.answers("ACL LOG => []")
			if log := w.log.String(); strings.Contains(log, "unwatch") || strings.Contains(log, "discard") {
				t.Errorf("the log says\n%s", log)
			}
		})
	}
}

// When a stranger leaves, no refusal is reported.
func TestACL_strangerEnds(t *testing.T) {
	w := serve(t, &server.Options{Password: "p"})
	admin := w.client()
	admin.answers("AUTH p => +OK\nACL SETUSER root on >r ~* &* +@all => +OK\nACL SETUSER default off -@all => +OK")
	_ = w.client().Close() // as a stranger does
	eventually(t, "the connection is gone", func() bool { return w.server.Connections() == 1 })
	admin.answers("AUTH root r => +OK\nACL LOG => []")
}

// The default user may have a password, be off, or have less than all.
func TestACL_default(t *testing.T) {
	w := serve(t, &server.Options{Password: "old"})
	admin := w.client()
	admin.answers(`
		PING => -NOAUTH Authentication required.
		AUTH old => +OK
		ACL SETUSER root on >r ~* &* +@all => +OK
		ACL SETUSER default >new => +OK`)
	user := w.client()
	user.answers(`
		AUTH new => +OK
		AUTH old => +OK
		AUTH root r => +OK
		ACL SETUSER default off => +OK`)
	user = w.client()
	user.answers(`
		AUTH new => -WRONGPASS invalid username-password pair or user is disabled.
		AUTH root r => +OK
		ACL SETUSER default reset on nopass +ping => +OK`)
	user = w.client()
	user.answers(`
		PING => +PONG
		GET a => -NOPERM User default has no permissions to run the 'get' command
		AUTH x => -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
		AUTH default x => +OK`)
}

// The file is read at the start and by LOAD, all or nothing, and written by SAVE.
func TestACL_file(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.acl")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("user default off\nuser root on >r ~* &* +@all\nuser gone on nopass +ping\n")
	w := serve(t, &server.Options{ACLFile: path})
	root, gone := w.client(), w.client()
	root.answers("PING => -NOAUTH Authentication required.\nAUTH root r => +OK\nACL WHOAMI => \"root\"")
	gone.answers("AUTH gone x => +OK\nPING => +PONG")
	write("user root on >r ~* &* +@all\nuser bad +nosuch\n")
	if got := root.do("ACL LOAD"); !strings.HasPrefix(got, "-ERR ") || !strings.Contains(got, "users.acl:2: rule 1: Unknown command or category name in ACL") {
		t.Errorf("ACL LOAD = %s", got)
	}
	gone.answers("PING => +PONG")
	write("user default off\nuser root on >r ~* &* +@all\n")
	root.answers("ACL LOAD => +OK\nACL USERS => [\"default\" \"root\"]\nACL SETUSER new on => +OK\nACL SAVE => +OK")
	gone.ended()
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(string(text), "\nuser new on sanitize-payload resetchannels -@all\nuser root on sanitize-payload #454349e422f05297191ead13e21d3db520e5abef52055e4964b82fb213f593a1 ~* &* +@all\n") {
		t.Errorf("the file is %q, %v", text, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v, %v", info.Mode(), err)
	}
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(names) != 1 {
		t.Errorf("beside the file there is %v, %v", names, err)
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	root.answers(`
		ACL SAVE => -ERR There was an error trying to save the ACLs. Please check the server logs for more information
		ACL LOAD => -ERR open ...`)
}

// After an answered SAVE a crash leaves the file complete and its name durable.
func TestACL_saveDurably(t *testing.T) {
	dir := realDir(t)
	path := filepath.Join(dir, "users.acl")
	if err := os.WriteFile(path, []byte("user u on\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := serve(t, &server.Options{ACLFile: path})
	c := w.client()
	c.answers("ACL SETUSER new on => +OK")
	var synced []string
	defer server.HookSyncDirectory(func(dir string) error {
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "user new on") {
			t.Errorf("the directory is synced when the file is %q, %v", text, err)
		}
		synced = append(synced, dir)
		return nil
	})()
	c.answers("ACL SAVE => +OK")
	if !slices.Equal(synced, []string{dir}) {
		t.Errorf("synced is %q, want %q", synced, dir)
	}
	server.HookSyncDirectory(func(string) error { return errors.New("no sync") })
	c.answers("ACL SAVE => -ERR There was an error trying to save the ACLs. Please check the server logs for more information")
	if !strings.Contains(w.log.String(), "no sync") {
		t.Errorf("logged is\n%s", w.log)
	}
}

// The file has all users that an answered SAVE has written, however many SAVEs run at a time.
func TestACL_saveTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := serve(t, &server.Options{ACLFile: path})
	defer server.HookSyncDirectory(func(string) error {
		if !w.server.SavesACL() {
			t.Error("another could write the file meanwhile")
		}
		return nil
	})()
	const clients, users = 4, 50
	var all sync.WaitGroup
	for i := range clients {
		c := w.client()
		all.Go(func() {
			for j := range users {
				for _, words := range [][]string{{"ACL", "SETUSER", fmt.Sprintf("u%d-%d", i, j)}, {"ACL", "SAVE"}} {
					if got, err := c.Do(words...); got != "+OK" {
						t.Errorf("%q = %s, %v", words, got, err)
					}
				}
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(path)
	if got := strings.Count(string(text), "user u"); err != nil || got != clients*users {
		t.Errorf("the file has %d users, %v, want %d", got, err, clients*users)
	}
}

// realDir returns a directory for the test, by its name without symbolic links.
func realDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestACL_refusedAtStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(path, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := kv.Open("", &kv.Options{InMemory: true, Modules: coreext.With(server.Module())})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for want, o := range map[string]*server.Options{
		"users.acl:1: line should start with user": {ACLFile: path}, "no such file": {ACLFile: path + "x"},
		"Options.ACL: " + path + ":1: rule 1: Unknown command": {ACLFile: path, ACL: []byte("user u +nosuch")},
		"Options.ACLFile and Options.Password":                 {ACLFile: path, Password: "p"},
	} {
		if _, err := server.New(db, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want %s", err, want)
		}
	}
	if _, err := server.New(db, nil); err != nil { // those that were refused have left nothing
		t.Error(err)
	}
}

// Equal refusals count as one entry, and the log drops its oldest entries.
func TestACLLog_bounds(t *testing.T) {
	w := serve(t, nil)
	admin, user := w.client(), w.client()
	admin.answers("ACL SETUSER u on nopass => +OK\nCONFIG SET acllog-max-len 2 => +OK")
	user.answers("AUTH u x => +OK")
	for _, command := range []string{"GET", "STRLEN", "GET", "TTL"} {
		user.answers(command + " k => -NOPERM ...")
	}
	admin.answers(`ACL LOG => [["count" :1 "reason" "command" "context" "toplevel" "object" "ttl" ...] ["count" :2 "reason" "command" "context" "toplevel" "object" "get" ...]]
		ACL LOG 1 => [["count" :1 "reason" "command" "context" "toplevel" "object" "ttl" ...]]
		CONFIG SET acllog-max-len 0 => +OK`)
	user.answers("EXISTS k => -NOPERM ...")
	admin.answers("ACL LOG => []")
}
