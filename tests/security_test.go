package tests_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// securityTests has the beginning of each sentence of docs/SECURITY.md, and the tests that hold what it promises, as
// DIRECTORY/TEST. A sentence that promises nothing has in place of them what it is:
//
//	weakness   what an attacker can do, or what does not protect
//	advice     what an operator or a reporter should do
//	term       what the document is about, or calls something
var securityTests = []struct{ sentence, tests string }{
	{"What sievekv trusts, what attackers", "term"},
	{"**The program that embeds the store**", "weakness"},
	{"**The user of the process and root.** Only that user", "cmd/kvshell/TestServe_modes"},
	{"Nothing in it is encrypted", "weakness"},
	{"**The file system and the disk**", "tests/TestFault_flippedTables tests/TestDamage"},
	{"Checksums protect from accidents", "tests/TestFault_flippedTables"},
	{"An attacker who can write the files", "weakness"},
	{"**The network** only with TLS", "cmd/kvshell/TestServe_tls"},
	{"Without TLS, passwords and data", "weakness"},
	{"**The CA** of `--tls-client-ca`", "cmd/kvshell/TestServe_clientCertificates"},
	{"A certificate does not replace a login", "cmd/kvshell/TestServe_clientCertificates"},
	{"**The clock**", "weakness"},
	{"Items, keys, values and commands are not trusted", "tests/hostile/TestAttack tests/hostile/TestMalformed server/TestProtocolErrors"},
	{"The hash of a filter is keyed with a secret", "internal/hash/TestKeyed_Sum_chosen tests/TestSecret_dump"},
	{"`HASH xxh64`, old filters", "weakness"},
	{"An export or a dump of a filter carries its secret", "weakness"},
	{"So whoever may read a key can learn", "weakness"},
	{"Nothing follows from it about other filters", "tests/TestSecret_dump"},
	{"Filters of one `GROUP`", "tests/TestSecret_groupSetting tests/TestSecret_dump"},
	{"Whoever may make a filter and knows the group's name", "weakness"},
	{"`COPY`, `BF.LOADCHUNK`", "weakness"},
	{"Filters that were made by versions before groups", "weakness"},
	{"With `--seed` all filters", "weakness"},
	{"A copy of a store's directory", "weakness"},

	{"With a password or an ACL file, a client", "term"},
	{"connect, up to a tenth of `maxclients`", "server/TestStrangers_number server/TestStrangers_maxClients server/TestStrangers_addresses"},
	{"keep users of other addresses out, or take memory", "server/TestStrangers_memory server/TestStrangers_number server/TestStrangers_addresses"},
	{"send `AUTH`, `HELLO`, `QUIT` and `RESET` of 10 words", "server/TestLimits_login"},
	{"run another command, or learn the names", "server/TestStrangers_names server/TestAuth"},
	{"stay 10 seconds without a command", "server/TestStrangers_firstCommand server/TestLogin"},
	{"stay longer, whatever it sends", "server/TestLogin"},
	{"try passwords: after five wrong ones", "server/TestGuesses server/TestGuesses_delays"},
	{"try faster on one connection", "server/TestGuesses_delayed"},
	{"Many connections can try side by side", "weakness"},
	{"begin a TLS handshake, for 10 seconds", "server/TestTLS_slowHandshakes"},
	{"make more than half of the processors do handshakes", "server/TestTLS_slowHandshakes server/TestHandshakes_turns"},
	{"use up the descriptors meant for clients", "weakness"},
	{"make the store fail: it has a share", "server/TestRoom cmd/kvshell/TestServe_descriptors cmd/kvshell/TestServe_noDescriptors"},
	{"What is left to it", "term"},
	{"It can keep out clients that share its address", "weakness"},
	{"Only a client that waits for a delayed answer", "server/TestStrangers_waitForAnswer"},
	{"With many addresses it gets as many turns", "weakness"},
	{"If it connects faster than strangers may be replaced", "weakness"},
	{"Without a password only clients on the same machine", "server/TestProtectedMode"},
	{"If a page in a browser sends HTTP", "server/TestWarnings"},

	{"A user may do what its rules say", "server/TestACL internal/acl/TestCheck internal/acl/TestSave_identity"},
	{"Give each program a user of its own", "advice"},
	{"The table below holds for every user", "term"},
	{"use the processor: busy connections wait for turns", "server/TestAdmission server/TestAdmission_longCommand server/TestUse"},
	{"keep others from their turns", "server/TestAdmission_passedOn server/TestAdmission_waits tests/hostile/TestScenes"},
	{"They may have to wait: with a thousand connections", "weakness"},
	{"fill `maxmemory-clients` with what it sends", "server/TestMemory_together server/TestMemory_command"},
	{"take the process above its memory", "server/TestMemory_replies server/TestReplies_refused tests/hostile/TestAttack"},
	{"send patterns of up to 4 KiB", "internal/glob/TestNewPattern_tooLong coreext/TestPattern_charged"},
	{"keep a command, or what the command holds", "server/TestSlow_clientGone server/TestSlow_killed server/TestHuge_waiterGone"},
	{"fill the disk: then only deletions work", "kv/TestSpace_full"},
	{"lose what was acknowledged to others", "tests/TestFault_diskFills tests/TestCrash_answers"},
	{"watch, queue and pipeline as much", "server/TestMemory_transactions server/TestMemory_watch"},
	{"hold the lock of a transaction open", "server/TestTransaction_noneWaits txn/TestBudget"},
	{"choose any bytes for keys", "weakness"},
	{"make them act on a terminal", "cmd/kvshell/TestTerminal_evilServer cmd/kvshell/TestTerminal_source"},
	{"`BITOP`, `COPY` and the commands that merge hold up", "weakness"},
	{"Whoever may read a key can do that to its writers", "weakness"},
	{"A command that panics ends the process", "server/TestPanic_endsProcess"},
	{"Everything acknowledged is there", "tests/TestCrash_answers"},

	{"The port of `--metrics-addr` shows statistics", "server/TestMetrics_access"},
	{"The port of `--ui-addr` needs a user", "server/TestPages_login"},
	{"An address that other machines reach is refused", "cmd/kvshell/internal/serve/TestFlags_ui"},
	{"A user sees the filters that", "server/TestPages_rules dashboard/TestAccess_keys"},
	{"All pages are only read", "dashboard/TestAccess_refused dashboard/TestAccess_headers"},
	{"The pages answer requests for an IP address", "dashboard/TestAccess_refused"},
	{"What clients have chosen, such as keys", "dashboard/TestKeys_hostile dashboard/TestAccess_headers"},
	{"Passwords are delayed as for the metrics", "server/TestPages_guesses server/TestMetricsListener"},
	{"A user who may see a filter can ask it", "weakness"},
	{"You can require a password, TLS and client certificates", "cmd/kvshell/TestServe_metrics cmd/kvshell/TestServe_metricsClientCertificates"},
	{"The port answers requests for an IP address", "server/TestMetrics_access"},
	{"After five wrong passwords, an address", "server/TestMetrics_guesses"},
	{"Handshakes there take turns with clients' handshakes", "server/TestMetricsTLS server/TestHandshakes_turns"},
	{"The port answers at most 50 requests a second", "server/TestMetrics_pace server/TestMetricsListener cmd/kvshell/TestServe_metricsIdle"},

	{"Logins, refused logins, commands of administrators", "server/TestACL server/TestAudit_counted server/TestWarnings"},
	{"What one user does hides nothing", "server/TestAudit_counted"},
	{"`ACL LOG` keeps the last refusals", "server/TestACLLog_bounds"},
	{"Passwords, arguments of commands and names that no user has", "server/TestSecrets_untold"},
	{"`SLOWLOG` keeps arguments in memory", "server/TestSlowlog server/TestSecrets_untold"},

	{"The server does not know revoked certificates", "weakness"},
	{"A certificate does not say which user", "weakness"},
	{"A user's share of memory", "weakness"},
	{"Nothing is encrypted at rest", "weakness"},
	{"`go.sum` fixes the modules", "term"},
	{"This command lists known faults", "advice"},
	{"It needs its database", "advice"},
	{"CI reaches only the host of the modules", "advice"},
	{"Write to the maintainers in private", "advice"},
	{"Give the version", "advice"},
	{"These are faults", "term"},
}

// Every sentence of docs/SECURITY.md has a line in securityTests, and every line a sentence and tests that exist.
func TestSecurity_sentences(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[string]bool)
	for _, sentence := range sentencesOf(string(text)) {
		known := 0
		for _, line := range securityTests {
			if strings.HasPrefix(sentence, line.sentence) {
				known++
				used[line.sentence] = true
			}
		}
		if known != 1 {
			t.Errorf("%d lines of securityTests are about this sentence of docs/SECURITY.md, want 1, with the test that holds it: %s", known, sentence)
		}
	}
	for _, line := range securityTests {
		if !used[line.sentence] {
			t.Errorf("docs/SECURITY.md has no sentence that begins with %q", line.sentence)
		}
		switch line.tests {
		case "weakness", "advice", "term":
			continue
		case "":
			t.Errorf("no test holds %q", line.sentence)
		}
		for _, test := range strings.Fields(line.tests) {
			dir, name := filepath.Split(test)
			if !testsIn(t, dir)[name] {
				t.Errorf("%q is held by %s, which does not exist", line.sentence, test)
			}
		}
	}
}

var (
	sentenceEnd = regexp.MustCompile("[.?!] +[A-Z`*]")
	newItem     = regexp.MustCompile(`^(- |\||#|    )`)
)

// sentencesOf returns the sentences of a document in Markdown: in paragraphs, items of lists and cells of tables.
func sentencesOf(text string) (sentences []string) {
	var passage []string
	end := func() {
		rest := strings.Join(passage, " ")
		passage = nil
		for at := sentenceEnd.FindStringIndex(rest); at != nil; at = sentenceEnd.FindStringIndex(rest) {
			sentences, rest = append(sentences, rest[:at[0]+1]), rest[at[1]-1:]
		}
		if rest != "" {
			sentences = append(sentences, rest)
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" || newItem.MatchString(line) {
			end()
		}
		switch {
		case strings.HasPrefix(line, "#"), strings.HasPrefix(line, "    "), strings.HasPrefix(line, "|---"), line == "| it can | it cannot |":
		case strings.HasPrefix(line, "|"):
			for _, cell := range strings.Split(strings.Trim(line, "| "), " | ") {
				passage = []string{cell}
				end()
			}
		case line != "":
			passage = append(passage, strings.TrimSpace(strings.TrimPrefix(line, "- ")))
		}
	}
	end()
	return sentences
}

// testsIn returns the names of the tests in a directory, given from the top of the module.
func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}
