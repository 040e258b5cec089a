package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// Module returns the module that a store needs to be served: the commands about connections and the server, the
// server's settings, and its sections of INFO. Stores that are open at the same time need a module each.
func Module() module.Module {
	h := &hub{}
	return module.Module{
		Name: "server", Commands: commands(), Settings: settings(h), Services: h.services(),
		ResetStats: func(*kv.DB) {
			if s := h.server.Load(); s != nil {
				s.stats.reset(time.Since(s.started))
			}
		},
	}
}

// hub connects the module of a store with the store's server, so that commands find the server.
type hub struct {
	db     *kv.DB // set when the store is opened
	server atomic.Pointer[Server]
}

// hubs has the hubs of the open stores.
var hubs sync.Map // *kv.DB to *hub

func hubOf(db *kv.DB) *hub {
	h, _ := hubs.Load(db)
	own, _ := h.(*hub)
	return own
}

// beforeLogin are the commands that need no authentication.
var beforeLogin = map[string]bool{"AUTH": true, "HELLO": true, "QUIT": true, "RESET": true}

// onConnection are the commands that run at once even after MULTI, besides the transaction commands.
var onConnection = map[string]bool{"QUIT": true, "RESET": true}

func commands() []module.Command {
	connection := func(name string, arity int, syntax, summary, example string, f func(*conn, *module.Call) reply.Reply) module.Command {
		return module.Command{
			Name: name, Arity: arity, Flags: module.Fast | module.ModuleFlag, Group: "connection",
			Summary: summary, Syntax: syntax, Complexity: "O(1)", Example: example, Handler: onConn(f),
		}
	}
	// The answer to a password may be delayed, see guesses. In a transaction that would delay every write.
	login := func(name string, arity int, syntax, summary, example string, f func(*conn, *module.Call) reply.Reply) module.Command {
		c := connection(name, arity, syntax, summary, example, f)
		c.Flags |= module.NoMulti
		return c
	}
	server := func(name string, arity int, flags module.Flags, syntax, summary, example string, f func(*module.Call) reply.Reply) module.Command {
		return module.Command{
			Name: name, Arity: arity, Flags: flags | module.ModuleFlag, Group: "server",
			Summary: summary, Syntax: syntax, Complexity: "O(1)", Example: example, Handler: f,
		}
	}
	client := connection("CLIENT", -2, "", "Lists clients, names this one, or closes connections.", "CLIENT SETNAME loader\nCLIENT GETNAME", nil)
	client.Complexity = "O(N) for N clients with LIST and KILL, else O(1)"
	client.Flags, client.Subcommands = module.ModuleFlag, clientCommands()
	users := server("ACL", -2, 0, "", "Shows and changes what users may do.", "ACL SETUSER reader on >secret ~user:* +@read\nACL GETUSER reader", nil)
	users.Complexity, users.Subcommands = "O(N) for N users", aclCommands()
	slow := server("SLOWLOG", -2, 0, "", "Answers the last commands that took longer than "+slowerThanSetting+".", "SLOWLOG GET 5", nil)
	slow.Subcommands = slowLogCommands()
	waiting := server("WAIT", 3, module.Brief, "numreplicas timeout",
		"Waits until numreplicas other members of the group have everything written before, at most timeout milliseconds (0: for ever), and answers how many have it; 0 at once if the store is alone.",
		"WAIT 0 100", wait)
	waiting.Categories = []string{"connection"}
	return []module.Command{
		login("HELLO", -1, "[protover [AUTH username password] [SETNAME name]]",
			"Chooses the protocol, 2 or 3, and answers what the server is.", "HELLO 3", hello),
		login("AUTH", -2, "[username] password", "Logs in as a user; without a name as default.", "AUTH default secret", auth),
		connection("SELECT", 2, "index", "Chooses the database. The only one is 0.", "SELECT 0", selectDB),
		connection("RESET", 1, "", "Gives the connection the state of a new one.", "RESET", reset),
		connection("QUIT", -1, "", "Ends the connection after the replies to earlier commands.", "QUIT", quit),
		client,
		slow,
		users,
		{
			Name: "MONITOR", Arity: 1, Flags: module.Admin | module.NoMulti | module.ModuleFlag, Group: "server",
			Summary: "Answers with a line for each command of other clients from now on, until RESET.", Complexity: "O(1)", Example: "MONITOR",
			Handler: onConn(startMonitoring),
		},
		server("SHUTDOWN", -1, module.Admin|module.NoMulti, "[NOSAVE | SAVE] [NOW] [FORCE]", "Ends the server, after everything acknowledged is on stable storage.",
			"SHUTDOWN", shutdown),
		waiting,
	}
}

// onConn makes a command handler from a function that needs the connection. A session without a connection, in the
// process that has the store open, gets an error.
func onConn(f func(*conn, *module.Call) reply.Reply) func(*module.Call) reply.Reply {
	if f == nil {
		return nil
	}
	return func(c *module.Call) reply.Reply {
		own, ok := c.Session.Connection.(*conn)
		if !ok {
			return noServer(c)
		}
		return f(own, c)
	}
}

// serverOf returns the server of the session that runs a call, nil if the session has no connection.
func serverOf(c *module.Call) *Server {
	if own, ok := c.Session.Connection.(*conn); ok {
		return own.server
	}
	return nil
}

func noServer(c *module.Call) reply.Reply {
	return reply.Errorf("ERR %s is for clients of a server: this session is in the process that has the store open", c.Command.Name)
}

func shutdown(c *module.Call) reply.Reply {
	s := serverOf(c)
	if s == nil {
		return noServer(c)
	}
	save := "" // SAVE and NOSAVE are checked as in Redis, but mean nothing here
	for _, arg := range c.Args {
		switch word := text.FoldCase(arg); {
		case word == "NOW" || word == "FORCE":
		case (word == "NOSAVE" || word == "SAVE") && (save == "" || save == word):
			save = word
		default:
			return errSyntax
		}
	}
	s.askShutdown()
	own, _ := c.Session.Connection.(*conn)
	own.ended, own.silent = true, true // a reply would mean that the server goes on
	return reply.OK
}

// longestWait is the longest timeout of WAIT, in milliseconds: a year.
const longestWait = 365 * 24 * 60 * 60 * 1000

func wait(c *module.Call) reply.Reply {
	replicas, ok := text.ParseInt(c.Args[0])
	if !ok {
		return errNotInteger
	}
	timeout, ok := text.ParseInt(c.Args[1])
	switch {
	case !ok:
		return reply.Error("ERR timeout is not an integer or out of range")
	case timeout < 0:
		return reply.Error("ERR timeout is negative")
	}
	if s := serverOf(c); s != nil && s.group != nil {
		own, _ := c.Session.Connection.(*conn)
		return waitInGroup(own, c, replicas, time.Duration(min(timeout, longestWait))*time.Millisecond)
	}
	return reply.Int(0) // no replica will ever have the writes, so waiting is useless
}

var (
	errSyntax     = reply.Error("ERR syntax error")
	errNotInteger = reply.Error("ERR value is not an integer or out of range")
)
