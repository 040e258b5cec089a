package server_test

import "testing"

// The line of the only database is what dashboards parse.
func TestInfo_keyspace(t *testing.T) {
	w := serve(t, nil)
	w.client().answers(`
INFO keyspace => ""
SET a 1 => +OK
SET b 1 PX 1000000 => +OK
BF.RESERVE f 0.01 100 => +OK
EXPIRE f 1000 => :1
INFO keyspace => "# Keyspace\r\ndb0:keys=3,expires=2,avg_ttl=0\r\n"
PERSIST f => :1
INFO keyspace => "# Keyspace\r\ndb0:keys=3,expires=1,avg_ttl=0\r\n"
FLUSHALL => +OK
INFO keyspace => ""
`)
}
