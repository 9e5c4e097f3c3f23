package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// player is an actor with its lines on the timeline.
type player struct {
	actor
	name   string
	fenced bool
	tl     *timeline
	frozen atomic.Bool // it is, or has been
	queue  chan event
	done   chan struct{} // closed when the actor has ended and all is on the timeline
}

func newPlayer(name string, a actor, fenced bool, tl *timeline) *player {
	p := &player{actor: a, name: name, fenced: fenced, tl: tl, queue: make(chan event, 64), done: make(chan struct{})}
	go p.listen()
	return p
}

// listen puts events on the timeline as they come, whether or not the story is
// waiting for this player.
func (p *player) listen() {
	defer close(p.done)
	defer close(p.queue)
	for e := range p.events() {
		if r, ok := p.row(e); ok {
			p.tl.row(r)
		}
		if e.What == evTransition {
			continue // nobody waits for one
		}
		select {
		case p.queue <- e:
		default: // more than any story has: the story has ended
		}
	}
}

// await waits for an event and skips others.
func (p *player) await(ctx context.Context, what string) (event, error) {
	for {
		select {
		case e, ok := <-p.queue:
			switch {
			case !ok:
				return event{}, fmt.Errorf("%s has ended, though %q was expected of it", p.name, what)
			case e.What == what:
				return e, nil
			case e.What == evFailed:
				return event{}, fmt.Errorf("%s failed: %s", p.name, e.Error)
			}
		case <-ctx.Done():
			err := context.Cause(ctx)
			if errors.Is(err, context.DeadlineExceeded) {
				err = fmt.Errorf("%s did not come to %q in time: %w", p.name, what, err)
			}
			return event{}, err
		}
	}
}

// do sends a command and waits for what comes of it.
func (p *player) do(ctx context.Context, cmd command, what string) (event, error) {
	p.send(cmd)
	return p.await(ctx, what)
}

// row puts an event in words; ok is false for what a newcomer need not see.
func (p *player) row(e event) (r row, ok bool) {
	r = row{Who: p.name, Token: int64(e.Token), State: e.State, Verdict: e.Verdict}
	switch e.What {
	case evAsks:
		r.Text = "asks for " + resource
	case evWaits:
		r.Text = fmt.Sprintf("waits: %s holds it under token %d", e.Holder.Owner.Name, e.Holder.Token)
	case evOwns:
		r.Text = "owns " + resource
	case evTookOver:
		r.Text = "shows its token to the table, then reads it: " + quoted(e)
		if !p.fenced {
			r.Text, r.Verdict = "reads the table: "+quoted(e), ""
		}
	case evChecked:
		r.Text = "checks its lease: good for another " + (time.Duration(e.Left) * time.Millisecond).Round(10*time.Millisecond).String()
		if e.Error != "" {
			r.Text = "checks its lease: not held. A good worker stops here; this one does not"
		}
	case evWoke:
		r.Text = "wakes up. Its first look, before anything is sent or received: " + e.State
	case evWrote:
		r.Text = fmt.Sprintf("writes %q", e.Value)
		switch {
		case e.Seen > 0:
			r.Verdict = strings.ToUpper(stale)
			r.Text += fmt.Sprintf(": refused, the table has seen token %d", e.Seen)
		case e.Error != "":
			r.Text += ": " + e.Error
		case e.Verdict == accepted && e.State != held && p.fenced:
			r.Text += ": the answer, read late, to what had arrived in time"
		case e.Verdict == accepted && e.State != held:
			r.Text += ", though it owns nothing: this table does not ask"
		}
	case evRenewed:
		r.Text = "sends the renewal that was due: " + e.Outcome
	case evFreed:
		r.Text = "sends a release of its old grant: " + e.Outcome
	case evReleased:
		r.Text = "gives it back"
		if e.Error != "" {
			r.Text = "gives it back: " + e.Error
		}
	case evTransition:
		// owns and released tell of two states; the first look of one that was
		// frozen tells of a third.
		if e.State == suspect && p.frozen.Load() || e.State != suspect && e.State != lost {
			return r, false
		}
		r.Text = "stops: " + e.Error
	case evFailed:
		r.Text = "fails: " + e.Error
	default:
		return r, false
	}
	return r, true
}

func quoted(e event) string {
	if e.Value == "" {
		return "nothing"
	}
	if e.By == 0 {
		return fmt.Sprintf("%q", e.Value)
	}
	return fmt.Sprintf("%q, of token %d", e.Value, e.By)
}
