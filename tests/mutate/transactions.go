package main

// transactions are what transactions and writers rest on.
var transactions = []mutation{
	inWrites("a writer whose function panics keeps its locks", edit{"kv/writer.go",
		"			_ = w.refuse(nil)\n",
		"			_ = w\n"}),
	inWrites("a change of a transaction that panics stays", edit{"kv/nest.go",
		"	staged := false\n",
		"	staged := true\n"}),
	inWrites("a change of a transaction that panics keeps it taken", edit{"kv/transaction.go",
		"	tx.mu.Lock()\n	defer tx.mu.Unlock()\n	switch {",
		"	tx.mu.Lock()\n	switch {"}, edit{"kv/transaction.go",
		"	return tx.w.runNested(change)\n",
		"	err := tx.w.runNested(change)\n	tx.mu.Unlock()\n	return err\n"}),
	inWrites("a lookup in a transaction that panics keeps it taken", edit{"kv/transaction.go",
		"	defer tx.mu.Unlock()\n	if tx.ended != nil {\n		return tx.ended\n	}\n	if err := tx.db.settle(); err != nil {\n		return err\n	}\n	return look(Reader{db: tx.db, w: tx.w, view: tx.view, large: large})",
		"	if tx.ended != nil {\n		tx.mu.Unlock()\n		return tx.ended\n	}\n	if err := tx.db.settle(); err != nil {\n		tx.mu.Unlock()\n		return err\n	}\n	err := look(Reader{db: tx.db, w: tx.w, view: tx.view, large: large})\n	tx.mu.Unlock()\n	return err"}),

	inWrites("a panic of a type's Open ends a commit half-way", edit{"kv/object.go",
		"		if why := recover(); why != nil {\n			body,",
		"		if why := any(nil); why != nil {\n			body,"}),
	inWrites("a panic while a large string is counted leaves it pinned", edit{"kv/keyspace.go",
		"		if err = large(h.params); errors.Is(err, errNoValue) {",
		"		counted := false\n		defer func() {\n			if !counted {\n				closer = io.NopCloser(nil)\n			}\n		}()\n		err = large(h.params)\n		counted = true\n		if errors.Is(err, errNoValue) {"},
		edit{"kv/keyspace.go", "import (\n", "import (\n	\"io\"\n"}),
	inWrites("a panic in a scan leaves its iterator open", edit{"kv/scan.go",
		"	defer func() { // f may be somebody else's code, and panic\n		if cerr := it.Close();",
		"	defer func() {\n		if p := recover(); p != nil {\n			panic(p)\n		}\n		if cerr := it.Close();"}),
	inWrites("a panic in a check leaves its iterator open", edit{"kv/check.go",
		"	defer func() { // a type's verifier may panic in f\n		if cerr := it.Close();",
		"	defer func() {\n		if p := recover(); p != nil {\n			panic(p)\n		}\n		if cerr := it.Close();"}),
	inWrites("a panic of the clock leaves a view open", edit{"kv/view.go",
		"		if !timed { // the clock panicked\n			v.close()\n		}\n",
		"		_ = timed\n"}),
	inWrites("a logger's panic keeps a store from failing", edit{"kv/options.go",
		"	defer ignorePanic()\n	return h.Handler.Handle(ctx, r)",
		"	return h.Handler.Handle(ctx, r)"}),

	inTransactions("a transaction that is rolled back does not wait for the watermark", "^TestDurable_answers$", edit{"kv/transaction.go",
		"	return tx.db.Sync()\n",
		"	return nil\n"}),
	inTransactions("a commit that is too large does not wait for the watermark", "^TestDurable_answers$", edit{"kv/commit.go",
		"		return w.answer(err)",
		"		return err"}),
	inTransactions("a write that panics does not wait for the watermark", "^TestDurable_answers$", edit{"kv/writer.go",
		"			_ = w.refuse(nil)\n",
		"			w.release()\n"}),
	inTransactions("EXEC does not roll back before it answers", "^TestDurable_answers$|^TestMulti", edit{"txn/commands.go",
		"		if serr := tx.Rollback(); serr != nil {\n			list, err = nil, serr\n		}\n",
		"		go func() { _ = tx.Rollback() }()\n"}),
	{name: "an answer that is not known to be durable is given", edits: []edit{{"txn/txn.go",
		"		if serr := tx.Rollback(); serr != nil {\n			err = serr\n		}\n",
		"		_ = tx.Rollback()\n"}}, pkg: "./tests", tests: "^TestCrash_answerFails$"},
	{name: "an answer of EXEC that is not known to be durable is given", edits: []edit{{"txn/commands.go",
		"		if serr := tx.Rollback(); serr != nil {\n			list, err = nil, serr\n		}\n",
		"		_ = tx.Rollback()\n"}}, pkg: "./tests", tests: "^TestCrash_answerFails$"},
}

func inTransactions(name, tests string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./txn", tests: tests}
}

func inWrites(name string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./kv", tests: "^Test(Write|Transaction|Foreign)_"}
}
