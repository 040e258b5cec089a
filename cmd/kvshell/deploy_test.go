package main

import (
	"encoding/json"
	"fmt"
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

// The alerts equal the table in docs/OPERATING.md, where each of them has an anchor, and each has a case in which it
// fires and one in which it does not. promtool runs the cases.
func TestDeploy_alerts(t *testing.T) {
	rules := readDoc(t, "deploy/prometheus/alerts.yaml")
	rule := regexp.MustCompile(`      - alert: (\w+)
        expr: (.+)
        for: (\w+)
        labels: \{severity: (critical|warning)\}
        annotations:
          summary: "\{\{ \$labels.instance \}\}: .+"
          runbook_url: https://github.com/sievekv/sievekv/blob/main/docs/OPERATING.md#(\w+)
`)
	found := rule.FindAllStringSubmatch(rules, -1)
	if n := strings.Count(rules, "- alert:"); n != len(found) || n < 20 {
		t.Errorf("%d alerts, and %d can be read", n, len(found))
	}
	operating, cases := readDoc(t, "docs/OPERATING.md"), readDoc(t, "deploy/prometheus/alerts_test.yaml")
	for _, a := range found {
		name, expr, wait, severity, anchor := a[1], a[2], a[3], a[4], a[5]
		if row := "\n| <a id=\"" + anchor + "\"></a>" + name + ", " + severity + " | `" + expr + "` | " + wait + " | "; !strings.Contains(operating, row) {
			t.Errorf("docs/OPERATING.md has no row that begins with%s", row)
		}
		for _, want := range []string{"{alertname: " + name + ", eval_time: 5m, exp_alerts: []}", "- alertname: " + name + "\n"} {
			if !strings.Contains(cases, want) {
				t.Errorf("alerts_test.yaml has no %s", want)
			}
		}
	}
	if n := strings.Count(operating, "| <a id="); n != len(found) {
		t.Errorf("docs/OPERATING.md has %d rows of alerts, want %d", n, len(found))
	}
}

// board is what a test looks at of the board for Grafana.
type board struct {
	UID        string
	Templating struct{ List []struct{ Name, Type string } }
	Panels     []struct {
		ID          int
		Type, Title string
		Datasource  struct{ UID string }
		Targets     []struct{ Expr string }
	}
}

func readBoard(t *testing.T) (b board) {
	t.Helper()
	if err := json.Unmarshal([]byte(readDoc(t, "deploy/grafana/sievekv.json")), &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// The board is always the same one, and asks the chosen data source about the chosen servers.
func TestDeploy_board(t *testing.T) {
	b := readBoard(t)
	var rows, variables []string
	ids := make(map[int]bool)
	for _, v := range b.Templating.List {
		variables = append(variables, v.Type+" "+v.Name)
	}
	for _, p := range b.Panels {
		if ids[p.ID] = true; p.Type == "row" {
			rows = append(rows, p.Title)
			continue
		}
		if p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%s asks %q %d questions", p.Title, p.Datasource.UID, len(p.Targets))
		}
		for _, q := range p.Targets {
			if !strings.Contains(q.Expr, `{job=~"$job",instance=~"$instance"`) {
				t.Errorf("%s: %s does not ask about the chosen servers", p.Title, q.Expr)
			}
		}
	}
	if len(ids) != len(b.Panels) {
		t.Errorf("%d panels have %d ids", len(b.Panels), len(ids))
	}
	const want = "sievekv [Filters Server Store Group] [datasource datasource query job query instance]"
	if got := fmt.Sprint(b.UID, " ", rows, " ", variables); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
