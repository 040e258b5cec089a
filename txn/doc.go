// Package txn has the commands of transactions: MULTI, EXEC, DISCARD, WATCH and UNWATCH. In Go, DB.Update and DB.View of package
// sievekv are transactions.
package txn
