package cluster

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
)

// keep is the keeper of this process.
var keep keeper

// A keeper starts every child process and sees to it that none outlives this one, however this one ends.
//
//   - Killed, crashed, os.Exit: each child has SIGKILL as its parent-death signal. Linux ties that signal to the *thread*
//     that forked, and Go ends threads as it likes; so one goroutine, locked to its thread, starts all of them, and it
//     stays until the last folder is given back.
//   - SIGINT, SIGTERM, SIGHUP: the same goroutine kills the children, removes their folders and lets the signal act again.
//     Children live in process groups of their own, so that a Ctrl-C does not reach them in an order of its own.
//
// Folders that a killed process leaves behind are removed by the next start (see sweep).
//
// There is no goroutine a child: a child that ended by itself stays a zombie until it is asked for.
type keeper struct {
	mu   sync.Mutex // serialises open and shut
	open int

	work    chan func()   // runs on the keeper's thread
	stop    chan struct{} // closed by the last shut
	stopped chan struct{}

	// Only the keeper's goroutine touches these.
	children map[*process]struct{}
	folders  map[string]struct{}
	ending   error // set by a signal: nothing starts any more
}

var errEnding = errors.New("this process was told to end by a signal: no server is started any more")

// hold registers a folder that must not outlive this process; every hold needs one drop.
func (k *keeper) hold(folder string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open++; k.open == 1 {
		k.work, k.stop, k.stopped = make(chan func()), make(chan struct{}), make(chan struct{})
		k.children, k.folders, k.ending = map[*process]struct{}{}, map[string]struct{}{}, nil
		go k.run()
	}
	k.do(func() { k.folders[folder] = struct{}{} })
}

// drop ends a hold. No child of the folder may be left.
func (k *keeper) drop(folder string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.do(func() { delete(k.folders, folder) })
	if k.open--; k.open == 0 {
		close(k.stop)
		<-k.stopped
	}
}

// do runs f on the keeper's thread and waits for it. Valid between a hold and its drop.
func (k *keeper) do(f func()) {
	done := make(chan struct{})
	k.work <- func() { f(); close(done) }
	<-done
}

// start starts cmd as a child. Valid between a hold and its drop.
func (k *keeper) start(cmd *exec.Cmd) (p *process, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	k.do(func() {
		if err = k.ending; err != nil {
			return
		}
		if err = cmd.Start(); err == nil {
			p = &process{cmd: cmd}
			k.children[p] = struct{}{}
		}
	})
	return p, err
}

// forget is told of a child that has been reaped.
func (k *keeper) forget(p *process) { k.do(func() { delete(k.children, p) }) }

func (k *keeper) run() {
	// Never unlocked: the thread ends with this goroutine, and with it whatever child should be left against the rules.
	runtime.LockOSThread()
	defer close(k.stopped)
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) { // nohup, or a background job of a shell
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	for {
		select {
		case f := <-k.work:
			f()
		case s := <-signals:
			k.ending = errEnding
			for p := range k.children {
				p.kill()
			}
			for f := range k.folders {
				os.RemoveAll(f)
			}
			// Give the signal its effect: the default one, which ends this process, unless others have asked for it too.
			signal.Stop(signals)
			_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
		case <-k.stop:
			return
		}
	}
}
