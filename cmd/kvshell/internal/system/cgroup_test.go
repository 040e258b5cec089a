package system

import (
	"testing"
	"testing/fstest"
)

func TestMemoryLimit(t *testing.T) {
	const (
		mount1 = "30 20 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n31 20 0:27 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
		mount2 = "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		none1  = "9223372036854771712\n"
	)
	for name, c := range map[string]struct {
		group, mounts string
		files         map[string]string
		want          int64
	}{
		"nothing is known":        {},
		"groups without a mount":  {group: "0::/a\n"},
		"v2, its own":             {"0::/a/b\n", mount2, map[string]string{"a/b/memory.max": "300\n"}, 300},
		"v2, no limit":            {"0::/a/b\n", mount2, map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "max\n"}, 0},
		"v2, of the group above":  {"0::/a/b\n", mount2, map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "200\n"}, 200},
		"v2, the lowest of both":  {"0::/a/b\n", mount2, map[string]string{"a/b/memory.max": "300\n", "a/memory.max": "200\n"}, 200},
		"v2, seen from inside":    {"0::/\n", mount2, map[string]string{"memory.max": "300\n"}, 300},
		"v2, a group of outside":  {"0::/../x\n", mount2, map[string]string{"memory.max": "300\n"}, 300},
		"v2, not a number":        {"0::/a\n", mount2, map[string]string{"a/memory.max": "-5 bytes\n"}, 0},
		"v1":                      {"4:cpu,cpuacct:/c\n3:memory:/a\n0::/\n", mount1, map[string]string{"memory/a/memory.limit_in_bytes": "300\n"}, 300},
		"v1, of the group above":  {"3:memory:/a/b\n", mount1, map[string]string{"memory/a/b/memory.limit_in_bytes": none1, "memory/a/memory.limit_in_bytes": "200\n"}, 200},
		"v1, no limit":            {"3:memory:/a\n", mount1, map[string]string{"memory/a/memory.limit_in_bytes": none1}, 0},
		"v1, mounted at a group":  {"3:memory:/docker/x/y\n", "31 20 0:27 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", map[string]string{"memory/y/memory.limit_in_bytes": "300\n"}, 300},
		"v1, mounted at another":  {"3:memory:/docker/x\n", "31 20 0:27 /other /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", map[string]string{"memory/memory.limit_in_bytes": "300\n"}, 300},
		"v1, the tree of another": {"3:memory:/a\n", "30 20 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", map[string]string{"cpu/a/memory.limit_in_bytes": "300\n"}, 0},
	} {
		root := fstest.MapFS{
			"proc/self/cgroup":    {Data: []byte(c.group)},
			"proc/self/mountinfo": {Data: []byte(c.mounts)},
		}
		for file, text := range c.files {
			root["sys/fs/cgroup/"+file] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := memoryLimit(root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
