package main

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/module/reply"
)

// mayUseStdout are the functions that use standard output by itself. All others print by write, writeJSON, print and page,
// which escape what a terminal would take for commands.
var mayUseStdout = map[string]string{
	"main": "makes the shell", "setUp": "cobra writes completions there", "write": "escapes", "writeJSON": "escapes", "page": "the pager escapes",
	"print": "replies are escaped, unless raw ones are asked for", "append": "replies are escaped, unless raw ones are asked for",
	"backup": "writes an archive, never to a terminal", "export": "writes a file, never to a terminal",
	"dedup": "writes lines of the user's, and its summary", "Open": "of dedup", "openOut": "of dedup", "flush": "of dedup: lines of the user's",
	"refuseOwnFiles": "looks which file it is", "summary": "of dedup: numbers", "toStdout": "of dedup: lines of the user's",
	"hint": "asks if it is a terminal", "runWords": "asks if it is a terminal", "reporting": "the list of a dry run, which is escaped",
	"top": "the screen escapes", "printResult": "asks if it is a terminal", "latency": "asks if it is a terminal", "rewrite": "begins a line anew",
	"put": "of print", "showLong": "of print", "into": "has print and write go to a program",
	"openForPrompt": "its banner", "run": "an empty line", "clear": "clears the screen", "runPrompt": "asks if it is a terminal",
}

// mayUseFile are the functions that use the file behind messages.
var mayUseFile = map[string]string{
	"backup": "a bar", "load": "a bar", "dedup": "a bar", "salvage": "a bar", "reporting": "a bar", "loadFile": "a bar",
	"Open": "of dedup: looks which file it is", "into": "a program writes its errors there",
}

// Nothing is written to standard error but by tty.Messages, and to standard output only where it is known why.
func TestTerminal_source(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "servertest") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			name := ""
			if f, ok := decl.(*ast.FuncDecl); ok {
				name = f.Name.Name
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				of := lastName(s.X)
				switch {
				case of == "os" && (s.Sel.Name == "Stderr" || s.Sel.Name == "Stdout") && path != "main.go":
					t.Errorf("%s: %s uses os.%s", path, name, s.Sel.Name)
				case s.Sel.Name == "stdout" && mayUseStdout[name] == "":
					t.Errorf("%s: %s uses standard output: print by write or writeJSON, or say here why not", path, name)
				case of == "stderr" && s.Sel.Name == "File" && mayUseFile[name] == "":
					t.Errorf("%s: %s uses the file of standard error: write to stderr, or say here why not", path, name)
				case of == "fmt" && strings.HasPrefix(s.Sel.Name, "Print"):
					t.Errorf("%s: %s uses fmt.%s", path, name, s.Sel.Name)
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lastName returns the name of a variable or of a field.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// evil clears a screen, and has a control character of two bytes and one that turns the direction of text.
const evil = "x\x1b[2J\u009b2J\u202e"

// serveEvil answers everything with texts that a terminal takes for commands.
func serveEvil(t *testing.T) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answerEvil(c)
		}
	}()
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func answerEvil(c net.Conn) {
	defer c.Close()
	in := resp.NewReader(bufio.NewReader(c)) // a command has the form of a reply
	bad := reply.BulkString(evil)
	for {
		words, err := in.Read()
		if err != nil {
			return
		}
		var name []string
		for _, word := range words.Elems() {
			name = append(name, strings.ToUpper(string(word.Bytes())))
		}
		answer := reply.Error("ERR syntax error " + evil)
		switch line := strings.Join(name, " "); {
		case line == "COMMAND":
			answer = reply.Array(reply.Array(reply.BulkString("get"), reply.Int(2), reply.Array(reply.Status("readonly")), reply.Int(1), reply.Int(1), reply.Int(1)),
				reply.Array(bad, reply.Int(2), reply.Array(bad), reply.Int(1), reply.Int(1), reply.Int(1)))
		case line == "COMMAND DOCS":
			docs := reply.Array(reply.BulkString("summary"), bad, reply.BulkString("group"), bad, reply.BulkString("complexity"), bad, reply.BulkString("syntax"), bad,
				reply.BulkString("arguments"), reply.Array(reply.Array(reply.BulkString("name"), bad, reply.BulkString("type"), reply.BulkString("string"), reply.BulkString("token"), bad)))
			answer = reply.Array(reply.BulkString("get"), docs, bad, docs)
		case name[0] == "SCAN":
			answer = reply.Array(reply.BulkString("0"), reply.Array(bad))
		case name[0] == "TYPE" && len(name) > 1:
			answer = reply.Status(evil)
		case name[0] == "PTTL":
			answer = reply.Int(-1)
		case name[0] == "SIEVE.STATS":
			answer = reply.Array(reply.Map(reply.Pair{Key: reply.BulkString("type"), Value: bad}, reply.Pair{Key: reply.BulkString("key"), Value: bad}, reply.Pair{Key: bad, Value: bad}))
		case name[0] == "ECHO":
			answer = reply.Map(reply.Pair{Key: bad, Value: reply.Array(bad, reply.Verbatim(evil), reply.Status(evil))})
		}
		if _, err := c.Write(resp.Append(nil, answer, 2)); err != nil {
			return
		}
	}
}

// Whatever a server says, and wherever it is shown, a terminal takes none of it for a command.
func TestTerminal_evilServer(t *testing.T) {
	port := serveEvil(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("GET\nGET "+strconv.Quote(evil)+"\nECHO a\nNOSUCH"+evil+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{
		{"-f", script}, {"GET"}, {"GET", evil}, {"ECHO", "a"}, {"--json", "ECHO", "a"}, {"--no-raw", "ECHO", "a"}, {"--csv", "ECHO", "a"}, {"nosuch" + evil},
		{"-3", "ECHO", "a"}, {"-a", "secret", "ECHO", "a"}, {"-n", "3", "GET", "k"},
		{"help"}, {"help", "GET"}, {"help", evil}, {"stats"}, {"stats", evil}, {"stats", "k", "--json"}, {"check"}, {"compact"}, {"backup", evil},
		{"pull", "--from", "redis://127.0.0.1:" + port}, {"pull", "--from", "redis://127.0.0.1:" + port, "--dry-run"}, {"load", evil, script},
	} {
		out, _ := runs(t, nil, append([]string{"-h", "127.0.0.1", "-p", port, "--no-raw"}, words...)...)
		if at := strings.IndexFunc(out, func(c rune) bool { return !unicode.IsPrint(c) && c != '\n' && c != '\t' }); at >= 0 {
			t.Errorf("%q prints %q", words, out[max(0, at-100):min(len(out), at+50)])
		}
		if out == "" {
			t.Errorf("%q prints nothing", words)
		}
	}
}
