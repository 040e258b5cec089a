package scalableext

import (
	"fmt"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// MaxGroup is the most bytes of the name of a group. The filters of a group have one secret of their hash, and can be
// merged. Other filters have a secret of their own.
const MaxGroup = 255

// GroupSetting returns the setting of the group of filters that commands make. Filters is what they are called.
func GroupSetting(name, filters string) module.Setting {
	return module.Setting{
		Name: name,
		Check: func(text string) (string, error) {
			if len(text) > MaxGroup {
				return "", fmt.Errorf("argument must be at most %d bytes", MaxGroup)
			}
			return text, nil
		},
		Summary: "Group of new " + filters + " if none is given: filters of one group can be merged; empty for a secret of their own.",
	}
}

// GroupOf returns the group that a setting of a store names, "" for none.
func GroupOf(db *kv.DB, name string) string { return module.Of(db).Setting(name) }
