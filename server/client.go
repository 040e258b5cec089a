package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sievekv/sievekv/internal/acl"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// RedisVersion is the version of Redis that HELLO and INFO report: clients and dashboards choose their commands by it.
// The commands here come from that version or older ones.
const RedisVersion = "7.4.1"

func lower(word []byte) string { return strings.ToLower(string(word)) }

var wrongPassword = reply.Error("WRONGPASS invalid username-password pair or user is disabled.")

// login authenticates the client. It returns nil, or the error reply.
func (c *conn) login(name, password []byte) *reply.Reply {
	s := c.server
	user := s.users.Login(string(name), password)
	if user == nil || !user.NoPassword() {
		wait, wrong := s.guesses.given(networkOf(c.net.RemoteAddr()), cut(string(name)), user != nil, time.Now(), s.limits.shortestGuess, s.limits.longestGuess)
		if user == nil {
			told := s.toldName(name)
			s.warnings.warn("sievekv: wrong password", "user", told, "client", c.net.RemoteAddr(), "wrong_from_there", wrong)
			c.noteDenial("auth", "AUTH", false, told)
		}
		if !c.delayAnswer(wait) {
			c.ended, user = true, nil
		}
	}
	if user == nil {
		s.stats.wrongPasswords.Add(1)
		return &wrongPassword
	}
	c.authenticated = true
	c.become(user)
	c.setStranger(false)
	s.warnings.tell(slog.LevelInfo, user.Name(), "sievekv: login", "user", user.Name(), "client", c.net.RemoteAddr())
	return nil
}

// toldName returns a user's name for an operator. A name that no user has may be a password in the wrong place.
func (s *Server) toldName(name []byte) string {
	if s.users.User(string(name)) == nil {
		return "(unknown)"
	}
	return cut(string(name))
}

// become makes the connection act as a user.
func (c *conn) become(user *acl.User) {
	c.user = user
	c.about.user.Store(user)
}

func auth(c *conn, call *module.Call) reply.Reply {
	user, password := []byte(acl.DefaultUser), call.Args[0]
	switch len(call.Args) {
	case 1:
		if c.server.users.Default().NoPassword() {
			return reply.Error("ERR AUTH <password> called without any password configured for the default user. " +
				"Are you sure your configuration is correct?")
		}
	case 2:
		user, password = call.Args[0], call.Args[1]
	default:
		return errSyntax
	}
	if failed := c.login(user, password); failed != nil {
		return *failed
	}
	return reply.OK
}

// hello changes nothing unless all its arguments are right.
func hello(c *conn, call *module.Call) reply.Reply {
	protocol := c.protocol
	args := call.Args
	if len(args) > 0 {
		n, ok := text.ParseInt(args[0])
		if !ok {
			return reply.Error("ERR Protocol version is not an integer or out of range")
		}
		if n != 2 && n != 3 {
			return reply.Error("NOPROTO unsupported protocol version")
		}
		protocol, args = int(n), args[1:]
	}
	var user, password, name []byte
	for len(args) > 0 {
		switch word := text.FoldCase(args[0]); {
		case word == "AUTH" && len(args) >= 3:
			user, password, args = args[1], args[2], args[3:]
		case word == "SETNAME" && len(args) >= 2:
			if name = args[1]; !isName(name) {
				return notName("Client name", "Client names", name)
			}
			args = args[2:]
		default:
			return reply.Errorf("ERR Syntax error in HELLO option '%.128s'", args[0])
		}
	}
	if user != nil {
		if failed := c.login(user, password); failed != nil {
			return *failed
		}
	}
	if !c.authenticated {
		return reply.Error("NOAUTH HELLO must be called with the client already authenticated, otherwise the " +
			"HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
	}
	c.about.mu.Lock()
	if name != nil {
		c.about.name = string(name)
	}
	c.protocol, c.about.protocol = protocol, protocol
	c.about.mu.Unlock()
	if protocol == 2 { // which has no pushes
		c.stopTracking()
	}
	return reply.Map(
		reply.Field("server", reply.BulkString("redis")),
		reply.Field("version", reply.BulkString(RedisVersion)),
		reply.Field("proto", reply.Int(int64(protocol))),
		reply.Field("id", reply.Int(c.id)),
		reply.Field("mode", reply.BulkString(c.server.mode())),
		reply.Field("role", reply.BulkString(c.server.role("replica"))),
		reply.Field("modules", modules(c, call)),
	)
}

// modules returns the reply of MODULE LIST.
func modules(c *conn, call *module.Call) reply.Reply {
	return module.NewSession(c.server.db).Do(call.Context, [][]byte{[]byte("MODULE"), []byte("LIST")})
}

func selectDB(_ *conn, call *module.Call) reply.Reply {
	switch n, ok := text.ParseInt(call.Args[0]); {
	case !ok:
		return errNotInteger
	case n != int64(int32(n)):
		return reply.Error("ERR value is out of range, value must between -2147483648 and 2147483647")
	case n != 0:
		return reply.Error("ERR DB index is out of range")
	}
	return reply.OK
}

func reset(c *conn, _ *module.Call) reply.Reply {
	c.reset()
	return reply.Status("RESET")
}

func quit(c *conn, _ *module.Call) reply.Reply {
	c.ended = true
	return reply.OK
}

// maxName is the most bytes of a client's name. The memory of names is not counted.
const maxName = 256

// notName returns the error for a text that is not a valid name. one and many say what the text names.
func notName(one, many string, text []byte) reply.Reply {
	if len(text) > maxName {
		return reply.Errorf("ERR %s of %d bytes, at most %d", one, len(text), maxName)
	}
	return reply.Errorf("ERR %s cannot contain spaces, newlines or special characters.", many)
}

// isName reports whether a text is valid as a client's name or a value of SETINFO: CLIENT LIST must be able to show
// it.
func isName(name []byte) bool {
	return len(name) <= maxName && !slices.ContainsFunc(name, func(b byte) bool { return b < '!' || b > '~' })
}

// clientCommands returns the subcommands of CLIENT.
func clientCommands() []module.Command {
	sub := func(name string, arity int, flags module.Flags, syntax, summary string, f func(*conn, *module.Call) reply.Reply) module.Command {
		return module.Command{Name: name, Arity: arity, Flags: flags, Syntax: syntax, Summary: summary, Handler: onConn(f)}
	}
	return []module.Command{
		sub("CACHING", 3, 0, "YES | NO", "With tracking in mode OPTIN, YES tracks what the next command or transaction reads; with OPTOUT, NO does not.", clientCaching),
		sub("GETNAME", 2, 0, "", "Answers the connection's name.", func(c *conn, _ *module.Call) reply.Reply {
			if name := c.clientName(); name != "" {
				return reply.BulkString(name)
			}
			return reply.Nil
		}),
		sub("ID", 2, 0, "", "Answers the connection's number.", func(c *conn, _ *module.Call) reply.Reply { return reply.Int(c.id) }),
		sub("INFO", 2, 0, "", "Answers the connection's line of CLIENT LIST.", func(c *conn, _ *module.Call) reply.Reply {
			return reply.Verbatim(c.line() + "\n")
		}),
		sub("KILL", -3, module.Admin, "ip:port | [ID client-id] [ADDR ip:port] [LADDR ip:port] [TYPE type] [USER username] [SKIPME YES | NO]",
			"Closes the connection from an address, or all connections that match all options.", clientKill),
		sub("LIST", -2, module.Admin, "[TYPE type] [ID client-id [client-id ...]]", "Answers a line for each connection.", clientList),
		sub("NO-EVICT", 3, module.Admin, "ON | OFF", "Accepted for compatibility; has no effect.", func(c *conn, call *module.Call) reply.Reply {
			return c.setFlag(call.Args[0], func(a *about, on bool) { a.noEvict = on })
		}),
		sub("NO-TOUCH", 3, 0, "ON | OFF", "Accepted for compatibility; has no effect.", func(c *conn, call *module.Call) reply.Reply {
			return c.setFlag(call.Args[0], func(a *about, on bool) { a.noTouch = on })
		}),
		sub("SETINFO", 4, 0, "LIB-NAME name | LIB-VER version", "Says which library the client uses.", clientSetInfo),
		sub("SETNAME", 3, 0, "name", "Names the connection.", func(c *conn, call *module.Call) reply.Reply {
			return c.set(call.Args[0], notName("Client name", "Client names", call.Args[0]), func(a *about, name string) { a.name = name })
		}),
		sub("TRACKING", -3, 0, "ON | OFF [OPTIN] [OPTOUT]",
			"Pushes to the client, in RESP3, the keys that it has read when they are changed, so that it can keep what it read.", clientTracking),
		sub("TRACKINGINFO", 2, 0, "", "Answers how the connection tracks keys.", clientTrackingInfo),
	}
}

func clientSetInfo(c *conn, call *module.Call) reply.Reply {
	args := call.Args
	name := lower(args[0][:min(len(args[0]), 128)])
	bad := notName(name, name, args[1])
	switch text.FoldCase(args[0]) {
	case "LIB-NAME":
		return c.set(args[1], bad, func(a *about, text string) { a.library = text })
	case "LIB-VER":
		return c.set(args[1], bad, func(a *about, text string) { a.version = text })
	}
	return reply.Errorf("ERR Unrecognized option '%.128s'", args[0])
}

// set stores a text about the connection, or returns bad if it is not a valid name.
func (c *conn) set(text []byte, bad reply.Reply, put func(*about, string)) reply.Reply {
	if !isName(text) {
		return bad
	}
	c.about.mu.Lock()
	put(&c.about, string(text))
	c.about.mu.Unlock()
	return reply.OK
}

func (c *conn) setFlag(word []byte, put func(*about, bool)) reply.Reply {
	on := text.FoldCase(word)
	if on != "ON" && on != "OFF" {
		return errSyntax
	}
	c.about.mu.Lock()
	put(&c.about, on == "ON")
	c.about.mu.Unlock()
	return reply.OK
}

func (c *conn) clientName() string {
	c.about.mu.Lock()
	defer c.about.mu.Unlock()
	return c.about.name
}

// address returns the client's address as CLIENT LIST shows it.
func (c *conn) address() string { return showAddress(c.net.RemoteAddr(), c.net.LocalAddr()) }

func (c *conn) localAddress() string { return showAddress(c.net.LocalAddr(), c.net.LocalAddr()) }

// showAddress formats an address. The client's end of a Unix socket has no name, so it is shown as the socket's path,
// as in Redis.
func showAddress(addr, local net.Addr) string {
	if addr.Network() == "unix" {
		return local.String() + ":0"
	}
	return addr.String()
}

// withDescriptor calls f with the descriptor of a connection, which stays open until f returns. It does not call f if
// the connection has none, or is closed.
func withDescriptor(nc net.Conn, f func(fd int)) {
	if secret, ok := nc.(*tls.Conn); ok {
		nc = secret.NetConn()
	}
	if socket, ok := nc.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // fails if the connection is closed
		}
	}
}

// line returns the connection's line of CLIENT LIST in the format of Redis 7.4. Fields without a meaning here are
// constant.
func (c *conn) line() string {
	a := &c.about
	a.mu.Lock()
	defer a.mu.Unlock()
	now, number := time.Now(), -1
	withDescriptor(c.net, func(fd int) { number = fd })
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=%d name=%s age=%d idle=%d flags=%s db=0 sub=0 psub=0 ssub=0 multi=%d watch=0 "+
		"qbuf=%d qbuf-free=0 argv-mem=0 multi-mem=0 rbs=%d rbp=%d obl=0 oll=0 omem=%d tot-mem=%d events=r cmd=%s user=%s redir=-1 "+
		"resp=%d lib-name=%s lib-ver=%s",
		c.id, c.address(), c.localAddress(), number, a.name, int64(now.Sub(c.began).Seconds()), int64(now.Sub(a.lastActive).Seconds()),
		a.flags(), a.queued, a.in, a.out, a.out, a.out, a.in+a.out, a.command, a.user.Load().Name(), a.protocol, a.library, a.version)
}

// flags returns the flags that CLIENT LIST shows.
func (a *about) flags() string {
	flags := ""
	if a.queued >= 0 {
		flags += "x"
	}
	if a.tracking {
		flags += "t"
	}
	if a.readOnly {
		flags += "r"
	}
	if a.noEvict {
		flags += "e"
	}
	if a.noTouch {
		flags += "T"
	}
	if flags == "" {
		return "N"
	}
	return flags
}

// isType reports whether a word names the type of the clients, and whether it names a type at all. All clients here
// are normal.
func isType(word []byte) (normal, known bool) {
	switch text.FoldCase(word) {
	case "NORMAL":
		return true, true
	case "MASTER", "REPLICA", "SLAVE", "PUBSUB":
		return false, true
	}
	return false, false
}

func clientList(c *conn, call *module.Call) reply.Reply {
	args := call.Args
	chosen := func(*conn) bool { return true }
	switch {
	case len(args) == 0:
	case len(args) == 2 && text.FoldCase(args[0]) == "TYPE":
		normal, known := isType(args[1])
		if !known {
			return reply.Errorf("ERR Unknown client type '%.128s'", args[1])
		}
		chosen = func(*conn) bool { return normal }
	case len(args) >= 2 && text.FoldCase(args[0]) == "ID":
		ids := make(map[int64]bool)
		for _, arg := range args[1:] {
			id, ok := text.ParseInt(arg)
			if !ok {
				return reply.Error("ERR Invalid client ID")
			}
			ids[id] = true
		}
		chosen = func(other *conn) bool { return ids[other.id] }
	default:
		return errSyntax
	}
	list := slices.DeleteFunc(c.server.connections(), (*conn).isKilled)
	slices.SortFunc(list, func(a, b *conn) int { return int(a.id - b.id) })
	var text strings.Builder
	for _, other := range list {
		if chosen(other) {
			line := other.line()
			if err := call.Charge(len(line)); err != nil {
				return module.ErrorReply(err)
			}
			text.WriteString(line)
			text.WriteByte('\n')
		}
	}
	return reply.Verbatim(text.String())
}

// clientKill closes connections by address, or by options that must all match.
func clientKill(c *conn, call *module.Call) reply.Reply {
	args := call.Args
	if len(args) == 1 {
		if n := c.killChosen(func(other *conn) bool { return other.address() == string(args[0]) }); n == 0 {
			return reply.Error("ERR No such client")
		}
		return reply.OK
	}
	if len(args)%2 != 0 {
		return errSyntax
	}
	var conditions []func(*conn) bool
	skipMe := true
	for ; len(args) > 0; args = args[2:] {
		value := string(args[1])
		switch text.FoldCase(args[0]) {
		case "ID":
			id, ok := text.ParseInt(args[1])
			if !ok || id < 1 {
				return reply.Error("ERR client-id should be greater than 0")
			}
			conditions = append(conditions, func(other *conn) bool { return other.id == id })
		case "ADDR":
			conditions = append(conditions, func(other *conn) bool { return other.address() == value })
		case "LADDR":
			conditions = append(conditions, func(other *conn) bool { return other.localAddress() == value })
		case "USER":
			user := c.server.users.User(value)
			if user == nil {
				return reply.Errorf("ERR No such user '%.128s'", value)
			}
			conditions = append(conditions, func(other *conn) bool { return other.about.user.Load() == user })
		case "TYPE":
			normal, known := isType(args[1])
			if !known {
				return reply.Errorf("ERR Unknown client type '%.128s'", value)
			}
			conditions = append(conditions, func(*conn) bool { return normal })
		case "SKIPME":
			switch text.FoldCase(args[1]) {
			case "YES":
				skipMe = true
			case "NO":
				skipMe = false
			default:
				return errSyntax
			}
		default:
			return errSyntax
		}
	}
	n := c.killChosen(func(other *conn) bool {
		if other == c && skipMe {
			return false
		}
		return !slices.ContainsFunc(conditions, func(holds func(*conn) bool) bool { return !holds(other) })
	})
	return reply.Int(int64(n))
}

// killChosen closes the chosen connections, this one after its reply, and returns their number. It does not count a
// connection that was closed before, even if its last command still runs.
func (c *conn) killChosen(chosen func(*conn) bool) (n int) {
	for _, other := range c.server.connections() {
		switch {
		case !chosen(other):
		case other == c:
			c.ended = true
			n++
		case other.kill():
			n++
		}
	}
	return n
}
