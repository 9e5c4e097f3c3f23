package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A process is one child of the keeper. Its methods may be called concurrently.
type process struct {
	cmd *exec.Cmd

	mu     sync.Mutex // guards reaped; while it is held and reaped is false the pid is ours
	reaped bool
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// state is Dead also for a zombie.
func (p *process) state() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return Dead
	}
	return stateOf(fmt.Sprintf("/proc/%d/stat", p.pid()))
}

// stateOf reads the stat file of a process or of one thread.
func stateOf(stat string) State {
	text, err := os.ReadFile(stat)
	// The state follows the command in parentheses, which may itself hold parentheses.
	i := bytes.LastIndexByte(text, ')')
	if err != nil || i < 0 || i+2 >= len(text) {
		return Dead
	}
	switch text[i+2] {
	case 'Z', 'X':
		return Dead
	case 'T', 't':
		return Frozen
	}
	return Running
}

// freeze returns when no thread of the process runs any more.
func (p *process) freeze() error {
	return p.signalUntil(syscall.SIGSTOP, func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.pid()))
		for _, t := range threads {
			if stateOf(t) == Running {
				return false
			}
		}
		return true
	})
}

func (p *process) thaw() error {
	return p.signalUntil(syscall.SIGCONT, func() bool { return p.state() != Frozen })
}

// signalUntil sends s and returns when reached holds. The kernel stops and continues threads within microseconds, so the
// limit is never met but by a process stuck in the kernel.
func (p *process) signalUntil(s syscall.Signal, reached func() bool) error {
	p.mu.Lock()
	err := error(syscall.ESRCH)
	if !p.reaped {
		err = syscall.Kill(p.pid(), s)
	}
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("send %v to process %d: %w", s, p.pid(), err)
	}
	for limit := time.Now().Add(10 * time.Second); !reached(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			return fmt.Errorf("process %d did not obey %v within 10 s", p.pid(), s)
		}
	}
	if p.state() == Dead {
		return fmt.Errorf("process %d ended", p.pid())
	}
	return nil
}

// kill ends the process and its group with SIGKILL, which acts on a stopped process too, and returns when it is reaped.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	_ = syscall.Kill(-p.pid(), syscall.SIGKILL) // fails only for a group of zombies
	_ = p.cmd.Wait()                            // the status of a killed process says nothing
	p.reaped = true
}

// wait returns how the process ended. When ctx ends first it kills it and returns the cause.
func (p *process) wait(ctx context.Context) error {
	for p.state() != Dead {
		if err := sleep(ctx, pause); err != nil {
			p.kill()
			return err
		}
	}
	p.kill()
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %s", filepath.Base(p.cmd.Path), p.cmd.ProcessState)
	}
	return nil
}

// killStrays ends processes that have an argument beginning with mark: servers of a run that could not end them.
func killStrays(mark string) error {
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, line := range lines {
		text, _ := os.ReadFile(line) // gone meanwhile, or not ours to read
		if !bytes.Contains(text, append([]byte{0}, mark...)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(line)))
		if err != nil {
			continue
		}
		stat := filepath.Join(filepath.Dir(line), "stat")
		_ = syscall.Kill(pid, syscall.SIGKILL)
		for limit := time.Now().Add(10 * time.Second); stateOf(stat) != Dead; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				return fmt.Errorf("process %d of an earlier run (%s) cannot be killed", pid, mark)
			}
		}
	}
	return nil
}
