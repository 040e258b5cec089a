package acl_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/acl"
	"github.com/sievekv/sievekv/internal/glob"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
)

func newLists(t *testing.T) *acl.Lists {
	t.Helper()
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Modules: module.New(server.Module())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return acl.New(module.Of(db.Store()).Commands())
}

const hashOfX = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"

// What a user is shown as after rules: as redis-server 7.2 shows it.
func TestSet(t *testing.T) {
	for _, tt := range []struct{ rules, want string }{
		{"", "off sanitize-payload resetchannels -@all"},
		{"on nopass", "on nopass sanitize-payload resetchannels -@all"},
		{"ON >x", "on sanitize-payload #" + hashOfX + " resetchannels -@all"},
		{"nopass >x", "off sanitize-payload #" + hashOfX + " resetchannels -@all"},
		{">x >x #" + hashOfX, "off sanitize-payload #" + hashOfX + " resetchannels -@all"},
		{">x nopass", "off nopass sanitize-payload resetchannels -@all"},
		{">x resetpass", "off sanitize-payload resetchannels -@all"},
		{">x <x", "off sanitize-payload resetchannels -@all"},
		{">x !" + hashOfX, "off sanitize-payload resetchannels -@all"},
		{"on off", "off sanitize-payload resetchannels -@all"},
		{"skip-sanitize-payload", "off skip-sanitize-payload resetchannels -@all"},
		{"skip-sanitize-payload sanitize-payload", "off sanitize-payload resetchannels -@all"},
		{"~a* ~b", "off sanitize-payload ~a* ~b resetchannels -@all"},
		{"~a ~a", "off sanitize-payload ~a resetchannels -@all"},
		{"%R~a %W~b %RW~c %wr~d", "off sanitize-payload %R~a %W~b ~c ~d resetchannels -@all"},
		{"%R~a %W~a", "off sanitize-payload ~a resetchannels -@all"},
		{"~a allkeys", "off sanitize-payload ~* resetchannels -@all"},
		{"~* resetkeys ~b", "off sanitize-payload ~b resetchannels -@all"},
		{"&c &c &d", "off sanitize-payload resetchannels &c &d -@all"},
		{"&c allchannels", "off sanitize-payload &* -@all"},
		{"&* resetchannels", "off sanitize-payload resetchannels -@all"},
		{"+get +SET", "off sanitize-payload resetchannels -@all +get +set"},
		{"+get +set +get", "off sanitize-payload resetchannels -@all +set +get"},
		{"+config|get +config", "off sanitize-payload resetchannels -@all +config"},
		{"+config -config|set", "off sanitize-payload resetchannels -@all +config -config|set"},
		{"+@all -set", "off sanitize-payload resetchannels +@all -set"},
		{"+get allcommands", "off sanitize-payload resetchannels +@all"},
		{"+@all nocommands", "off sanitize-payload resetchannels -@all"},
		{"+@read -@dangerous", "off sanitize-payload resetchannels -@all +@read -@dangerous"},
		{"+select|0 +select|1", "off sanitize-payload resetchannels -@all +select|0 +select|1"},
		{"(+get ~a) (%R~b)", "off sanitize-payload resetchannels -@all (~a resetchannels -@all +get) (%R~b resetchannels -@all)"},
		{"(+get ~a) clearselectors", "off sanitize-payload resetchannels -@all"},
		{"on >x ~* +@all (+get) reset", "off sanitize-payload resetchannels -@all"},
	} {
		l := newLists(t)
		if err := l.Set("u", strings.Fields(tt.rules)); err != nil {
			t.Errorf("%s: %v", tt.rules, err)
			continue
		}
		if got := l.User("u").String(); got != "user u "+tt.want {
			t.Errorf("%s: %s, want user u %s", tt.rules, got, tt.want)
		}
	}
}

// Rules that are refused leave a user as it was.
func TestSet_refused(t *testing.T) {
	const (
		unknown  = "Unknown command or category name in ACL"
		syntax   = "Syntax error"
		keys     = "Adding a pattern after the * pattern (or the 'allkeys' flag)"
		channels = "Adding a pattern after the * pattern (or the 'allchannels' flag)"
		hash     = "The password hash must be exactly 64 characters"
	)
	for rule, want := range map[string]string{
		"nosuch": syntax, "+nosuch": unknown, "-nosuch": unknown, "+@nosuch": unknown, "-@nosuch": unknown, "+config|nosuch": unknown,
		"-get|x": unknown, "+nosuch|x": unknown, "+get|": syntax, "+config|get|x": "first-arg of a subcommand", "%~a": syntax, "%RR~a": syntax,
		"%X~a": syntax, "%RX~a": syntax, "%R": syntax, "<y": "does not exist", "!" + hashOfX[:63]: hash, "#" + hashOfX[:63] + "G": hash, "#x": hash,
		"!" + strings.Repeat("0", 64): "does not exist", "(+nosuch)": unknown, "(on)": syntax, "(~a))": syntax, "(+get": "Unmatched parenthesis in acl selector starting at '(+get'.",
		"~a b": syntax, "~" + strings.Repeat("a", glob.MaxLen+1): "pattern of 4097 bytes, at most 4096", "&a b": syntax, "": syntax,
		"~* ": keys, "&* ": channels, "+select|a\nuser evil on nopass +@all": syntax, "+select|\x00": syntax, "+get\t": syntax, "~a\r": syntax,
	} {
		l := newLists(t)
		if err := l.Set("u", []string{"on", ">x", "+get"}); err != nil {
			t.Fatal(err)
		}
		rules := []string{"off", rule}
		if all, ok := strings.CutSuffix(rule, " "); ok {
			rules = []string{all, rule[:1] + "a"}
		}
		err := l.Set("u", rules)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", rule, err, want)
		}
		if got := l.User("u").String(); got != "user u on sanitize-payload #"+hashOfX+" resetchannels -@all +get" {
			t.Errorf("%q left %s", rule, got)
		}
		if l.Set("new", rules) == nil || l.User("new") != nil {
			t.Errorf("%q: a user was made", rule)
		}
	}
	l := newLists(t)
	for _, name := range []string{"a b", "a\x00b", "a\n", ""} {
		if err := l.Set(name, nil); err == nil {
			t.Errorf("a user is named %q", name)
		}
	}
	long := []string{"~" + strings.Repeat("a", 4000), "+select|" + strings.Repeat("b", 1<<20-4000)}
	if err := l.Set("u", long); err == nil || !strings.Contains(err.Error(), "as a line of an ACL file, want less than 1048576") {
		t.Errorf("rules longer than a line can be: %v", err)
	}
}

// What users may do.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		rules   string
		allowed []string
		denied  map[string]string // by reason and object
	}{
		{"", []string{"AUTH x", "HELLO 3", "QUIT", "RESET"}, map[string]string{"GET a": "command get", "PING": "command ping"}},
		{"+get ~a*", []string{"GET a", "get abc"}, map[string]string{"GET b": "key b", "SET a v": "command set", "STRLEN a": "command strlen"}},
		{"+get ~a ~b", []string{"GET a", "GET b"}, map[string]string{"GET ": "key "}},
		{"+@all", []string{"PING", "FLUSHALL", "SCAN 0"}, map[string]string{"GET a": "key a"}},
		{"+@all ~*", []string{"GET a", "SET a v", "CONFIG SET a b", "BF.ADD f x"}, nil},
		{"+@all -config|set ~*", []string{"CONFIG GET a", "SET a v"}, map[string]string{"CONFIG SET a b": "command config|set"}},
		{"+config|get", []string{"CONFIG GET a"}, map[string]string{"CONFIG SET a b": "command config|set"}},
		{"+config -config|set", []string{"CONFIG GET a"}, map[string]string{"CONFIG SET a b": "command config|set"}},
		{"+@all -@all", nil, map[string]string{"PING": "command ping"}},
		{"+select|0", []string{"SELECT 0"}, map[string]string{"SELECT 1": "command select"}},
		{"+select|0 -select", nil, map[string]string{"SELECT 0": "command select"}},
		{"+select|0 +select", []string{"SELECT 0", "SELECT 1"}, nil},
		{"+@read ~*", []string{"GET a", "BF.EXISTS f x", "EXISTS a", "SCAN 0"},
			map[string]string{"SET a v": "command set", "FLUSHALL": "command flushall", "BF.ADD f x": "command bf.add", "PING": "command ping"}},
		{"+@bloom ~*", []string{"BF.ADD f x", "BF.EXISTS f x"}, map[string]string{"CF.ADD f x": "command cf.add"}},
		{"+@all -@dangerous ~*", []string{"GET a", "CONFIG HELP"}, map[string]string{"KEYS *": "command keys", "FLUSHALL": "command flushall",
			"CONFIG GET a": "command config|get", "SIEVE.COMPACT": "command sieve.compact", "INFO": "command info"}},
		{"+@all %R~a", []string{"GET a", "EXISTS a", "BF.EXISTS a x"}, map[string]string{"SET a v": "key a", "GETDEL a": "key a", "GET b": "key b"}},
		{"+@all %W~a", []string{"SET a v", "DEL a", "EXPIRE a 1"}, map[string]string{"GET a": "key a", "INCR a": "key a", "SET a v GET": "key a"}},
		{"+@all %R~a %W~b", []string{"COPY a b"}, map[string]string{"COPY b a": "key b", "RENAME a b": "key a", "EXISTS c": "key c"}},
		{"+@all %R~a ~b", []string{"BF.MERGE b a"}, map[string]string{"BF.MERGE a b": "key a"}},
		{"+@all ~a", []string{"MSET a 1 a 2", "MEMORY USAGE a"}, map[string]string{"MSET a 1 b 2": "key b", "DEL a b": "key b", "OBJECT ENCODING b": "key b"}},
		{"+@all ~a", []string{"SIEVE.STATS", "SIEVE.STATS a"}, map[string]string{"SIEVE.STATS b": "key b", "SIEVE.STATS a b": "key b",
			"SIEVE.STATS LIMIT 5": "command sieve.stats", "SIEVE.STATS limit a b": "key limit"}},
		{"+@all %W~*", nil, map[string]string{"SIEVE.STATS LIMIT 5": "command sieve.stats"}},
		{"+@all %R~*", []string{"SIEVE.STATS LIMIT 5", "SIEVE.STATS b"}, nil},
		{"+get ~a (+set ~b) (+del ~c)", []string{"GET a", "SET b v", "DEL c"},
			map[string]string{"GET b": "key b", "SET a v": "key a", "DEL a": "key a", "INCR a": "command incr"}},
		{"+del (+del ~a) (+del ~b)", []string{"DEL a a", "DEL b"}, map[string]string{"DEL a b": "key b", "DEL b a": "key a", "DEL c": "key c"}},
	} {
		l := newLists(t)
		if err := l.Set("u", strings.Fields(tt.rules)); err != nil {
			t.Fatal(err)
		}
		check := func(line string) *acl.Denial {
			var words [][]byte
			for _, word := range strings.Split(line, " ") {
				words = append(words, []byte(word))
			}
			cmd, args := l.Command(words)
			if cmd == nil {
				t.Fatalf("no command %s", line)
			}
			return l.User("u").Check(cmd, args)
		}
		for _, line := range tt.allowed {
			if denial := check(line); denial != nil {
				t.Errorf("%s: %s: %s", tt.rules, line, denial.Verbose())
			}
		}
		for line, want := range tt.denied {
			denial := check(line)
			if denial == nil {
				t.Errorf("%s: %s is allowed", tt.rules, line)
			} else if got := denial.Reason() + " " + denial.Object(); got != want {
				t.Errorf("%s: %s is denied for %s, want %s", tt.rules, line, got, want)
			}
		}
	}
}

func TestLogin(t *testing.T) {
	l := newLists(t)
	for name, rules := range map[string]string{"on": "on >x >y", "off": "off >x", "none": "on", "free": "on nopass"} {
		if err := l.Set(name, strings.Fields(rules)); err != nil {
			t.Fatal(err)
		}
	}
	for login, want := range map[string]bool{
		"on x": true, "on y": true, "on z": false, "on ": false, "off x": false, "none ": false, "none x": false, "free x": true, "free ": true,
		"nosuch x": false, "default x": true, "ON x": false,
	} {
		name, password, _ := strings.Cut(login, " ")
		if user := l.Login(name, []byte(password)); (user != nil) != want || want && user.Name() != name {
			t.Errorf("login %q: %v", login, user)
		}
	}
	if !l.Default().NoPassword() || l.User("on").NoPassword() {
		t.Error("NoPassword is wrong")
	}
	if err := l.Set("default", []string{"off"}); err != nil || l.Default().NoPassword() {
		t.Errorf("a user that is off is everybody's: %v", err)
	}
	on := l.User("on")
	if l.Remove("default") || l.Remove("nosuch") || !l.Remove("on") || l.User("on") != nil || !on.Removed() || l.Default().Removed() {
		t.Error("Remove is wrong")
	}
}

func TestLoad(t *testing.T) {
	l := newLists(t)
	for _, name := range []string{"goes", "stays"} {
		if err := l.Set(name, []string{"on"}); err != nil {
			t.Fatal(err)
		}
	}
	goes, stays := l.User("goes"), l.User("stays")
	before := shown(l)
	for file, want := range map[string]string{
		"user a on\nuser b +nosuch\nuser a off\nnonsense": "f:2: rule 1: Unknown command or category name in ACL\n" +
			"f:3: duplicate user 'a' found\nf:4: line should start with user keyword followed by the user name",
		"user":                              "f:1: line should start with user",
		"user a (+get":                      "f:1: rule 1: Unmatched parenthesis in acl selector",
		"user a on >pass secret":            "f:1: rule 3: Syntax error",
		"user a on (~a) <secret (+get":      "f:1: rule 4: Unmatched parenthesis",
		"user a on (~a) <secret":            "f:1: rule 3: The password you are trying to remove from the user does not exist",
		"user a\x00b":                       "f:1: Usernames can't contain spaces or null characters",
		"user a on\nuser b \x00":            "f:2: rule 1: Syntax error",
		"\n\n" + strings.Repeat("x", 2<<20): "f:3: the line is too long, want less than 1048576 bytes",
		"\xff\xfeu\x00s\x00":                "f:1: the file is in UTF-16, want UTF-8",
		"\xfe\xff\x00u\x00s":                "f:1: the file is in UTF-16, want UTF-8",
		"users a on":                        "f:1: line should start with user",
	} {
		err := l.Load("f", strings.NewReader(file))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.40q: %v, want %s", file, err, want)
		}
		if got := shown(l); !slices.Equal(got, before) || goes.Removed() {
			t.Errorf("%.40q left %q", file, got)
		}
	}
	file := "\xef\xbb\xbfuser new on\n"
	if err := newLists(t).Load("f", strings.NewReader(file)); err != nil {
		t.Errorf("with a byte order mark: %v", err)
	}
	file = "# users\n\nuser stays on >x ~a +get (+set ~b)\r\nuser default off\nuser new on\n"
	if err := l.Load("f", strings.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	if !goes.Removed() || l.User("goes") != nil || l.User("stays") != stays || stays.Removed() {
		t.Error("users that stay are not those that were")
	}
	want := []string{
		"user default off sanitize-payload resetchannels -@all", "user new on sanitize-payload resetchannels -@all",
		"user stays on sanitize-payload #" + hashOfX + " ~a resetchannels -@all +get (~b resetchannels -@all +set)",
	}
	if got := shown(l); !slices.Equal(got, want) {
		t.Errorf("users are %q, want %q", got, want)
	}
	// What is saved is what is loaded.
	var saved strings.Builder
	if err := l.Save(&saved); err != nil {
		t.Fatal(err)
	}
	again := newLists(t)
	if err := again.Load("f", strings.NewReader(saved.String())); err != nil || !slices.Equal(shown(again), want) {
		t.Errorf("saved and loaded: %q, %v", shown(again), err)
	}
	if err := l.Load("f", strings.NewReader("")); err != nil || !slices.Equal(shown(l), []string{"user default on nopass sanitize-payload ~* &* +@all"}) {
		t.Errorf("an empty file: %q, %v", shown(l), err)
	}
	if err := l.Save(broken{}); !errors.Is(err, errBroken) {
		t.Errorf("Save = %v", err)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func shown(l *acl.Lists) (lines []string) {
	for _, u := range l.Users() {
		lines = append(lines, u.String())
	}
	return lines
}

// What is a space in other alphabets ends no name and no pattern: not in a file, and not in a selector, where what follows it
// would be a rule.
func TestLoad_spaces(t *testing.T) {
	for _, space := range []string{"\u00a0", "\u0085", "\u2003", "\u3000"} {
		l, again := newLists(t), newLists(t)
		name := "u" + space + "v"
		if err := l.Set(name, []string{"~a" + space + "+@all", "(~b" + space + "+set)"}); err != nil {
			t.Fatal(err)
		}
		var file strings.Builder
		if err := errors.Join(l.Save(&file), again.Load("f", strings.NewReader(file.String()))); err != nil {
			t.Errorf("%q: %v", file.String(), err)
			continue
		}
		want := "user " + name + " off sanitize-payload ~a" + space + "+@all resetchannels -@all (~b" + space + "+set resetchannels -@all)"
		if got := fmt.Sprint(again.User(name)); got != want || fmt.Sprint(l.User(name)) != want {
			t.Errorf("%q became %q, want %q", fmt.Sprint(l.User(name)), got, want)
		}
	}
}

// Rules and names of any bytes are taken or refused, never anything else, and what is shown of a user makes the
// same one.
func FuzzSet(f *testing.F) {
	for _, rules := range []string{
		"on >x ~a* +@read -get +config|get", "%R~b (+set ~c) (+get", "#" + hashOfX + " !" + hashOfX, "&* resetchannels &x +select|0", "reset %",
		"~[a-", "+|", "-@", "()", "( )", "%RW~", "<", "&\u00a00",
	} {
		f.Add(rules)
	}
	db, err := kv.Open("", &kv.Options{InMemory: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = db.Close() })
	f.Fuzz(func(t *testing.T, rules string) {
		l := acl.New(module.Of(db).Commands())
		if l.Set("u", strings.Split(rules, " ")) != nil {
			return
		}
		line := l.User("u").String()
		again := acl.New(module.Of(db).Commands())
		if err := again.Load("f", strings.NewReader(line)); err != nil {
			t.Fatalf("%q: %q cannot be loaded: %v", rules, line, err)
		}
		if got := fmt.Sprint(again.User("u")); got != line {
			t.Fatalf("%q: %q became %q", rules, line, got)
		}
	})
}
