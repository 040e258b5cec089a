package system

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// MemoryLimit returns how much memory, in bytes, the control groups of Linux leave to this process: the lowest limit of
// its own group and those above it. It is 0 if there is none, or none is known, as on other systems.
func MemoryLimit() int64 { return memoryLimit(os.DirFS("/")) }

// memoryLimit is MemoryLimit for the files below a root. Version 1 of control groups has a tree of its own for memory;
// version 2 has one tree, whose files have other names.
func memoryLimit(root fs.FS) (limit int64) {
	group, v1 := memoryGroup(readText(root, "proc/self/cgroup"))
	kind, file := "cgroup2", "memory.max"
	if v1 {
		kind, file = "cgroup", "memory.limit_in_bytes"
	}
	top, at := mountOf(readText(root, "proc/self/mountinfo"), kind)
	if at == "" {
		return 0
	}
	below, inside := strings.CutPrefix(group, strings.TrimSuffix(top, "/"))
	if !inside {
		below = "/" // a container sees its own group where the tree is mounted
	}
	for dir := path.Clean("/" + below); ; dir = path.Dir(dir) {
		if n := readLimit(root, path.Join(at, dir, file)); n > 0 && (limit == 0 || n < limit) {
			limit = n
		}
		if dir == "/" {
			return limit
		}
	}
}

// memoryGroup returns the group that limits memory, from the text of /proc/self/cgroup: a line of it is
// NUMBER:CONTROLLERS:GROUP. In version 2 there are no controllers.
func memoryGroup(text string) (group string, v1 bool) {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) != 3:
		case hasWord(fields[1], "memory"):
			return fields[2], true
		case fields[1] == "":
			group = fields[2]
		}
	}
	return group, false
}

// mountOf returns where the tree of groups is mounted, and which group is at its top, from the text of
// /proc/self/mountinfo. Of version 1 that is the tree for memory.
func mountOf(text, kind string) (top, at string) {
	for line := range strings.Lines(text) {
		own, more, _ := strings.Cut(line, " - ")
		fields, system := strings.Fields(own), strings.Fields(more)
		if len(fields) > 4 && len(system) > 2 && system[0] == kind && (kind == "cgroup2" || hasWord(system[2], "memory")) {
			return fields[3], strings.TrimPrefix(fields[4], "/")
		}
	}
	return "", ""
}

func hasWord(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }

// readLimit returns the limit in a file, 0 for none. Version 1 tells "none" by a number near the largest.
func readLimit(root fs.FS, name string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(readText(root, name)), 10, 64)
	if err != nil || n < 0 || n >= 1<<60 {
		return 0
	}
	return n
}

func readText(root fs.FS, name string) string {
	text, _ := fs.ReadFile(root, name) // a file that cannot be read tells of no limit
	return string(text)
}
