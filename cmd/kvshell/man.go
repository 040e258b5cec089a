package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/module"
)

func (sh *shell) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "man DIR",
		Short:                 "Writes man pages into a directory",
		Long:                  manHelp,
		Args:                  exactArgs(1),
		Annotations:           storeless,
		DisableFlagsInUseLine: true,
		RunE:                  func(cmd *cobra.Command, args []string) error { return sh.man(cmd.Root(), args[0]) },
	}
}

const manHelp = `man writes man pages into the directory DIR, which it makes if it is not there: kvshell.1, and one for each own word, such as
kvshell-dedup.1. They say what help says. To have them read by man:

  kvshell man ~/.local/share/man/man1
  man kvshell-dedup
`

func (sh *shell) man(root *cobra.Command, dir string) error {
	if dir == "" {
		return exit.Usagef(`man: DIR is "", want a directory for the pages`)
	}
	root.AddCommand(&cobra.Command{Use: "info FILE|-", Short: "Describes a file that export has written", Long: infoHelp, Run: func(*cobra.Command, []string) {}})
	for _, cmd := range append(root.Commands(), root) {
		cmd.Long, cmd.DisableAutoGenTag = manText(cmd), true
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return exit.WithCode(exit.Local, err)
	}
	header := &doc.GenManHeader{Section: "1", Source: "kvshell " + module.Version(), Manual: "kvshell"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return exit.WithCode(exit.Local, err)
	}
	return sh.write(fmt.Sprintf("man pages in %s\n", dir))
}

// manText returns the help on a word as Markdown, from which cobra makes a man page. Indented lines stay as they are,
// as code does.
func manText(cmd *cobra.Command) string {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	var b strings.Builder
	indented := false
	for line := range strings.Lines(text) {
		if begins := strings.HasPrefix(line, "  "); begins != indented {
			indented = begins
			b.WriteString("\n")
		}
		if indented {
			b.WriteString("  ") // four blanks make code
		}
		b.WriteString(line)
	}
	return b.String()
}
