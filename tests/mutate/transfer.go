package main

// inTransfer are mutations of what copies keys between servers.
func inTransfer(name, tests string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./cmd/kvshell/internal/transfer", tests: tests}
}

// transfers are what pull, push and import-rdb rest on.
var transfers = []mutation{
	inTransfer("a filter that was loaded is not read back", "^TestCopy_damagedByTarget$", edit{"cmd/kvshell/internal/transfer/target.go",
		"		if !bytes.Equal(got.sum(), sent.sum()) {", "		if false {"}),
	inTransfer("a filter that changes while it is copied is taken", "^TestCopy_changing$", edit{"cmd/kvshell/internal/transfer/target.go",
		"		if changed {\n			continue", "		if changed && false {\n			continue"}),
	inTransfer("a filter that changes all the time is copied for ever", "^TestCopy_changing$", edit{"cmd/kvshell/internal/transfer/target.go",
		"const attempts = 3", "const attempts = 0"}),
	inTransfer("filters with equal headers are taken for equal", "^TestCopy_sameHeader$", edit{"cmd/kvshell/internal/transfer/target.go",
		"	return bytes.Equal(sums[0].sum(), sums[1].sum()), nil", "	return true, nil"}),
	inTransfer("a string that exists is replaced without a word", "^TestCopy_conflict$", edit{"cmd/kvshell/internal/transfer/target.go",
		"append(sets, append(words, []byte(\"NX\")))", "append(sets, words)"}),
	inTransfer("a filter that exists is replaced without a word", "^TestCopy_conflict$", edit{"cmd/kvshell/internal/transfer/target.go",
		"		if replace, err := r.conflict(i); !replace {\n			return err\n		}\n	}\n", "	}\n"}),
	inTransfer("a filter that was copied loses its time to live", "^TestCopy$", edit{"cmd/kvshell/internal/transfer/target.go",
		"		if err := r.expire(ctx, beside, life); err != nil {", "		if err := error(nil); err != nil {"}),
	inTransfer("the time to live of an equal value is not taken over", "^TestCopy_expiry$", edit{"cmd/kvshell/internal/transfer/target.go",
		"	return r.expire(ctx, r.target(i.key), life)\n", "	return nil\n"}),
	inTransfer("what an interrupted run left is in the way of the next", "^TestCopy_interrupted$", edit{"cmd/kvshell/internal/transfer/target.go",
		"		if _, err := do(ctx, r.to, command(\"DEL\", beside)); err != nil {\n			return err\n		}\n", ""}),
	inTransfer("filters are loaded under their own key", "^TestCopy_interrupted$", edit{"cmd/kvshell/internal/transfer/target.go",
		"	beside := append(bytes.Clone(key), Suffix...)\n	if err", "	beside := key\n	if err"}),
	inTransfer("a string that SET does not take ends the run", "^TestCopy_long$", edit{"cmd/kvshell/internal/transfer/target.go",
		"		case isTooLarge(err):", "		case false:"}),
	inTransfer("a string that SET does not take replaces none", "^TestCopy_long$", edit{"cmd/kvshell/internal/transfer/target.go",
		"words); isTooLarge(err) {", "words); false {"}),
	inTransfer("a long string takes the place of another without a word", "^TestCopy_long$", edit{"cmd/kvshell/internal/transfer/target.go",
		"	case string(got.Bytes()) != \"none\":\n		return r.existing(ctx, i)\n", ""}),
	inTransfer("a long string that lost a piece is taken", "^TestCopy_damagedLong$", edit{"cmd/kvshell/internal/transfer/target.go",
		"answer.Int() != int64(length) {", "false {"}),
	inTransfer("a long string comes behind what an interrupted run left", "^TestCopy_interrupted$", edit{"cmd/kvshell/internal/transfer/target.go",
		"	if _, err := do(ctx, r.to, command(\"DEL\", beside)); err != nil {\n		return err\n	}\n	length", "	length"}),
	inTransfer("a long string grows under its own key", "^TestCopy_interrupted$", edit{"cmd/kvshell/internal/transfer/target.go",
		"	beside := append(r.target(i.key), Suffix...)", "	beside := r.target(i.key)"}),
	inTransfer("a key that is too long ends the run", "^TestCopy_tooLong$", edit{"cmd/kvshell/internal/transfer/target.go",
		"	if isTooLarge(err) { // the key", "	if false { // the key"}),
	{name: "a copy that is refused promises to go on", pkg: "./cmd/kvshell", tests: "^TestPull$", edits: []edit{{"cmd/kvshell/pull.go",
		"		if code != exit.Refused {\n			err", "		{\n			err"}}},
	inTransfer("keys of an RDB file that have expired are copied", "^TestImport$", edit{"cmd/kvshell/internal/transfer/file.go",
		"	case !lives:", "	case false && !lives:"},
		edit{"cmd/kvshell/internal/transfer/target.go", "	return life, life >= time.Millisecond", "	return life, true"}),
	inTransfer("keys of other databases are copied", "^TestImport$", edit{"cmd/kvshell/internal/transfer/file.go",
		"	case key.Database != f.Database:", "	case false:"}),
	{name: "a damaged RDB file makes a store", pkg: "./cmd/kvshell", tests: "^TestImportRDB$", edits: []edit{{"cmd/kvshell/pull.go",
		"	if err := transfer.Check(ctx, in); err != nil {", "	if err := transfer.Check(ctx, in); false {"}}},
}
