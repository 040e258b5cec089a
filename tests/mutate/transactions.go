package main

// transactions are what transactions and writers rest on.
var transactions = []mutation{
	inWrites("a writer whose function panics keeps its locks", edit{"kv/writer.go",
		"		if !returned { // change panicked, or ended its goroutine\n			w.release()\n		}\n",
		"		_ = returned\n"}),
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
}

func inWrites(name string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./kv", tests: "^Test(Write|Transaction)_"}
}
