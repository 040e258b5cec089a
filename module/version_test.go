package module

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	main := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: version}, Settings: settings}
	}
	other := func(dep *debug.Module) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Path: "example.org/crawler", Version: "v9.9.9"}, Deps: []*debug.Module{
			{Path: "example.org/x", Version: "v8.8.8"}, dep,
		}}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}
	tests := []struct {
		name string
		info *debug.BuildInfo
		want string
	}{
		{"installed", main("v1.2.3"), "v1.2.3"},
		{"without version control", main("(devel)"), "devel"},
		{"a test", main(""), "devel"},
		{"a checkout", main("(devel)", revision), "devel-0123456789ab"},
		{"a changed checkout", main("(devel)", revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"}), "devel-0123456789ab+dirty"},
		{"in another program", other(&debug.Module{Path: modulePath, Version: "v1.2.4"}), "v1.2.4"},
		{"replaced", other(&debug.Module{Path: modulePath, Version: "v1.2.4", Replace: &debug.Module{Path: "x", Version: "v1.2.5"}}), "v1.2.5"},
		{"replaced by a directory", other(&debug.Module{Path: modulePath, Version: "v1.2.4", Replace: &debug.Module{Path: "../x"}}), "v1.2.4"},
		{"without a version", other(&debug.Module{Path: modulePath}), "unknown"},
	}
	for _, tt := range tests {
		if got := versionIn(tt.info); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if Version() == "" {
		t.Error("the version of this program is empty")
	}
}
