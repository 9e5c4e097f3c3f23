package cqlfake

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// No goroutine is left. Those of gocql are given time: it sleeps between tries to
// connect, and ten seconds before it turns to a node that is up again, and closing
// the session does not wake it.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		deadline := time.Now().Add(30 * time.Second)
		err := goleak.Find()
		for err != nil && time.Now().Before(deadline) {
			err = goleak.Find()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
