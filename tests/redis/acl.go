package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/acl"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/server"
)

// userCommands is how many commands each random user is asked about.
const userCommands = 50

// compareUsers gives random users to both servers, and lets them decide, by ACL DRYRUN, which random commands each may
// run. It prints the pairs for which they differ, and returns their number.
func compareUsers(pairs int, seed uint64, show int) (differing int, err error) {
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Modules: module.New(server.Module())})
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }()
	real, err := startRedis()
	if err != nil {
		return 0, err
	}
	defer real.stop()
	names, categories, err := shared(real, acl.New(module.Of(db.Store()).Commands()))
	if err != nil {
		return 0, err
	}
	g := &userGenerator{generator: generator{random: rand.New(rand.NewPCG(seed, 0))}, names: names, categories: categories}
	refused := 0
	for done := 0; done < pairs; done += userCommands {
		lists := acl.New(module.Of(db.Store()).Commands())
		rules := g.rules()
		commands := [][]string{{"ACL", "DELUSER", "u"}, append([]string{"ACL", "SETUSER", "u"}, rules...)}
		var asked [][]string
		for range min(userCommands, pairs-done) {
			asked = append(asked, g.command())
			commands = append(commands, append([]string{"ACL", "DRYRUN", "u"}, asked[len(asked)-1]...))
		}
		replies, err := real.do(commands...)
		if err != nil {
			return differing, err
		}
		ours := lists.Set("u", rules)
		if theirs := replies[1]; theirs.IsError() != (ours != nil) || ours != nil && "ERR "+ours.Error() != string(theirs.Bytes()) {
			if differing++; differing <= show {
				fmt.Printf("ACL SETUSER u %q: %v, redis-server %s\n", rules, ours, theirs)
			}
			continue
		}
		if ours != nil {
			refused++
			continue
		}
		for i, words := range asked {
			if got, want := decision(lists, words), decided(replies[2+i]); got != want {
				if differing++; differing <= show {
					fmt.Printf("%q with %q: %s, redis-server %s\n", words, rules, got, want)
				}
			}
		}
	}
	fmt.Printf("users refused by both %d\n", refused)
	return differing, nil
}

// shared returns the commands that both servers have, subcommands as in "config|get", and the categories.
func shared(real *realRedis, lists *acl.Lists) (names, categories []string, err error) {
	replies, err := real.do([]string{"COMMAND", "LIST"}, []string{"ACL", "CAT"})
	if err != nil {
		return nil, nil, err
	}
	for _, name := range replies[0].Elems() {
		words := bytes.Split(name.Bytes(), []byte("|"))
		if cmd, _ := lists.Command(append(words, nil)); cmd != nil && (len(words) == 2 || len(cmd.Subcommands) == 0) {
			names = append(names, string(name.Bytes()))
		}
	}
	for _, category := range replies[1].Elems() {
		if lists.InCategory(string(category.Bytes())) != nil {
			categories = append(categories, string(category.Bytes()))
		}
	}
	return names, categories, nil
}

func decision(lists *acl.Lists, line []string) string {
	var words [][]byte
	for _, word := range line {
		words = append(words, []byte(word))
	}
	cmd, args := lists.Command(words)
	if !cmd.Takes(len(words)) {
		return "wrong number of arguments"
	}
	if denial := lists.User("u").Check(cmd, args); denial != nil {
		if denial.Reason() == "key" {
			return "no access to " + denial.Object()
		}
		return "no " + denial.Object()
	}
	return "allowed"
}

// decided is the decision that redis-server's reply to ACL DRYRUN tells: the texts differ between versions.
func decided(r reply.Reply) string {
	text := string(r.Bytes())
	quoted := func() string {
		_, rest, _ := strings.Cut(text, "'")
		return rest[:strings.LastIndex(rest, "'")]
	}
	switch {
	case text == "OK":
		return "allowed"
	case strings.Contains(text, "wrong number of arguments"):
		return "wrong number of arguments"
	case strings.Contains(text, "to access the"):
		return "no access to " + quoted()
	case strings.Contains(text, "to run the"):
		return "no " + quoted()
	}
	return text
}

// userGenerator makes random users and commands for them.
type userGenerator struct {
	generator
	names, categories []string
}

func (g *userGenerator) rules() (rules []string) {
	rules = append(rules, "on")
	for range 1 + g.random.IntN(6) {
		switch g.random.IntN(12) {
		case 0:
			rules = append(rules, "("+strings.Join(g.selector(), " ")+")")
		case 1:
			rules = append(rules, g.one("nopass", ">x", "<x", "resetpass", "reset", "clearselectors", "off", "nosuch", "#"+strings.Repeat("a", 64)))
		default:
			rules = append(rules, g.rule())
		}
	}
	return rules
}

func (g *userGenerator) selector() (rules []string) {
	for range 1 + g.random.IntN(3) {
		rules = append(rules, g.rule())
	}
	return rules
}

func (g *userGenerator) rule() string {
	sign := g.one("+", "+", "-")
	switch g.random.IntN(8) {
	case 0, 1:
		return sign + "@" + g.one(g.categories...)
	case 2:
		return sign + "@all"
	case 3, 4:
		return g.one("~", "%R~", "%W~", "%RW~") + g.one("a*", "b", "[ab]", "?", "c?", "*x", "\\*", "[^a]*", "*")
	case 5:
		return g.one("allkeys", "resetkeys", "allchannels", "&a", "~*", "+nosuch", "+select|0", "+get|a", "-get|a", "+config", "-config", "+client", "-object")
	}
	return sign + g.one(g.names...)
}

func (g *userGenerator) command() []string {
	name := g.one(g.names...)
	words := strings.Split(name, "|")
	for range g.random.IntN(5) {
		words = append(words, g.one("a", "b", "ab", "c", "cx", "*", "d", "get", "GET", "0"))
	}
	return words
}
