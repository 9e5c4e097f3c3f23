package ownership

import (
	"fmt"
	"testing"
	"time"
)

// small is a term whose deadlines are small numbers; 0 is "none yet".
type small struct {
	state     State
	safe, end int
}

func (s small) term() term { return term{state: s.state, safe: at(s.safe), end: at(s.end)} }

func at(n int) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(int64(n), 0)
}

// byHand is the table of DESIGN 2 once more, with nothing in common with step:
// first the column of the clock, then the column of the event.
func byHand(s small, now int, kind eventKind, safe, end int) small {
	if s.state == Lost || s.state == Released {
		return s
	}
	if s.end != 0 && now >= s.end {
		return small{Lost, s.safe, s.end}
	}
	row := s.state
	if row == Held && now >= s.safe {
		row = Suspect
	}
	after := map[State]map[eventKind]State{
		Acquiring: {evTick: Acquiring, evProof: Held, evDoubt: Acquiring, evLose: Lost, evRelease: Lost},
		Held:      {evTick: Held, evProof: Held, evDoubt: Suspect, evLose: Lost, evRelease: Released},
		Suspect:   {evTick: Suspect, evProof: Held, evDoubt: Suspect, evLose: Lost, evRelease: Lost},
	}[row][kind]
	if kind != evProof {
		return small{after, s.safe, s.end}
	}
	s.safe = max(s.safe, safe)
	s.end = max(s.end, end, s.safe)
	if now >= s.end {
		return small{Lost, s.safe, s.end}
	}
	if now >= safe {
		after = row // a proof that has run out already
	}
	return small{after, s.safe, s.end}
}

var eventNames = map[eventKind]string{evTick: "tick", evProof: "proof", evDoubt: "doubt", evLose: "lose", evRelease: "release"}

// DESIGN 2: every state × event × position of the clock, before, at, between and
// after each deadline, old and new, and with none yet.
func TestStep(t *testing.T) {
	const limit = 5
	allowed := map[[2]State]bool{
		{Acquiring, Held}: true, {Acquiring, Lost}: true,
		{Held, Suspect}: true, {Held, Lost}: true, {Held, Released}: true,
		{Suspect, Held}: true, {Suspect, Lost}: true,
	}
	seen := map[[2]State]bool{}
	cases := 0
	check := func(before small, now int, kind eventKind, safe, end int) {
		cases++
		ev := event{kind: kind, safe: at(safe), end: at(end)}
		got := before.term().step(at(now), ev)
		what := fmt.Sprintf("%v safe %d end %d, at %d: %s(%d, %d)", before.state, before.safe, before.end, now, eventNames[kind], safe, end)
		if want := byHand(before, now, kind, safe, end).term(); got != want {
			t.Errorf("%s: %v safe %v end %v, by hand: %v safe %v end %v", what, got.state, got.safe.Unix(), got.end.Unix(),
				want.state, want.safe.Unix(), want.end.Unix())
		}
		// The invariants of step's comment, by their numbers there.
		if before.state.Terminal() && got != before.term() {
			t.Errorf("%s: 1: a terminal state changed", what)
		}
		if before.end != 0 && now >= before.end && !got.state.Terminal() {
			t.Errorf("%s: 2: past its end it is %v", what, got.state)
		}
		if got.safe.Before(at(before.safe)) || got.end.Before(at(before.end)) || got.safe.After(got.end) {
			t.Errorf("%s: 3: deadlines went from %d, %d to %v, %v", what, before.safe, before.end, got.safe.Unix(), got.end.Unix())
		}
		if got.state == Held && !at(now).Before(got.safe) {
			t.Errorf("%s: 4: held past the safe deadline", what)
		}
		if got.state == Held && (before.state != Held || now >= before.safe) && !at(now).Before(at(safe)) {
			t.Errorf("%s: 4: a proof that has run out made it held", what)
		}
		if kind == evRelease && got.state == Released && before.state != Released && (before.state != Held || now >= before.safe) {
			t.Errorf("%s: 5: released what was not held", what)
		}
		if again := got.step(at(now), event{kind: evTick}); again != got {
			t.Errorf("%s: 6: a second look at the same instant: %v, then %v", what, got.state, again.state)
		}
		move := [2]State{before.state, got.state}
		if before.state != got.state && !allowed[move] {
			t.Errorf("%s: a transition to %v does not exist", what, got.state)
		}
		seen[move] = true
	}
	for _, state := range []State{Acquiring, Held, Suspect, Lost, Released} {
		for safe := range limit + 1 {
			for end := safe; end <= limit; end++ {
				if (safe == 0 || end == 0) && (state == Held || state == Suspect) {
					continue // never held without a proof
				}
				for now := 1; now <= limit+1; now++ {
					for _, kind := range []eventKind{evTick, evDoubt, evLose, evRelease} {
						check(small{state, safe, end}, now, kind, 0, 0)
					}
					for s := range limit + 2 {
						for e := range limit + 2 {
							check(small{state, safe, end}, now, evProof, s, e)
						}
					}
				}
			}
		}
	}
	for move := range allowed {
		if !seen[move] {
			t.Errorf("no case went from %v to %v", move[0], move[1])
		}
	}
	t.Logf("%d cases", cases)
}

func TestStateNames(t *testing.T) {
	for s, want := range map[State]string{Acquiring: "acquiring", Held: "held", Suspect: "suspect", Lost: "lost", Released: "released", 0: "State(0)"} {
		if s.String() != want {
			t.Errorf("State(%d) is %q, want %q", uint8(s), s, want)
		}
		if terminal := s == Lost || s == Released; s.Terminal() != terminal {
			t.Errorf("%v: Terminal is %v", s, s.Terminal())
		}
	}
	for o, want := range map[Outcome]string{Unknown: "unknown", Applied: "applied", NotApplied: "not applied", 9: "Outcome(9)"} {
		if o.String() != want {
			t.Errorf("Outcome(%d) is %q, want %q", uint8(o), o, want)
		}
	}
}

// A body begins only while the tenure is held, also if that ended just before.
func TestBegin(t *testing.T) {
	for want, events := range map[State]func(*Driver){
		Acquiring: func(*Driver) {},
		Held:      func(d *Driver) { d.Confirm(d.Now().Add(time.Hour), d.Now().Add(time.Hour)) },
		Suspect: func(d *Driver) {
			d.Confirm(d.Now().Add(time.Hour), d.Now().Add(time.Hour))
			d.Doubt(ErrRefused)
		},
		Lost: func(d *Driver) { d.Lose(ErrRefused) },
		Released: func(d *Driver) {
			d.Confirm(d.Now().Add(time.Hour), d.Now().Add(time.Hour))
			d.End(ErrClosed)
		},
	} {
		d := NewDriver(DriverConfig{Resource: "r", Token: 1})
		events(d)
		tenure := d.Tenure()
		if tenure.State() != want {
			t.Fatalf("it is %v, want %v", tenure.State(), want)
		}
		if work, ok := tenure.begin(); ok != (want == Held) || ok && work.Err() != nil {
			t.Errorf("%v: a body began: %v", want, ok)
		}
		d.Abandon(ErrClosed)
	}
}
