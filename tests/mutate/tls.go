package main

// ports are mutations of what serve does with the files that it is given: see cmd/kvshell/tlsfiles.go and serve.go.
var ports = []mutation{
	inShell("a client needs no certificate", "^TestServe_clientCertificates$", edit{"cmd/kvshell/tlsfiles.go",
		"	return tls.RequireAndVerifyClientCert\n", "	return tls.VerifyClientCertIfGiven\n"}),
	inShell("any certificate that a client need not have is good", "^TestServe_clientCertificates$", edit{"cmd/kvshell/tlsfiles.go",
		"		return tls.VerifyClientCertIfGiven\n", "		return tls.RequestClientCert\n"}),
	inShell("TLS 1.1 is spoken", "^TestServe_clientCertificates$", edit{"cmd/kvshell/tlsfiles.go",
		"MinVersion: tls.VersionTLS12}", "MinVersion: tls.VersionTLS10}"}),
	inShell("SIGHUP ends the server", "^TestServe_hangup$", edit{"cmd/kvshell/serve.go",
		"	signal.Notify(hangups, syscall.SIGHUP)", "	_ = syscall.SIGHUP"}),
	inShell("SIGHUP ends a server that does not serve yet", "^TestServe_hangup$", edit{"cmd/kvshell/serve.go",
		"	signal.Notify(hangups, syscall.SIGHUP)", "	time.AfterFunc(time.Second, func() { signal.Notify(hangups, syscall.SIGHUP) })"}),
	inShell("SIGHUP ends a server that ends", "^TestServe_draining$", edit{"cmd/kvshell/serve.go",
		"	removeAddress(db.Dir())\n	draining,", "	signal.Stop(hangups)\n	removeAddress(db.Dir())\n	draining,"}),
	inShell("files that are read again are not used", "^TestServe_certificatesReload$", edit{"cmd/kvshell/tlsfiles.go",
		"	f.current.Store(config)\n", "	f.current.CompareAndSwap(nil, config)\n"}),
	inShell("a new certificate is used beside an old client CA", "^TestServe_certificatesReload$", edit{"cmd/kvshell/tlsfiles.go",
		"		authorities, err := certificates(text)\n		if err != nil {\n",
		"		authorities, err := certificates(text)\n		if err != nil {\n			if old := f.current.Load(); old != nil {\n" +
			"				config.ClientCAs, config.ClientAuth = old.ClientCAs, old.ClientAuth\n				f.current.Store(config)\n			}\n"}),
	inShell("a client CA that was cut short is used", "^TestServe_certificatesReload$", edit{"cmd/kvshell/tlsfiles.go",
		"	case len(list) != begun:\n", "	case false:\n"}),
	inShell("what clients of the metrics do wrong fills the log", "^TestServe_metricsClientCertificates$", edit{"cmd/kvshell/serve.go",
		"ErrorLog: s.ErrorLog(), ", ""}),
	inShell("who finds a store in use is not told to show a certificate", "^TestServe_clientCertificates$", edit{"cmd/kvshell/serve.go",
		"		case f.tls.requires():\n", "		case false:\n"}),
	inShell("the log has no logins", "^TestServe_audit$", edit{"cmd/kvshell/store.go",
		"		level = slog.LevelInfo", "		level = slog.LevelWarn"}),
	inShell("a store is made before the files for it are read", "^TestServe_usage$", edit{"cmd/kvshell/serve.go",
		"	if err := f.tryOut(sh.table(), opts.ACL); err != nil {\n		return err\n	}\n", ""}),
	inShell("a pipe with users is read a second time, and empty then", "^TestServe_aclPipe$", edit{"server/acl.go",
		"s.opts.ACLFile != \"\" && s.opts.ACL != nil:", "false:"}),
	inShell("users that others can read are not warned about", "^TestServe_warnings$", edit{"cmd/kvshell/serve.go",
		"	if othersMay(mode) {\n", "	if othersMay(mode) && flag != \"--acl-file\" {\n"}),
	inShell("a port within HOST is looked up", "^TestScript$/^server$", edit{"cmd/kvshell/internal/client/address.go",
		"err == nil && p != \"\" {", "false && err == nil && p != \"\" {"}),
}

func init() { mutations = append(mutations, ports...) }
