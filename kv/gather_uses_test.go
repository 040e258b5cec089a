package kv

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Pebble is used without what is gathered only here, where that was thought of.
var usesDisk = map[string]string{
	"pebble":      "puts in what is gathered before",
	"putGathered": "puts it in",

	"readBlock":    "looks at what is gathered before",
	"readCounters": "looks at what is gathered before",
	"readObject":   "the header; counters by readCounters",

	"find":           "a header",
	"readKeys":       "headers",
	"eachHeader":     "headers",
	"readRaw":        "metadata",
	"Attribute":      "attributes",
	"KeepAttributes": "attributes",
	"countExpiring":  "notes of keys that expire",
	"expiredNotes":   "the same",
	"notesOf":        "the same",
	"compactRange":   "tables",
	"reclaimSmall":   "sizes of tables",
	"writeMeta":      "metadata",
	"checkEmpty":     "opening",

	"newWriter":     "makes a batch",
	"writeBlocks":   "makes a batch",
	"Reclaim":       "dropped objects, of which nothing is gathered",
	"dropUnwritten": "makes a batch, and reads a note",
	"findDropped":   "notes of dropped objects, of which nothing is gathered",

	"syncLog":      "its callers have put it in",
	"take":         "its caller has put it in",
	"findSequence": "opening",
	"newObjectID":  "ids that no commit has used",
	"keyedHash":    "a secret that no commit has used",

	"openPebble":    "opening",
	"closePebble":   "closing",
	"refuseForeign": "opening",

	"startCompactions": "figures",

	"Metrics":     "figures",
	"ObjectBytes": "figures",
	"DiskBytes":   "figures",
	"sizeBallast": "figures",
}

func TestGather_uses(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "disk" {
					found[f.Name.Name] = true
				}
				return true
			})
		}
	}
	want, got := slices.Sorted(maps.Keys(usesDisk)), slices.Sorted(maps.Keys(found))
	if !slices.Equal(got, want) {
		t.Errorf("functions that use Pebble directly:\n%q, want\n%q", got, want)
	}
}
