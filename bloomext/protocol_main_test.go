package bloomext_test

import (
	"testing"

	"go.uber.org/goleak"

	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
)

// Every test closes the stores that it opens: no goroutine may be left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
