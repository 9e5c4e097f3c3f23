package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/fence"
	"github.com/tenure-go/tenure/ownership/lease"
)

// worker owns the resource and writes to the ledger, as the parent commands.
type worker struct {
	name    string
	store   lease.Store
	timing  ownership.Timing
	ledger  ledger
	receive func() (command, bool) // false: the parent is gone
	send    func(event)            // safe for concurrent use

	own    *lease.Ownership
	memo   *memo
	tenure *ownership.Tenure
}

// serve obeys commands until quit, or until ctx or the parent ends.
func (w *worker) serve(ctx context.Context) error {
	w.memo = &memo{Store: w.store}
	own, err := lease.New(lease.Config{Store: w.memo, Owner: w.name, Timing: w.timing, Hooks: ownership.Hooks{w}})
	if err != nil {
		return err
	}
	w.own = own
	defer w.close(ctx)
	for {
		cmd, ok := w.receive()
		if !ok || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if cmd.Do != doAcquire && cmd.Do != doQuit && w.tenure == nil {
			return fmt.Errorf("%s before anything was acquired", cmd.Do)
		}
		switch cmd.Do {
		case doAcquire:
			err = w.acquire(ctx)
		case doTakeOver:
			w.takeOver(ctx)
		case doWrite:
			err = w.write(ctx, cmd)
		case doLook:
			w.report(event{What: evLooked, Refused: errors.Is(w.tenure.Err(), ownership.ErrRefused)})
		case doRenew:
			w.renewByHand(ctx)
		case doFree:
			w.freeByHand(ctx)
		case doRelease:
			w.release(ctx)
		case doQuit:
			w.close(ctx)
			w.send(event{What: evBye})
			return nil
		default:
			err = fmt.Errorf("no such command: %q", cmd.Do)
		}
		if err != nil {
			return err
		}
	}
}

// report sends an event with the tenure's token and state of now.
func (w *worker) report(e event) {
	e.Token, e.State = w.tenure.Token(), w.tenure.State().String()
	w.send(e)
}

func (w *worker) acquire(ctx context.Context) error {
	w.send(event{What: evAsks})
	t, err := w.own.TryAcquire(ctx, resource)
	if held := (*ownership.HeldError)(nil); errors.As(err, &held) {
		w.send(event{What: evWaits, Holder: &held.Holder})
	}
	if err != nil { // trouble with the authority is waited out, too
		t, err = w.own.Acquire(ctx, resource)
	}
	if err != nil {
		return err
	}
	w.tenure = t
	w.report(event{What: evOwns})
	return nil
}

func (w *worker) takeOver(ctx context.Context) {
	found, verdict, err := w.ledger.takeOver(ctx, fence.StampOf(w.tenure))
	w.report(judged(event{What: evTookOver, Value: found.value, By: found.by}, verdict, err))
}

// write checks the lease and writes, stopping where the command says. It writes
// whatever the check says: see the package comment.
func (w *worker) write(ctx context.Context, cmd command) error {
	if cmd.At == beforeCheck {
		if err := w.stopAt(cmd.At); err != nil {
			return err
		}
	}
	checked := event{What: evChecked, Left: time.Until(w.tenure.Deadline()).Milliseconds()}
	if err := w.tenure.Ensure(0); err != nil {
		checked.Error = err.Error()
	}
	w.report(checked)
	if cmd.At == afterCheck {
		if err := w.stopAt(cmd.At); err != nil {
			return err
		}
	}
	answer := make(chan event, 1)
	go func() {
		verdict, err := w.ledger.write(ctx, fence.StampOf(w.tenure), cmd.Value)
		answer <- judged(event{What: evWrote, Value: cmd.Value}, verdict, err)
	}()
	if cmd.At == inFlight || cmd.At == afterSending {
		if err := w.stopAt(cmd.At); err != nil {
			return err
		}
	}
	w.report(<-answer)
	return nil
}

// stopAt says where the worker is and waits for go. By then it has been frozen
// and has slept: go lay in its pipe all the time.
func (w *worker) stopAt(p point) error {
	w.report(event{What: evAt, At: p})
	cmd, ok := w.receive()
	first := w.tenure.State() // nothing before it
	if !ok || cmd.Do != doGo {
		return fmt.Errorf("waiting at %q, got %q", string(p), cmd.Do)
	}
	w.send(event{What: evWoke, Token: w.tenure.Token(), State: first.String()})
	return nil
}

func judged(e event, v fence.Verdict, err error) event {
	e.Verdict = v.String()
	if err != nil {
		e.Error = err.Error()
	}
	if s := (*fence.StaleError)(nil); errors.As(err, &s) {
		e.Seen = s.Current
	}
	return e
}

func (w *worker) release(ctx context.Context) {
	e := event{What: evReleased}
	if err := w.tenure.Release(ctx); err != nil {
		e.Error = err.Error()
	}
	w.report(e)
}

// closeTimeout bounds a worker's end. What a Close that timed out leaves behind
// expires with the session.
const closeTimeout = 10 * time.Second

func (w *worker) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if w.tenure != nil {
		_ = w.tenure.Release(ctx)
	}
	_ = w.own.Close(ctx)
}

// OnTransition implements [ownership.HookTransition].
func (w *worker) OnTransition(t ownership.Transition) {
	e := event{What: evTransition, Token: t.Tenure.Token(), State: t.To.String()}
	if t.Cause != nil {
		e.Error = t.Cause.Error()
	}
	w.send(e)
}
