package txn

import (
	"bytes"

	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// onErrorSetting says what EXEC does about an error of a command: it goes on, as in Redis, or undoes all. A connection, or
// a single transaction, may choose by the command SIEVE.ONERROR.
const onErrorSetting = "exec-on-error"

const (
	continues = "continue"
	rollsBack = "rollback"
)

// onErrorCommand is SIEVE.ONERROR.
const onErrorCommand = "SIEVE.ONERROR"

// onErrorWord returns the choice that an argument names: "" for DEFAULT, the setting's.
func onErrorWord(arg []byte) (choice string, ok bool) {
	switch text.FoldCase(arg) {
	case "CONTINUE":
		return continues, true
	case "ROLLBACK":
		return rollsBack, true
	case "DEFAULT":
		return "", true
	}
	return "", false
}

// onError chooses for the session's later transactions. Inside of MULTI, intercept has chosen for that transaction alone.
func onError(c *module.Call) reply.Reply {
	choice, ok := onErrorWord(c.Args[0])
	if !ok {
		return notOnError(c.Args[0])
	}
	if c.Transaction == nil {
		of(c).onError = choice
	}
	return reply.OK
}

func notOnError(arg []byte) reply.Reply {
	return reply.Errorf("ERR '%.128s': must be CONTINUE, ROLLBACK or DEFAULT", arg)
}

// chooseOnError chooses for the transaction that SIEVE.ONERROR is queued in, and reports whether the word is right.
func (s *session) chooseOnError(arg []byte) bool {
	choice, ok := onErrorWord(arg)
	s.transactionOnError, s.chosen = choice, s.chosen || ok
	return ok
}

// undoes reports whether an error of a command undoes the transaction.
func (s *session) undoes(c *module.Call) bool {
	choice := s.onError
	if s.chosen {
		choice = s.transactionOnError
	}
	if choice == "" {
		choice = c.Host.Setting(onErrorSetting)
	}
	return choice == rollsBack
}

// discarded is the error of a transaction that was undone for a failure.
func discarded(failure []byte) error {
	return reply.Error("EXECABORT Transaction discarded because of: " + string(failure)).Err()
}

// undoable returns an error if a queued command would change something that is not part of the transaction, and stays
// changed when that is undone: a setting, or a user.
func (s *session) undoable() error {
	for _, q := range s.queued {
		if q.cmd.Flags&(module.Admin|module.Write|module.ReadOnly) == module.Admin {
			return discarded([]byte("ERR '" + q.cmd.LowerName() + "' cannot be undone"))
		}
	}
	return nil
}

// firstFailure returns the error of a transaction that the reply of one of its commands undoes, nil if there is no error
// in the reply.
func firstFailure(r reply.Reply) error {
	for failure := range r.Errors() {
		if bytes.HasPrefix(failure.Bytes(), []byte("MISCONF ")) {
			return failure.Err()
		}
		return discarded(failure.Bytes())
	}
	return nil
}
