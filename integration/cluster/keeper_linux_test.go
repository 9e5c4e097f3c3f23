package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nothingLeft checks that of a closed cluster no process and no file is left.
func nothingLeft(t *testing.T, c *Cluster) {
	t.Helper()
	for _, n := range c.nodes {
		s, ours := n.server.(*jvm)
		if !ours {
			continue
		}
		if err := syscall.Kill(s.pid(), 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d of %s is still there (%v)", s.pid(), n.name, err)
		}
		if _, err := os.Stat(filepath.Dir(s.folder)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there (%v)", filepath.Dir(s.folder), err)
		}
	}
}

// jobVariable makes this test binary do a job instead of the tests: to be killed, as a test process may be.
const jobVariable = "TENURE_CLUSTER_TEST_JOB"

// child takes a network, starts a server that does nothing, tells both and waits to be killed.
func child(root string) int {
	n, err := takeNetwork(root, 240, 240, 1, nil)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	keep.hold(n.folder)
	p, err := keep.start(exec.Command("sleep", "1000"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if err := p.freeze(); err != nil { // the harder case
		fmt.Println(err)
		return 1
	}
	fmt.Println(p.pid(), n.folder)
	select {}
}

func TestNothingOutlivesAProcess(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGQUIT, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(s) { // under nohup, or as a background job of a shell, the child ignores it too
			continue
		}
		t.Run(s.String(), func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "networks")
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), jobVariable+"="+root)
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(line, err)
			}
			text, folder, _ := strings.Cut(strings.TrimSpace(line), " ")
			pid, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(line, err)
			}
			if _, err := os.Stat(folder); err != nil {
				t.Error(err)
			}
			must(t, cmd.Process.Signal(s))
			_, _ = io.Copy(io.Discard, out)
			_ = cmd.Wait()
			if s != syscall.SIGQUIT && cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != s {
				t.Errorf("ended with %v, not by the signal", cmd.ProcessState)
			}
			eventually(t, "the server is dead", func() bool { return stateOf(fmt.Sprintf("/proc/%d/stat", pid)) == Dead })
			if s == syscall.SIGKILL || s == syscall.SIGQUIT {
				must(t, sweep(root)) // nobody could remove it at once
			}
			if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is still there (%v)", folder, err)
			}
		})
	}
}

// The parent-death signal comes when the thread that forked ends, so a child must not depend on the caller's thread.
func TestChildrenOutliveTheirCallersThread(t *testing.T) {
	keep.hold("")
	defer keep.drop("")
	const callers = 20
	started, threads := make(chan *process, callers), make(chan int, callers)
	for range callers {
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			p, err := keep.start(exec.Command("sleep", "1000"))
			if err != nil {
				t.Error(err)
			}
			started <- p
			threads <- syscall.Gettid()
		}()
	}
	var all []*process
	for range callers {
		all = append(all, <-started)
		thread := fmt.Sprintf("/proc/self/task/%d", <-threads)
		eventually(t, "the caller's thread ended", func() bool {
			_, err := os.Stat(thread)
			return errors.Is(err, os.ErrNotExist)
		})
	}
	for _, p := range all {
		if s := p.state(); s != Running {
			t.Errorf("process %d is %s", p.pid(), s)
		}
		p.kill()
		keep.forget(p)
	}
}

func TestProcess(t *testing.T) {
	keep.hold("")
	defer keep.drop("")
	p, err := keep.start(exec.Command("sleep", "1000"))
	must(t, err)
	defer keep.forget(p)
	defer p.kill()
	for _, step := range []struct {
		do   func() error
		want State
	}{{p.freeze, Frozen}, {p.freeze, Frozen}, {p.thaw, Running}, {p.thaw, Running}, {p.freeze, Frozen}} {
		must(t, step.do())
		if s := p.state(); s != step.want {
			t.Errorf("the process is %s, want %s", s, step.want)
		}
	}
	p.kill() // frozen
	p.kill()
	if s := p.state(); s != Dead {
		t.Errorf("killed, the process is %s", s)
	}
	if p.freeze() == nil || p.thaw() == nil {
		t.Error("a dead process was frozen or thawed")
	}

	ended, err := keep.start(exec.Command("true"))
	must(t, err)
	defer keep.forget(ended)
	eventually(t, "a process that ended by itself is dead", func() bool { return ended.state() == Dead })
	if ended.freeze() == nil { // a zombie takes signals
		t.Error("a zombie was frozen")
	}
	must(t, ended.wait(t.Context()))
}

func TestStraysOfAnEarlierRunAreKilled(t *testing.T) {
	root := filepath.Join(t.TempDir(), "networks")
	folder := filepath.Join(root, "127.0.240")
	must(t, os.MkdirAll(folder, 0o755))
	other := filepath.Join(root, "127.0.24") // a prefix of the first, and another's
	keep.hold("")
	defer keep.drop("")
	var processes []*process
	for _, f := range []string{folder, other} {
		p, err := keep.start(exec.Command("sh", "-c", "sleep 1000; true", "sh", ownerMark+f+"/node-0"))
		must(t, err)
		defer keep.forget(p)
		defer p.kill()
		processes = append(processes, p)
	}
	eventually(t, "both run sh", func() bool {
		for _, p := range processes {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid()))
			if !strings.Contains(string(line), ownerMark) {
				return false
			}
		}
		return true
	})
	must(t, sweep(root))
	if s := processes[0].state(); s != Dead {
		t.Errorf("the stray server is %s", s)
	}
	if s := processes[1].state(); s != Running {
		t.Errorf("the other server is %s", s)
	}
	if _, err := os.Stat(root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there (%v)", root, err)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); !holds(); runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}
