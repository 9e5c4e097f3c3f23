package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
)

// plan is what varies from one telling to the next.
type plan struct {
	fenced    bool
	at        point
	timing    ownership.Timing
	before    time.Duration // what A does between its first write and the late one
	oversleep time.Duration // how long A goes on sleeping after B's write
}

// Values that the workers write.
const (
	inTime  = "A's work"
	alsoOK  = "A's work, part two" // afterSending: arrives in time
	byB     = "B's work"
	tooLate = "A's late work"
)

// story is one telling. It commands the two workers and checks what they and the
// table say.
type story struct {
	plan
	stage  stage
	tl     *timeline
	a, b   *player
	checks []check

	ownsA, ownsB, woke event
	frozen, thawed     time.Time
	sessionA           lease.ID
	result             result
}

// tell plays the story once. It returns an error only if it could not begin;
// whatever goes wrong later is a broken expectation.
func tell(ctx context.Context, st stage, p plan, tl *timeline) (result, []check, error) {
	s := &story{plan: p, stage: st, tl: tl, result: result{Fenced: p.fenced, Point: p.at}}
	began := time.Now()
	defer st.close()
	tl.header()
	var err error
	if s.a, err = s.enter(ctx, "A"); err != nil {
		return s.result, nil, err
	}
	if s.b, err = s.enter(ctx, "B"); err != nil {
		return s.result, nil, err
	}
	for _, act := range []func(context.Context) error{s.aWorks, s.aFreezes, s.bTakesOver, s.aWakes, s.aIsHarmless, s.bLeaves} {
		if err := s.bounded(ctx, act); err != nil {
			if ctx.Err() != nil {
				return s.result, s.checks, context.Cause(ctx)
			}
			s.expect(false, "the story comes to its end", "%v", err)
			break
		}
	}
	st.close()
	<-s.a.done
	<-s.b.done
	s.result.Total = time.Since(began).Milliseconds()
	for _, c := range s.checks {
		if !c.OK {
			s.result.Failed++
		}
	}
	s.result.OK = s.result.Failed == 0
	return s.result, s.checks, nil
}

func (s *story) enter(ctx context.Context, name string) (*player, error) {
	a, err := s.stage.start(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("starting worker %s: %w", name, err)
	}
	p := newPlayer(name, a, s.fenced, s.tl)
	if d := a.describe(); d != "" {
		s.tl.row(row{Who: name, Text: d})
	}
	return p, nil
}

// bounded ends an act that does not come to its end. Each waits for at most one
// lease to run out.
func (s *story) bounded(ctx context.Context, act func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*s.timing.TTL+20*time.Second)
	defer cancel()
	return act(ctx)
}

func (s *story) expect(ok bool, text string, format string, args ...any) {
	c := check{OK: ok, Text: text}
	if !ok {
		c.Got = fmt.Sprintf(format, args...)
	}
	s.checks = append(s.checks, c)
}

func (s *story) say(format string, args ...any) {
	s.tl.row(row{Who: director, Text: fmt.Sprintf(format, args...)})
}

// aWorks: A owns the shard and writes. B waits.
func (s *story) aWorks(ctx context.Context) (err error) {
	if s.ownsA, err = s.a.do(ctx, command{Do: doAcquire}, evOwns); err != nil {
		return err
	}
	s.result.TokenA = int64(s.ownsA.Token)
	s.expect(s.ownsA.Token.Valid() && s.ownsA.State == held, "A owns "+resource+" under a token",
		"it is %s under token %d", s.ownsA.State, s.ownsA.Token)
	if _, err := s.a.do(ctx, command{Do: doTakeOver}, evTookOver); err != nil {
		return err
	}
	wrote, err := s.a.do(ctx, command{Do: doWrite, Value: inTime}, evWrote)
	if err != nil {
		return err
	}
	s.expect(wrote.Verdict == accepted, "A's write in time is accepted", "it is %s: %s", wrote.Verdict, wrote.Error)
	if _, err := s.b.do(ctx, command{Do: doAcquire}, evWaits); err != nil {
		return err
	}
	rows, err := s.stage.store().Grants(ctx, s.stage.store().Bucket(resource), []string{resource})
	if err != nil {
		return err
	}
	s.sessionA = rows.Rows[resource].Session
	return sleep(ctx, s.before)
}

// aFreezes: A begins one more write and is frozen in it.
func (s *story) aFreezes(ctx context.Context) error {
	value, wire := tooLate, s.a.wire()
	if s.at == afterSending {
		value = alsoOK
	}
	onItsWay := s.at == inFlight || s.at == afterSending
	var sent <-chan struct{}
	if onItsWay {
		sent = wire.holdAt(value, s.at == inFlight, s.at == afterSending)
	}
	at, err := s.a.do(ctx, command{Do: doWrite, Value: value, At: s.at}, evAt)
	if err != nil {
		return err
	}
	s.expect(at.State == held, "A owns it when it is frozen", "it is %s", at.State)
	if onItsWay {
		select {
		case <-sent:
		case <-ctx.Done():
			return fmt.Errorf("the write of A did not leave it in time: %w", context.Cause(ctx))
		}
	}
	if s.at == afterSending {
		if err := s.awaitValue(ctx, value); err != nil {
			return err
		}
	}
	s.a.frozen.Store(true)
	if err := s.a.freeze(ctx); err != nil {
		return err
	}
	s.frozen = time.Now()
	// From here on nothing reaches A, and nothing comes from it, until it has
	// looked at its tenure.
	wire.hold(true, true)
	s.a.send(command{Do: doGo})
	s.say("FREEZES A %s", s.at)
	return nil
}

// awaitValue waits until the table has the value.
func (s *story) awaitValue(ctx context.Context, value string) error {
	for {
		e, err := s.stage.table().peek(ctx)
		if err != nil {
			return err
		}
		if e.value == value {
			return nil
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("%q did not arrive at the table in time: %w", value, err)
		}
	}
}

// bTakesOver: A's lease runs out, B owns the shard and writes.
func (s *story) bTakesOver(ctx context.Context) (err error) {
	if s.ownsB, err = s.b.await(ctx, evOwns); err != nil {
		return err
	}
	s.result.TokenB, s.result.Takeover = int64(s.ownsB.Token), time.Since(s.frozen).Milliseconds()
	s.expect(s.ownsB.Token > s.ownsA.Token && s.ownsB.State == held, "B takes over under a higher token, A asleep",
		"it is %s under token %d, after A's %d", s.ownsB.State, s.ownsB.Token, s.ownsA.Token)
	found, err := s.b.do(ctx, command{Do: doTakeOver}, evTookOver)
	if err != nil {
		return err
	}
	want := inTime
	if s.at == afterSending {
		want = alsoOK
	}
	s.expect(found.Verdict == accepted && found.Value == want, "B finds all that A wrote in time",
		"the table said %s, and B found %q instead of %q: %s", found.Verdict, found.Value, want, found.Error)
	wrote, err := s.b.do(ctx, command{Do: doWrite, Value: byB}, evWrote)
	if err != nil {
		return err
	}
	s.expect(wrote.Verdict == accepted, "B's write is accepted", "it is %s: %s", wrote.Verdict, wrote.Error)
	return nil
}

// aWakes: and goes on where it stopped.
func (s *story) aWakes(ctx context.Context) error {
	if s.at == inFlight {
		s.say("the network delivers A's write, while A still sleeps")
		s.a.wire().hold(false, true)
		if !s.fenced {
			if err := s.awaitValue(ctx, tooLate); err != nil {
				return err
			}
		}
	}
	if err := sleep(ctx, s.oversleep); err != nil {
		return err
	}
	s.say("THAWS A")
	if err := s.a.thaw(); err != nil {
		return err
	}
	var err error
	if s.woke, err = s.a.await(ctx, evWoke); err != nil {
		return err
	}
	s.thawed = time.Now()
	s.a.wire().hold(false, false)
	s.result.FirstLook = s.woke.State
	s.expect(s.woke.State != held, "A does not hold it at its first look after waking, before any round trip", "it says %s", s.woke.State)
	wrote, err := s.a.await(ctx, evWrote)
	if err != nil {
		return err
	}
	if s.at == afterSending {
		// Its answer says accepted, or unknown if A's driver has given up on it.
		// A carries on, without a look at anything.
		s.expect(wrote.Verdict == accepted || wrote.Verdict == unknown, "A's write that had arrived in time is not called refused",
			"it is called %s: %s", wrote.Verdict, wrote.Error)
		if wrote, err = s.a.do(ctx, command{Do: doWrite, Value: tooLate}, evWrote); err != nil {
			return err
		}
	}
	s.result.Verdict = wrote.Verdict
	if s.fenced {
		s.expect(wrote.Verdict == stale && wrote.Seen == s.ownsB.Token, "A's late write is refused as stale",
			"it is %s (the table has seen token %d): %s", wrote.Verdict, wrote.Seen, wrote.Error)
	} else {
		s.expect(wrote.Verdict == accepted, "A's late write is taken, for nothing checks it", "it is %s: %s", wrote.Verdict, wrote.Error)
	}
	return nil
}

// aIsHarmless: whatever A sends now changes nothing.
func (s *story) aIsHarmless(ctx context.Context) error {
	renewed, err := s.a.do(ctx, command{Do: doRenew}, evRenewed)
	if err != nil {
		return err
	}
	session, err := s.stage.store().Session(ctx, s.sessionA)
	if err != nil {
		return err
	}
	s.expect(renewed.Outcome == notApplied && !session.Alive(), "A's late renewal changes nothing: its session stays dead",
		"it is %s, alive: %v: %s", renewed.Outcome, session.Alive(), renewed.Error)
	freed, err := s.a.do(ctx, command{Do: doFree}, evFreed)
	if err != nil {
		return err
	}
	holder, err := s.holder(ctx)
	if err != nil {
		return err
	}
	s.expect(freed.Outcome == notApplied && holder.Token == s.ownsB.Token && holder.Owner.Name == "B",
		"A's late release changes nothing: B holds "+resource, "it is %s; %v", freed.Outcome, holder)
	return s.awaitLost(ctx)
}

// awaitLost waits until A's own lease code has heard the authority's answer, which
// is no. It was told so before if it slept through the grace of its lease, too.
func (s *story) awaitLost(ctx context.Context) error {
	for {
		look, err := s.a.do(ctx, command{Do: doLook}, evLooked)
		if err != nil {
			return err
		}
		s.result.Lost = time.Since(s.thawed).Milliseconds()
		if look.State == lost {
			s.expect(look.Refused || s.woke.State == lost, "A's tenure is lost for good with the first answer to a renewal",
				"it took until the end of the grace")
			return nil
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			s.expect(false, "A's tenure is lost for good", "it is %s", look.State)
			return nil
		}
	}
}

// readTable: what counts in the end.
func (s *story) readTable(ctx context.Context) error {
	e, err := s.stage.table().read(ctx)
	if err != nil {
		return err
	}
	if s.fenced {
		s.expect(e.value == byB && e.by == s.ownsB.Token && e.fence == s.ownsB.Token, "the table has B's value and B's token at the end",
			"it has %q of token %d, and token %d as the highest seen", e.value, e.by, e.fence)
	} else {
		s.expect(e.value == tooLate && e.by == s.ownsA.Token, "the damage shows: B's write is lost, A's late one stands",
			"it has %q of token %d", e.value, e.by)
	}
	return nil
}

// bLeaves: B has never noticed anything.
func (s *story) bLeaves(ctx context.Context) error {
	look, err := s.b.do(ctx, command{Do: doLook}, evLooked)
	if err != nil {
		return err
	}
	s.expect(look.State == held && look.Token == s.ownsB.Token, "B has held it all the time", "it is %s under token %d", look.State, look.Token)
	if _, err := s.a.do(ctx, command{Do: doQuit}, evBye); err != nil {
		return err
	}
	if _, err := s.b.do(ctx, command{Do: doRelease}, evReleased); err != nil {
		return err
	}
	holder, err := s.holder(ctx)
	if err != nil {
		return err
	}
	s.expect(holder.Vacant() && holder.Fence >= s.ownsB.Token, "B gives it back: it is vacant, and its tokens are not forgotten", "%v", holder)
	if err := s.readTable(ctx); err != nil {
		return err
	}
	if _, err := s.b.do(ctx, command{Do: doQuit}, evBye); err != nil {
		return err
	}
	for _, p := range []*player{s.a, s.b} {
		if err := p.wait(ctx); err != nil {
			return fmt.Errorf("%s did not end in good order: %w", p.name, err)
		}
	}
	return nil
}

// holder asks the authority, by a linearizable read.
func (s *story) holder(ctx context.Context) (ownership.Holder, error) {
	own, err := lease.New(lease.Config{Store: s.stage.store(), Owner: director, Timing: s.timing})
	if err != nil {
		return ownership.Holder{}, err
	}
	defer own.Close(ctx)
	return own.Holder(ctx, resource)
}

var (
	held       = ownership.Held.String()
	suspect    = ownership.Suspect.String()
	lost       = ownership.Lost.String()
	notApplied = ownership.NotApplied.String()
)

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
