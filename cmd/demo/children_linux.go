package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// nursery starts child processes and sees to it that none outlives this one:
//
//   - Whatever ends this process, SIGKILL included, ends them: each has SIGKILL
//     as its parent-death signal, which reaches a stopped process too. Linux ties
//     it to the thread that forked, so one goroutine, locked to its thread, forks
//     them all and stays until the last has been reaped.
//   - A child that lost that race ends when its stdin does.
//   - Children have process groups of their own, so that a Ctrl-C reaches the
//     parent alone, which then ends them in good order.
type nursery struct {
	work chan func()
	done chan struct{}
}

func newNursery() *nursery {
	n := &nursery{work: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(n.done)
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		for f := range n.work {
			f()
		}
	}()
	return n
}

// close is for when every child has been reaped.
func (n *nursery) close() {
	close(n.work)
	<-n.done
}

func (n *nursery) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	n.work <- func() { started <- cmd.Start() }
	return <-started
}

// child is an actor in a process of its own.
type child struct {
	*relay
	cmd   *exec.Cmd
	stdin *json.Encoder
	out   chan event
	done  chan struct{} // it has been reaped; err is set
	err   error
	dying chan struct{} // closed by kill
	kills sync.Once
}

// workerFlag makes this program a worker. It is not for users.
const workerFlag = "--worker"

// newChild starts a worker. It ends when it is killed or has quit; see kill.
func newChild(n *nursery, cfg childConfig) (*child, error) {
	r, err := newRelay()
	if err != nil {
		return nil, err
	}
	cfg.Relay, cfg.Secret = r.listener.Addr().String(), r.secret
	c := &child{relay: r, out: make(chan event), done: make(chan struct{}), dying: make(chan struct{})}
	c.cmd = exec.Command("/proc/self/exe", workerFlag, cfg.Name) // under its own name even if "go run" has removed it
	c.cmd.Args[0] = os.Args[0]
	var complaints tail
	c.cmd.Stderr = &complaints
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		r.close()
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		r.close()
		return nil, err
	}
	if err := n.start(c.cmd); err != nil {
		r.close()
		return nil, fmt.Errorf("starting a process: %w", err)
	}
	c.stdin = json.NewEncoder(stdin)
	go c.listen(stdout, &complaints)
	if err := c.stdin.Encode(cfg); err != nil { // by stdin: a command line would show the password
		c.kill()
		return nil, err
	}
	return c, nil
}

// listen passes on what the child reports, and reaps it in the end.
func (c *child) listen(stdout io.Reader, complaints *tail) {
	defer close(c.done)
	defer close(c.out)
	var err error
	said := false // why it fails
	for in := json.NewDecoder(stdout); err == nil; {
		var e event
		if err = in.Decode(&e); err == nil {
			said = e.What == evFailed
			c.tell(e)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if c.err = errors.Join(c.cmd.Wait(), err); c.err == nil {
		return
	}
	if text := complaints.String(); text != "" {
		c.err = fmt.Errorf("%w: %s", c.err, text)
	}
	if !said {
		c.tell(event{What: evFailed, Error: c.err.Error()})
	}
}

func (c *child) tell(e event) {
	select {
	case <-c.dying: // nobody cares any more
		return
	default:
	}
	select {
	case <-c.dying:
	case c.out <- e:
	}
}

func (c *child) describe() string     { return fmt.Sprintf("is process %d", c.cmd.Process.Pid) }
func (c *child) events() <-chan event { return c.out }
func (c *child) wire() *wire          { return &c.relay.wire }

// send writes to the pipe, which has room for all commands of a story. An error
// means that the child is gone, which events tell.
func (c *child) send(cmd command) { _ = c.stdin.Encode(cmd) }

// freeze stops the process and waits until it has stopped, all its threads.
func (c *child) freeze(context.Context) error {
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("SIGSTOP: %w", err)
	}
	for {
		var info unix.Siginfo
		// WNOWAIT: an end is for Wait to reap. SIGSTOP cannot be held back, so
		// this does not take long.
		err := unix.Waitid(unix.P_PID, c.cmd.Process.Pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("waiting for process %d to stop: %w", c.cmd.Process.Pid, err)
		}
		return nil
	}
}

func (c *child) thaw() error {
	if err := c.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("SIGCONT: %w", err)
	}
	return nil
}

func (c *child) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// kill ends the child, stopped or not, and all that belongs to it.
func (c *child) kill() {
	c.kills.Do(func() { close(c.dying) })
	_ = c.cmd.Process.Kill() // an error says that it has been reaped
	<-c.done
	c.relay.close()
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const limit = 2000
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - limit; over > 0 {
		t.text = bytes.Clone(t.text[over:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}

// beChild does not return in a process that was started as a worker.
func beChild() {
	if len(os.Args) == 3 && os.Args[1] == workerFlag {
		os.Exit(childMain(os.Args[2], work, os.Stdin, os.Stdout, os.Stderr))
	}
}
