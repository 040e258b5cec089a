package module

import (
	"runtime/debug"
	"sync"
)

// modulePath is that of the module this package is in.
const modulePath = "github.com/sievekv/sievekv"

// Version returns the version of sievekv that the program was built with, such as v1.2.3: of its module, or if it was
// built from a checkout, "devel" with the revision, and "+dirty" if files were changed since. If nothing is known it is
// "unknown".
var Version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionIn(info)
})

func versionIn(info *debug.BuildInfo) string {
	if info.Main.Path != modulePath { // another program uses it
		for _, dep := range info.Deps {
			if dep.Path != modulePath {
				continue
			}
			if dep.Replace != nil && dep.Replace.Version != "" {
				return dep.Replace.Version
			}
			return orUnknown(dep.Version)
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	revision := settings["vcs.revision"]
	if revision == "" {
		return "devel"
	}
	version := "devel-" + revision[:min(len(revision), 12)]
	if settings["vcs.modified"] == "true" {
		version += "+dirty"
	}
	return version
}

func orUnknown(version string) string {
	if version == "" {
		return "unknown"
	}
	return version
}
