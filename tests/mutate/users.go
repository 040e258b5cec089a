package main

func inACL(name, tests string, edits ...edit) mutation {
	return mutation{name: name, pkg: "./server/acl", tests: tests, edits: edits}
}

// users are what keeps users to what they may do.
var users = []mutation{
	inServer("no command is refused to a user", "^TestACL$", edit{"server/conn.go", "\tc.session.Permit = c.permit\n", ""}),
	inServer("the rules are not looked at when EXEC runs what is queued", "^TestACL_transaction$", edit{"module/session.go",
		"\tif s.Permit != nil {\n\t\tif r, refused := s.Permit(cmd, args); refused {\n\t\t\treturn r, Refused\n\t\t}\n\t}\n\tr := cmd.Handler(", "\tr := cmd.Handler("}),
	inServer("a command refused to a user does not end the transaction", "^TestACL_transaction$", edit{"module/session.go",
		"refused {\n\t\t\tif s.Refused != nil {\n\t\t\t\ts.Refused()\n\t\t\t}\n", "refused {\n"}),
	inServer("the end of a connection asks for permission to leave its transaction", "^TestACL_(connection|stranger)Ends$", edit{"server/conn.go",
		"\ttxn.Leave(c.session)\n", "\tc.session.Do(context.Background(), [][]byte{[]byte(\"UNWATCH\")})\n"}),
	inServer("RESET leaves the user", "^TestACL$", edit{"server/conn.go", "\tc.protocol = 2\n\tc.beDefault()\n", "\tc.protocol = 2\n"}),
	inServer("connections of users that were removed go on", "^TestACL$", edit{"server/acl.go", "\tc.killRemoved()\n\treturn reply.Int(n)\n", "\treturn reply.Int(n)\n"}),
	inServer("connections of users that a file does not have go on", "^TestACL_file$", edit{"server/acl.go", "\tc.killRemoved()\n\treturn reply.OK\n", "\treturn reply.OK\n"}),
	inServer("a default user that may do little is no stranger's", "^TestACL_default$", edit{"server/conn.go",
		"\tc.authenticated = c.user.NoPassword()\n", "\tc.authenticated = true\n"}),
	inServer("a wrong password is not kept for ACL LOG", "^TestACL$", edit{"server/client.go", "\t\tc.noteDenial(\"auth\", \"AUTH\", false, told)\n", ""}),
	inServer("the log of refusals has no bound", "^TestACLLog_bounds$", edit{"server/acl.go", "over := len(l.entries) - most; over > 0", "over := 0; over > 0"}),
	inServer("a crash takes an answered ACL SAVE back", "^TestACL_saveDurably$", edit{"server/acl.go", "\treturn syncDirectory(dir)\n", "\treturn nil\n"}),
	inServer("the ACL file takes the place of a symbolic link", "^TestACL_saveLink$", edit{"server/acl.go",
		"info.Mode()&os.ModeSymlink != 0 {", "info.Mode()&os.ModeSymlink < 0 {"}),
	inServer("an ACL file written earlier replaces one written later", "^TestACL_saveTogether$", edit{"server/acl.go",
		"\ts.savingACL.Lock() // an older version must not replace a newer one\n\tdefer s.savingACL.Unlock()\n", ""}),
	inACL("any password is right", "^TestLogin$", edit{"server/acl/user.go", "(r.nopass || same == 1)", "(r.nopass || same <= 1)"}),
	inACL("any user has the password", "^TestLogin$", edit{"server/acl/lists.go", "\tu := l.User(name)\n\tif u == nil {\n\t\tfresh", "\tu := l.Default()\n\tif u == nil {\n\t\tfresh"}),
	inACL("a user that is off logs in", "^TestLogin$", edit{"server/acl/user.go", "return r.on && (r.nopass", "return (r.nopass"}),
	inACL("the default user can be removed", "^TestLogin$", edit{"server/acl/lists.go", "if u == nil || name == DefaultUser {", "if u == nil {"}),
	inACL("a user that was removed does not know", "^TestLogin$", edit{"server/acl/lists.go",
		"\tdelete(l.users, name)\n\tu.removed.Store(true)\n\treturn true\n", "\tdelete(l.users, name)\n\treturn true\n"}),
	inACL("a forbidden subcommand leaves all allowed", "^TestCheck$", edit{"server/acl/selector.go", "\tdelete(s.allowed, cmd)\n\ts.allCommands = false\n", "\tdelete(s.allowed, cmd)\n"}),
	inACL("forbidding a command leaves its subcommands", "^TestCheck$|^TestSet$", edit{"server/acl/selector.go",
		"\t\tfor _, sub := range t.subcommands(cmd) {\n\t\t\ts.set(sub, allow)\n\t\t}\n\t\ts.note(", "\t\ts.note("}),
	inACL("forbidding a command leaves its first arguments", "^TestCheck$", edit{"server/acl/selector.go", "\tdelete(s.first, cmd)\n", ""}),
	inACL("a pattern for reading is good for writing", "^TestCheck$", edit{"server/acl/selector.go", "return p.does&what == what && ", "return p.does&what != 0 && "}),
	inACL("any selector's commands go with any selector's keys", "^TestCheck$", edit{"server/acl/user.go",
		"if !s.allows(cmd, args) || cmd", "if cmd"}),
	inACL("rules that are refused change the user", "^TestSet_refused$", edit{"server/acl/lists.go", "\tr = r.clone()\n", ""}),
	inACL("a space of another alphabet ends a name in a file", "^TestLoad_spaces$", edit{"server/acl/lists.go", "words := fields(", "words := strings.Fields("}),
	inACL("a space of another alphabet ends a pattern in a selector", "^TestLoad_spaces$", edit{"server/acl/user.go", "range fields(", "range strings.Fields("}),
	inACL("a file that is refused changes users", "^TestLoad$", edit{"server/acl/lists.go", "\tif err := errors.Join(errs...); err != nil {\n\t\treturn err\n\t}\n", ""}),
}
