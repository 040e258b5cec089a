package coretest

import (
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// other is a type of another module, for keys of a wrong type.
var other = &kv.Type{Name: "other", Version: 1, Open: func(*kv.Object) (any, error) { return "other", nil }}

// OtherModule returns a module with the command OTHER.NEW key, which makes a key of that type.
func OtherModule() module.Module {
	return module.Module{Name: "othermodule", Types: []*kv.Type{other}, Commands: []module.Command{{
		Name: "OTHER.NEW", Arity: 2, Flags: module.Write | module.ModuleFlag, FirstKey: 1, LastKey: 1, KeyStep: 1,
		Group: "other", Summary: "Makes a key of another type.", Syntax: "key", Handler: func(c *module.Call) reply.Reply {
			return c.Update(c.Args, func(w *kv.Writer) (reply.Reply, error) {
				_, err := w.Create(c.Args[0], kv.Spec{Type: other, Family: block.FamilyBits})
				return reply.OK, err
			})
		},
	}}}
}
