package ownership_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"
)

// seed replays a run of the random tests: go test -run Stress -seed N.
var seed = flag.Uint64("seed", 0, "seed of the random tests; 0: a fresh one, printed on failure")

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	goleak.VerifyTestMain(m)
}
