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

	inServer("maxclients may be set above what there are descriptors for", "^TestRoom_", edit{"server/settings.go",
		"	maxClients.Fits = h.clientsFit\n",
		""}),
	inServer("any number of connections is being refused", "^TestRoom_", edit{"server/server.go",
		"			_ = nc.Close() // nothing was promised\n			s.idle.Done()\n",
		"			go s.turnAway(c, why)\n"}),
	inServer("connections for metrics have no bound", "^TestMetricsListener$",
		edit{"server/descriptors.go", "make(chan struct{}, s.room.metrics)", "make(chan struct{}, 1<<20)"}),
	inServer("a connection for metrics that is closed twice makes room for two", "^TestMetricsListener$",
		edit{"server/descriptors.go", "	c.once.Do(func() { <-c.places })\n", "	<-c.places\n"}),
	inShell("maxclients is not lowered to what the limit of open files leaves", "^TestServe_descriptors$",
		edit{"server/descriptors.go", "	case most < asked:\n", "	case most < 0:\n"}),
}

func inDescriptors(name string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./kv/freeze", tests: "^TestDescriptors_"}
}
