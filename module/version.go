package module

import (
	"runtime/debug"
	"sync"
)

// modulePath is the path of the Go module that this package is in.
const modulePath = "github.com/sievekv/sievekv"

// Version returns the version of sievekv in the program, such as v1.2.3. If it was built from a checkout, that is
// "devel" with the revision, and "+dirty" if files were changed. If nothing is known, it is "unknown".
func Version() string { return version() }

var version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionIn(info)
})

func versionIn(info *debug.BuildInfo) string {
	if info.Main.Path != modulePath { // another program imports sievekv
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
