package server_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/server"
)

// What one user does often does not hide what another does, and what the log leaves out it counts, at the latest when the
// server ends.
func TestAudit_counted(t *testing.T) {
	w := serve(t, nil)
	admin := w.client()
	did := map[string]int{"busy": 50, "evil": 1, "rare": 2}
	for name, n := range did {
		admin.answers("ACL SETUSER " + name + " on >p +@all ~* => +OK")
		c := w.client()
		c.answers("AUTH " + name + " p => +OK")
		for range n {
			c.answers("ACL SETUSER " + name + "2 on => +OK")
		}
	}
	w.shutdown()
	did["default"] = len(did)
	for name, want := range did {
		if got := told(w.log.String(), `msg="sievekv: admin command" user=`+name+` client=pipe command=acl|setuser`); got != want {
			t.Errorf("the log tells of %d changes of users by %s, want %d:\n%s", got, name, want, w.log)
		}
	}
}

var omitted = regexp.MustCompile(` omitted=(\d+)`)

// told returns of how many messages with a text the log tells, with those that it says it left out.
func told(log, text string) (n int) {
	for line := range strings.Lines(log) {
		if !strings.Contains(line, text) {
			continue
		}
		n++
		if found := omitted.FindStringSubmatch(line); found != nil {
			more, _ := strconv.Atoi(found[1])
			n += more
		}
	}
	return n
}

// No password is told, wherever a client wrote it: where one belongs, in the place of the user, of an option, of a
// subcommand or of the command, or as the value of a setting. Not to the log, and not to clients that ask what others
// did.
func TestSecrets_untold(t *testing.T) {
	const secret = "hunter2"
	w := serve(t, server.Options{}.WithTimes(long, long, long))
	w.set("slowlog-log-slower-than", "0", "slowlog-max-len", "1000")
	admin := w.client()
	admin.answers("ACL SETUSER ann on >pass +@all ~* => +OK")
	seen := 0
	for _, line := range []string{
		"AUTH hunter2", "AUTH ann hunter2", "AUTH hunter2 pass", "AUTH hunter2 hunter2 hunter2", "AUHT hunter2", "hunter2", "hunter2 x", "auth|hunter2",
		"HELLO hunter2", "HELLO 3 AUTH ann hunter2", "HELLO 3 AUTH hunter2 pass", "HELLO 3 SETNAME hunter2 AUTH x y", "HELLO 3 hunter2",
		"ACL SETUSER bob >hunter2", "ACL SETUSER bob <hunter2", "ACL SETUSER bob hunter2", "ACL SETUSER bob (hunter2", "ACL hunter2", "ACL DRYRUN hunter2 get x",
		"ACL GETUSER hunter2", "ACL DELUSER hunter2", "ACL CAT hunter2", "ACL LOG hunter2", "ACL DRYRUN ann hunter2",
		"CONFIG SET requirepass hunter2", "CONFIG SET masterauth hunter2", "CONFIG SET slowlog-max-len 1000 requirepass hunter2", "CONFIG SET hunter2 1",
		"CONFIG GET hunter2", "CONFIG hunter2", "CONFIG requirepass hunter2", "CLIENT hunter2", "CLIENT KILL USER hunter2", "COMMAND hunter2",
		"MIGRATE host 6379 k 0 1 AUTH hunter2", "MIGRATE host 6379 k 0 1 AUTH2 ann hunter2", "SLOWLOG hunter2",
	} {
		c := w.client()
		c.do(line)
		log := w.log.String()
		asked := admin.do("SLOWLOG GET -1") + admin.do("CLIENT LIST") + admin.do("ACL LOG 100") + admin.do("INFO everything") + log[seen:]
		if strings.Contains(asked, secret) {
			i := strings.Index(asked, secret)
			t.Errorf("%s is told: ...%s", line, asked[max(0, i-200):i+len(secret)])
			admin.do("SLOWLOG RESET")
			admin.do("ACL LOG RESET")
			seen = len(log)
		}
	}
}

// A stranger cannot tell a name that a user has from one that nobody has, or which user is switched off.
func TestStrangers_names(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long))
	admin, stranger := w.client(), w.client()
	admin.answers("AUTH secret => +OK\nACL SETUSER ann on >a => +OK\nACL SETUSER off off >a => +OK")
	for _, name := range []string{"default", "ann", "off", "nosuch"} {
		for _, line := range []string{"AUTH " + name + " wrong", "HELLO 2 AUTH " + name + " wrong"} {
			if got := stranger.do(line); got != "-WRONGPASS invalid username-password pair or user is disabled." {
				t.Errorf("%s answers %s", line, got)
			}
		}
	}
	stranger.answers("ACL USERS => -NOAUTH ...\nACL GETUSER ann => -NOAUTH ...\nCLIENT LIST => -NOAUTH ...")
}
