package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit statuses; see the package comment.
const (
	exitOK     = 0
	exitBroken = 1
	exitUsage  = 2
	exitUnable = 3
	exitSignal = 128
)

func main() {
	beChild()
	os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

func run(args []string, getenv func(string) string, out, errOut io.Writer) int {
	opts, err := parse(args, getenv, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(errOut, "%v\nRun demo --help for the options.\n", err)
		return exitUsage
	}
	ctx, stop := endBySignal(context.Background())
	defer stop()
	ok, err := play(ctx, opts, out)
	if s := (*signalError)(nil); errors.As(context.Cause(ctx), &s) {
		fmt.Fprintf(errOut, "demo: ended by %v; no worker is left\n", s.signal)
		return exitSignal + int(s.signal.(syscall.Signal))
	}
	switch {
	case err != nil:
		fmt.Fprintf(errOut, "demo: %v\n", err)
		return exitUnable
	case !ok:
		return exitBroken
	}
	return exitOK
}

// signalError is the cause of a context that a signal has ended.
type signalError struct{ signal os.Signal }

func (e *signalError) Error() string { return "ended by " + e.signal.String() }

// endBySignal ends ctx at the first signal that asks for the end. A second one
// kills, as usual, and the workers with it.
func endBySignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(&signalError{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}
