package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/module"
)

// versionText is the version of the program in a line.
func versionText() string {
	return fmt.Sprintf("kvshell %s %s %s/%s\n", module.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (sh *shell) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Tells the version of this program", Args: exactArgs(0), Annotations: storeless,
		RunE: func(*cobra.Command, []string) error { return sh.write(versionText()) },
	}
}
