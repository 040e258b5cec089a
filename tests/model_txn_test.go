package tests_test

import (
	"strings"

	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/module/reply"
)

const modelSessions = 2

// modelSession is what MULTI and WATCH make of a session.
type modelSession struct {
	multi, aborted bool
	queue          [][]string
	watched        map[string]watchedKey
}

type watchedKey struct {
	version int
	there   bool
}

func (s *modelSession) end() { *s = modelSession{} }

// refusedCommands are commands that are refused before they run, for their name or their number of words.
var refusedCommands = map[string]string{
	"GET":        "ERR wrong number of arguments for 'get' command",
	"BF.ADD a":   "ERR wrong number of arguments for 'bf.add' command",
	"NOSUCH a b": "ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' ",
}

// do does a command of a session.
func (m *model) do(s *modelSession, words []string) want {
	if text, ok := refusedCommands[strings.Join(words, " ")]; ok {
		s.aborted = s.aborted || s.multi
		return fails(text)
	}
	name := words[0]
	switch {
	case name == "EXEC" && len(words) > 1:
		s.end()
		return fails("EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command")
	case name == "EXEC":
		return m.exec(s)
	case name == "DISCARD":
		if !s.multi {
			return fails("ERR DISCARD without MULTI")
		}
		s.end()
		return exactly(reply.OK)
	case s.multi && name == "MULTI":
		return fails("ERR MULTI calls can not be nested")
	case s.multi && name == "WATCH":
		return fails("ERR WATCH inside MULTI is not allowed")
	case s.multi:
		s.queue = append(s.queue, words)
		return exactly(reply.Status("QUEUED"))
	case name == "MULTI":
		s.multi = true
		return exactly(reply.OK)
	case name == "WATCH":
		if s.watched == nil {
			s.watched = make(map[string]watchedKey)
		}
		for _, key := range words[1:] {
			if _, known := s.watched[key]; !known {
				s.watched[key] = watchedKey{m.versions[key], m.keys[key] != nil}
			}
		}
		return exactly(reply.OK)
	case name == "UNWATCH":
		s.watched = nil
		return exactly(reply.OK)
	}
	return m.answer(words)
}

func (m *model) exec(s *modelSession) want {
	if !s.multi {
		return fails("ERR EXEC without MULTI")
	}
	defer s.end()
	if s.aborted {
		return fails("EXECABORT Transaction discarded because of previous errors.")
	}
	for key, w := range s.watched {
		if m.versions[key] != w.version || w.there && m.keys[key] == nil {
			return exactly(reply.Nil)
		}
	}
	var wants []want
	for _, words := range s.queue {
		if words[0] == "UNWATCH" {
			wants = append(wants, exactly(reply.OK))
			continue
		}
		wants = append(wants, m.answer(words))
	}
	return each(wants...)
}

// session runs a command of transactions in a session.
func (r *modelRun) session(t *rapid.T) {
	session := drawSession(t)
	words := rapid.Custom(func(t *rapid.T) []string {
		switch rapid.IntRange(0, 9).Draw(t, "which") {
		case 0, 1:
			return []string{"MULTI"}
		case 2, 3, 4:
			return []string{"EXEC"}
		case 5:
			return []string{"DISCARD"}
		case 6, 7:
			return append([]string{"WATCH"}, drawKeys(t)...)
		case 8:
			return []string{"UNWATCH"}
		}
		return strings.Fields(drawOne(t, "GET", "BF.ADD a", "NOSUCH a b", "EXEC now"))
	}).Draw(t, "command")
	r.do(session, words)
}

// multi runs a transaction of a session, between whose commands the other session runs some.
func (r *modelRun) multi(t *rapid.T) {
	session := drawSession(t)
	var before [][]string
	if chance(t, 2) {
		before = append(before, append([]string{"WATCH"}, drawKeys(t)...))
	}
	type part struct{ Queued, Beside [][]string }
	parts := aFew(t, rapid.Custom(func(t *rapid.T) (p part) {
		p.Queued = r.commandsOf("").Draw(t, "queued")
		if chance(t, 4) {
			p.Beside = r.commandsOf("").Draw(t, "beside")
		}
		return p
	}))
	end := drawOne(t, "EXEC", "EXEC", "EXEC", "DISCARD")
	for _, words := range append(before, []string{"MULTI"}) {
		r.do(session, words)
	}
	for _, p := range parts {
		for _, words := range p.Queued {
			r.do(session, words)
		}
		for _, words := range p.Beside {
			r.do(1-session, words)
		}
	}
	r.do(session, []string{end})
}
