package main

// modes are what keeps other users of the machine out.
var modes = []mutation{
	inModes("files are for whom the umask lets", edit{"kv/storage/private.go", "= 0o600", "= 0o666"}),
	inModes("directories are for whom the umask lets", edit{"kv/storage/private.go", "= 0o700", "= 0o777"}),
	inModes("the store makes its files as Pebble does", edit{"kv/storage/open.go",
		"	fsys := s.fileSystem()\n",
		"	fsys := s.opts.FS\n"}),
	inModes("the lock is for whom the umask lets", edit{"kv/storage/lock_unix.go", "os.O_CREATE, privateFile)", "os.O_CREATE, 0o666)"}),
	inModes("the socket is for whom the umask lets", edit{"cmd/kvshell/internal/serve/listen.go",
		"	defer system.SetUmask(system.SetUmask(0o777 &^ int(mode)))\n",
		"	_, _ = system.SetUmask, mode\n"}),
	inShell("a password that others can read is not warned about", "^TestServe_warnings$",
		edit{"cmd/kvshell/internal/serve/secrets.go", "mode.Perm()&0o066 != 0", "mode.Perm()&0o022 != 0"}),
	inShell("a password that others can change is not warned about", "^TestServe_warnings$",
		edit{"cmd/kvshell/internal/serve/secrets.go", "mode.Perm()&0o066 != 0", "mode.Perm()&0o044 != 0"}),
}

func inModes(name string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./cmd/kvshell", tests: "^TestServe_modes$"}
}
