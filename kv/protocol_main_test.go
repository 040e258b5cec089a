package kv_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Every store a test opens it closes: no goroutine may be left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
