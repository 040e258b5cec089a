package main

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// The files for systemd and Docker start the program with flags that it has.
func TestDeploy_flags(t *testing.T) {
	help := ""
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}} {
		output, err := exec.Command("kvshell", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		help += string(output)
	}
	known := make(map[string]bool)
	for _, flag := range regexp.MustCompile(`(?m)^ +(-\w)?(?:, )?(--[-\w]+)?`).FindAllStringSubmatch(help, -1) {
		known[flag[1]], known[flag[2]] = true, true
	}
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/kvshell (.*)$`).FindStringSubmatch(readDoc(t, "deploy/sievekv.service"))
	if start == nil {
		t.Fatal("the unit does not start /usr/local/bin/kvshell")
	}
	words := strings.Fields(start[1])
	docker := readDoc(t, "deploy/Dockerfile")
	for _, instruction := range []string{"ENTRYPOINT", "CMD", "HEALTHCHECK CMD"} {
		found := regexp.MustCompile(`(?m)^` + instruction + ` (\[.*\])$`).FindStringSubmatch(docker)
		var list []string
		if found == nil {
			t.Fatalf("the Dockerfile has no %s", instruction)
		}
		if err := json.Unmarshal([]byte(found[1]), &list); err != nil {
			t.Fatal(err)
		}
		words = append(words, list...)
	}
	flags := 0
	for _, word := range words {
		if flag, _, _ := strings.Cut(word, "="); strings.HasPrefix(flag, "-") {
			flags++
			if !known[flag] {
				t.Errorf("%s: kvshell has no such flag", flag)
			}
		}
	}
	if flags != 9 {
		t.Errorf("%d flags in %q, want 9", flags, words)
	}
	if known["--nosuch"] || !known["-d"] {
		t.Errorf("the flags of kvshell were not found: %v", known)
	}
}
