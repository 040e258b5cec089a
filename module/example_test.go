package module_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// A module with a command that keeps the longest string under a key.
func Example() {
	longest := module.Module{Name: "longest", Commands: []module.Command{{
		Name: "LONGEST", Arity: 3, Flags: module.Write | module.ModuleFlag, FirstKey: 1, LastKey: 1, KeyStep: 1,
		Group: "longest", Syntax: "key value", Summary: "Sets a string if it is longer than what is there; answers 1 if so, else 0.",
		Complexity: "O(N) for a string of N bytes", Example: "LONGEST word apple",
		Handler: func(c *module.Call) reply.Reply {
			key, value := c.Args[0], c.Args[1]
			return c.Update(c.Args[:1], func(w *kv.Writer) (reply.Reply, error) {
				old, err := w.Get(key)
				if err != nil || len(old) >= len(value) {
					return reply.Int(0), err
				}
				_, err = w.Set(key, value, kv.SetOptions{})
				return reply.Int(1), err
			})
		},
	}}}
	db, err := kv.Open("", &kv.Options{InMemory: true, Modules: coreext.With(longest)})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	session := module.NewSession(db)
	for _, words := range [][]string{{"LONGEST", "word", "apple"}, {"LONGEST", "word", "fig"}, {"GET", "word"}, {"LONGEST", "word"}} {
		args := make([][]byte, len(words))
		for i, word := range words {
			args[i] = []byte(word)
		}
		fmt.Println(session.Do(context.Background(), args))
	}
	// Output:
	// (integer) 1
	// (integer) 0
	// "apple"
	// (error) ERR wrong number of arguments for 'longest' command
}
