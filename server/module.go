package server

import (
	"sync"
	"sync/atomic"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/text"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// Module is the module to open a store with that is to be served: the commands about
// connections and the server, its settings, and its sections of INFO.
func Module() module.Module {
	h := &hub{}
	return module.Module{
		Name: "server", Commands: commands(), Settings: settings(h), Services: h.services(),
		ResetStats: func(*kv.DB) {
			if s := h.server.Load(); s != nil {
				s.stats.reset()
			}
		},
	}
}

// hub is where the commands of a store's module find the store's server. It is the service
// that knows when the store is opened and closed.
type hub struct {
	db     *kv.DB // set when the store is opened
	server atomic.Pointer[Server]
}

// hubs are those of open stores.
var hubs sync.Map // *kv.DB to *hub

func hubOf(db *kv.DB) *hub {
	h, _ := hubs.Load(db)
	own, _ := h.(*hub)
	return own
}

// beforeLogin are the commands a client may give before it has authenticated itself.
var beforeLogin = map[string]bool{"AUTH": true, "HELLO": true, "QUIT": true, "RESET": true}

// outsideMulti are the commands that MULTI refuses.
var outsideMulti = map[string]bool{"SHUTDOWN": true}

// onConnection are the commands that MULTI does not queue, besides its own.
var onConnection = map[string]bool{"QUIT": true, "RESET": true}

func commands() []module.Command {
	connection := func(name string, arity int, syntax, summary, example string, f func(*conn, *module.Call) reply.Reply) module.Command {
		return module.Command{
			Name: name, Arity: arity, Flags: module.Fast | module.ModuleFlag, Group: "connection",
			Summary: summary, Syntax: syntax, Complexity: "O(1)", Example: example, Handler: onConn(f),
		}
	}
	server := func(name string, arity int, flags module.Flags, syntax, summary, example string, f func(*module.Call) reply.Reply) module.Command {
		return module.Command{
			Name: name, Arity: arity, Flags: flags | module.ModuleFlag, Group: "server",
			Summary: summary, Syntax: syntax, Complexity: "O(1)", Example: example, Handler: f,
		}
	}
	client := connection("CLIENT", -2, "", "Tells about the clients, names this one, or closes connections.", "CLIENT SETNAME loader\nCLIENT GETNAME", nil)
	client.Complexity = "O(N) for N clients with LIST and KILL, else O(1)"
	client.Flags, client.Subcommands = module.ModuleFlag, clientCommands()
	users := server("ACL", -2, 0, "", "Tells and changes who may do what.", "ACL SETUSER reader on >secret ~user:* +@read\nACL GETUSER reader", nil)
	users.Complexity, users.Subcommands = "O(N) for N users", aclCommands()
	slow := server("SLOWLOG", -2, 0, "", "Answers the last commands that took longer than "+slowerThanSetting+".", "SLOWLOG GET 5", nil)
	slow.Subcommands = slowLogCommands()
	waiting := server("WAIT", 3, 0, "numreplicas timeout", "Answers how many replicas have what was written: none, as there are none.", "WAIT 0 100", wait)
	waiting.Categories = []string{"connection"}
	return []module.Command{
		connection("HELLO", -1, "[protover [AUTH username password] [SETNAME name]]",
			"Chooses the protocol, 2 or 3, and answers what the server is.", "HELLO 3", hello),
		connection("AUTH", -2, "[username] password", "Logs in as a user; without a name as default.", "AUTH default secret", auth),
		connection("SELECT", 2, "index", "Chooses the database, of which there is one: 0.", "SELECT 0", selectDB),
		connection("RESET", 1, "", "Takes the connection back to where a new one is.", "RESET", reset),
		connection("QUIT", -1, "", "Ends the connection after the replies to what was sent before.", "QUIT", quit),
		client,
		slow,
		users,
		server("SHUTDOWN", -1, module.Admin, "[NOSAVE | SAVE] [NOW] [FORCE]", "Ends the server, once everything that was acknowledged is on stable storage.",
			"SHUTDOWN", shutdown),
		waiting,
	}
}

// onConn makes a handler of one that needs the connection. A session in the process that has
// the store open has none.
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

// serverOf returns the server of a call's connection, nil if there is none.
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
	save := "" // of what this and the rest mean in Redis nothing is left to choose here
	for _, arg := range c.Args {
		switch word := text.FoldCase(arg); {
		case word == "NOW" || word == "FORCE":
		case (word == "NOSAVE" || word == "SAVE") && (save == "" || save == word):
			save = word
		default:
			return errSyntax
		}
	}
	if c.Transaction != nil {
		return reply.Error("ERR Command not allowed inside a transaction")
	}
	s.askShutdown()
	own, _ := c.Session.Connection.(*conn)
	own.ended, own.silent = true, true // a reply would mean that it goes on
	return reply.OK
}

func wait(c *module.Call) reply.Reply {
	if _, ok := text.ParseInt(c.Args[0]); !ok {
		return errNotInteger
	}
	timeout, ok := text.ParseInt(c.Args[1])
	switch {
	case !ok:
		return reply.Error("ERR timeout is not an integer or out of range")
	case timeout < 0:
		return reply.Error("ERR timeout is negative")
	}
	return reply.Int(0) // nothing is gained by waiting out the timeout
}

var (
	errSyntax     = reply.Error("ERR syntax error")
	errNotInteger = reply.Error("ERR value is not an integer or out of range")
)
