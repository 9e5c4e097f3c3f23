package endtoend_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-go/tenure/integration/cluster"
)

// The late write, with real processes stopped by SIGSTOP at points drawn from a
// seed (DESIGN 8.2, 8.3, 8.5): the demo checks every expectation itself, against
// what its workers saw and a SERIAL read of the table, and its exit status says
// whether all held. Fenced, the late write is refused each time; unfenced, the
// damage shows each time.
func TestLateWrite(t *testing.T) {
	repeat := 6
	if full {
		repeat = 50
	}
	c := cluster.Cassandra{}.ForTest(t)
	demo := buildDemo(t)
	seed := time.Now().UnixNano()
	var both sync.WaitGroup
	for _, mode := range []string{"fenced", "unfenced"} {
		// Each has a keyspace of its own, so the two stories can be told at once.
		args := []string{"--cassandra", strings.Join(c.Addresses(), ","), "--repeat", fmt.Sprint(repeat),
			"--seed", fmt.Sprint(seed), "--keyspace", fmt.Sprintf("demo_%s_%d", mode, seed%1_000_000)}
		if mode == "unfenced" {
			args = append(args, "--unfenced")
		}
		both.Go(func() {
			start := time.Now()
			out, code := run(t, demo, args...)
			if code != 0 {
				t.Errorf("%s: exit status %d, seed %d\n%s", mode, code, seed, out)
			}
			figure(t, "%s: %d repetitions, exit status %d, %v, seed %d", mode, repeat, code, time.Since(start).Round(time.Second), seed)
		})
	}
	both.Wait()
	if left := processesOf(t, demo); len(left) > 0 {
		t.Errorf("the demo left processes behind: %v", left)
	}
}

// No worker outlives the demo, a stopped one neither, whatever ends it.
func TestDemoLeavesNothingBehind(t *testing.T) {
	c := cluster.Cassandra{}.ForTest(t)
	demo := buildDemo(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			cmd := exec.Command(demo, "--cassandra", strings.Join(c.Addresses(), ","), "--json",
				"--keyspace", fmt.Sprintf("demo_%d", time.Now().UnixNano()%1_000_000_000))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill() }()
			until(t, time.Minute, "a worker is frozen", func() bool {
				for _, pid := range processesOf(t, demo) {
					if stateOf(pid) == "T" {
						return true
					}
				}
				return false
			})
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			until(t, 10*time.Second, "no process of the demo is left", func() bool { return len(processesOf(t, demo)) == 0 })
		})
	}
}

// Without any server it tells the same story, and what it prints as JSON parses.
func TestDemoInMemory(t *testing.T) {
	demo := buildDemo(t)
	for _, args := range [][]string{{"--json"}, {"--json", "--unfenced"}} {
		out, code := run(t, demo, args...)
		if code != 0 {
			t.Errorf("%v: exit status %d\n%s", args, code, out)
		}
		for line := range strings.Lines(out) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%v: not JSON: %s", args, line)
			}
		}
	}
	if out, code := run(t, demo, "--ttl", "-1s", "--repeat", "0", "--nonsense"); code != 2 || !strings.Contains(out, "repeat") || !strings.Contains(out, "nonsense") {
		t.Errorf("bad usage: exit status %d, want 2 and all faults named:\n%s", code, out)
	}
}

var demoFolder string // removed by TestMain

var demoBinary = sync.OnceValues(func() (string, error) {
	var err error
	if demoFolder, err = os.MkdirTemp("", "tenure-demo-"); err != nil {
		return "", err
	}
	path := filepath.Join(demoFolder, "demo")
	cmd := exec.Command("go", "build", "-o", path, "github.com/tenure-go/tenure/cmd/demo")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the demo: %w\n%s", err, out)
	}
	return path, nil
})

func buildDemo(t *testing.T) string {
	t.Helper()
	path, err := demoBinary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func run(t *testing.T, path string, args ...string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// processesOf returns the pids that run the binary.
func processesOf(t *testing.T, path string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, l := range links {
		if target, err := os.Readlink(l); err == nil && target == path {
			pids = append(pids, strings.Split(l, "/")[2])
		}
	}
	return pids
}

// stateOf returns the letter that the kernel gives a process's state.
func stateOf(pid string) string {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return rest[:min(1, len(rest))]
}
