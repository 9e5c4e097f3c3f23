package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// This test binary plays all parts: beside the test itself the worker that a
// nursery starts, and a parent that a test kills.
func init() {
	switch {
	case len(os.Args) == 3 && os.Args[1] == workerFlag:
		os.Exit(childMain(os.Args[2], standIn, os.Stdin, os.Stdout, os.Stderr))
	case os.Getenv("DEMO_TEST_PARENT") != "":
		beParent(os.Getenv("DEMO_TEST_PARENT"))
	}
}

// standIn answers every command with its own process id, until quit.
func standIn(_ context.Context, cfg childConfig, commands <-chan command, send func(event)) error {
	if cfg.Name == "mortal" { // one that its parent's death does not reach
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0)
	}
	for c := range commands {
		switch {
		case c.Do == doQuit:
			send(event{What: evBye})
			return nil
		case c.Do == doGo:
			return errors.New("told to fail")
		}
		send(event{What: evLooked, Value: strconv.Itoa(os.Getpid())})
	}
	return nil
}

// beParent starts one worker, brings it into a state, tells its process id and
// waits for its own end.
func beParent(state string) {
	name := "A"
	if state == "orphaned" {
		name = "mortal"
	}
	c, err := newChild(newNursery(), childConfig{Name: name})
	if err != nil {
		panic(err)
	}
	c.send(command{Do: doLook})
	<-c.events()
	if state == "frozen" {
		if err := c.freeze(context.Background()); err != nil {
			panic(err)
		}
	}
	fmt.Println(c.cmd.Process.Pid)
	if state == "panicking" {
		bufio.NewReader(os.Stdin).ReadString('\n')
		go panic("as a bug would")
	}
	select {}
}

// alive reports whether a process is there and no zombie.
func alive(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && !strings.Contains(string(status), "State:\tZ") && !strings.Contains(string(status), "State:\tX")
}

func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); alive(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("worker %d has outlived its parent", pid)
		}
	}
}

// However the parent ends, its worker ends too: running, frozen, and one that
// the parent-death signal misses.
func TestNoWorkerOutlivesItsParent(t *testing.T) {
	for _, state := range []string{"running", "frozen", "orphaned", "panicking"} {
		t.Run(state, func(t *testing.T) {
			parent := exec.Command("/proc/self/exe")
			parent.Env = append(os.Environ(), "DEMO_TEST_PARENT="+state)
			stdin, err := parent.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(stdout).ReadString('\n')
			pid, _ := strconv.Atoi(strings.TrimSpace(line))
			if err != nil || pid == 0 || !alive(pid) {
				t.Fatalf("the parent said %q: %v", line, err)
			}
			if state == "panicking" {
				fmt.Fprintln(stdin)
			} else if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait()
			awaitEnd(t, pid)
		})
	}
}

func newTestChild(t *testing.T, n *nursery) (c *child, pid int) {
	t.Helper()
	c, err := newChild(n, childConfig{Name: "A"})
	if err != nil {
		t.Fatal(err)
	}
	c.send(command{Do: doLook})
	e := <-c.events()
	pid, err = strconv.Atoi(e.Value)
	if err != nil || pid != c.cmd.Process.Pid || pid == os.Getpid() {
		t.Fatalf("the worker says it is process %q", e.Value)
	}
	return c, pid
}

func TestFrozenWorkerDoesNothing(t *testing.T) {
	n := newNursery()
	defer n.close()
	c, pid := newTestChild(t, n)
	defer c.kill()
	if err := c.freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if !strings.Contains(string(status), "State:\tT") {
		t.Fatalf("it is not stopped:\n%s", status)
	}
	c.send(command{Do: doLook}) // lies in its pipe
	select {
	case e := <-c.events():
		t.Fatalf("a frozen worker reports %+v", e)
	default:
	}
	if err := c.thaw(); err != nil {
		t.Fatal(err)
	}
	if e := <-c.events(); e.What != evLooked {
		t.Fatalf("after the thaw: %+v", e)
	}
	c.send(command{Do: doQuit})
	if e := <-c.events(); e.What != evBye {
		t.Fatalf("told to quit: %+v", e)
	}
	if err := c.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.freeze(t.Context()); err == nil {
		t.Fatal("a worker that has ended can be frozen")
	}
}

func TestFrozenWorkerIsKilled(t *testing.T) {
	n := newNursery()
	defer n.close()
	c, pid := newTestChild(t, n)
	if err := c.freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.kill()
	c.kill() // again: nothing
	if alive(pid) {
		t.Fatal("it lives")
	}
}

func TestWorkerThatFailsIsHeard(t *testing.T) {
	n := newNursery()
	defer n.close()
	c, _ := newTestChild(t, n)
	defer c.kill()
	c.send(command{Do: doGo})
	if e := <-c.events(); e.What != evFailed || e.Error != "told to fail" {
		t.Fatalf("%+v", e)
	}
	if err := c.wait(t.Context()); err == nil {
		t.Fatal("it ended in good order")
	}
	d, pid := newTestChild(t, n)
	defer d.kill()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := <-d.events(); e.What != evFailed || !strings.Contains(e.Error, "killed") {
		t.Fatalf("%+v", e)
	}
}
