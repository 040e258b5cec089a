package main

// descriptors are what keeps a store alive when there are no descriptors.
var descriptors = []mutation{
	inDescriptors("an open that lacks a descriptor is not repeated", edit{"kv/freeze/descriptors.go",
		"	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {",
		"	if false && errors.Is(err, syscall.EMFILE) {"}),
	inDescriptors("an open that lacks a descriptor of the system is not repeated", edit{"kv/freeze/descriptors.go",
		" || errors.Is(err, syscall.ENFILE)",
		""}),
	inDescriptors("a vital file is waited for as long as others", edit{"kv/freeze/descriptors.go",
		" && !(vital && fs.open.Load() && !fs.closing())",
		""}),
	inDescriptors("the wait for a descriptor does not end with the store", edit{"kv/freeze/descriptors.go",
		" && !fs.closing()",
		""}),
	inDescriptors("the opening of a store waits for descriptors without end", edit{"kv/freeze/descriptors.go",
		"vital && fs.open.Load() && ",
		"vital && "}),
	inDescriptors("tables that lack descriptors freeze the directory", edit{"kv/freeze/fs.go",
		"vfs.IsNoSpaceError(err) || lacksDescriptor(err)",
		"vfs.IsNoSpaceError(err)"}),
	inDescriptors("a log that was renamed and not opened is renamed again", edit{"kv/freeze/fs.go",
		"			renamed = isNotExist(statErr)\n",
		"			_ = statErr\n"}),
	inDescriptors("a sync is repeated that fails with the errno of opens", edit{"kv/freeze/descriptors.go",
		"	mark := errDescriptor{}\n	return errors.As(err, &mark)\n",
		"	return errors.Is(err, syscall.EMFILE)\n"}),
	inDescriptors("the reserve is not given up", edit{"kv/freeze/descriptors.go",
		"		if !fs.reserve.give() {",
		"		if fs.reserve.want >= 0 {"}),
	inDescriptors("the reserve is spent on reading ahead", edit{"kv/freeze/fs.go",
		"	if isHint(opts) {",
		"	if isHint(nil) {"}),
}

func inDescriptors(name string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./kv/freeze", tests: "^TestDescriptors_"}
}
