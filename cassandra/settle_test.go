package cassandra

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/fence"
)

// chooser walks through every sequence of choices, depth first.
type chooser struct {
	script, width []int
	at            int
}

func (c *chooser) choose(n int) int {
	if n < 2 {
		return 0
	}
	if c.at == len(c.script) {
		c.script, c.width = append(c.script, 0), append(c.width, n)
	}
	c.at++
	return c.script[c.at-1]
}

// next prepares the sequence after this one; false: there is none.
func (c *chooser) next() bool {
	c.at = 0
	for i := len(c.script) - 1; i >= 0; i-- {
		if c.script[i]++; c.script[i] < c.width[i] {
			return true
		}
		c.script, c.width = c.script[:i], c.width[:i]
	}
	return false
}

var errLost = errors.New("lost")

// world is one partition, and a network that loses and delays requests.
type world struct {
	*chooser
	faults  int // that may still happen
	cells   cells
	applied map[string]int // statements, and how often
	late    []func()       // requests that have not arrived yet
	rival   []func()       // what the newer owner has yet to do
	holds   func() bool    // whether a statement's own condition holds, when it has one
}

func newWorld(c *chooser, faults int) *world {
	w := &world{chooser: c, faults: faults, applied: map[string]int{}}
	w.holds = func() bool { return true }
	return w
}

// overtake lets the newer owner take over, and write so many times.
func (w *world) overtake(writes int) {
	w.rival = append(w.rival, func() { w.install(2, false); w.install(2, true) })
	for range writes {
		w.rival = append(w.rival, func() { w.count(2, w.cells.seq, orZero(w.cells.seq)+1, newBatch(), nil) })
	}
}

// meanwhile lets others act before a request of ours does.
func (w *world) meanwhile() {
	if len(w.rival) > 0 && w.choose(2) == 1 {
		w.rival[0]()
		w.rival = w.rival[1:]
	}
	if i := w.choose(1 + len(w.late)); i > 0 {
		f := w.late[i-1]
		w.late = append(append([]func(){}, w.late[:i-1]...), w.late[i:]...)
		f()
	}
}

// fate delivers a request, or not.
func (w *world) fate(do func() reply) reply {
	w.meanwhile()
	kind := 0
	if w.faults > 0 {
		kind = w.choose(4)
	}
	if kind > 0 {
		w.faults--
	}
	lost := reply{outcome: ownership.Unknown, err: errLost}
	switch kind {
	case 1: // the request is lost
		return lost
	case 2: // the answer is
		do()
		return lost
	case 3: // it arrives later
		w.late = append(w.late, func() { do() })
		return lost
	}
	return do()
}

func (w *world) refuse() reply {
	return reply{outcome: ownership.NotApplied, now: cells{fence: w.cells.fence, seq: w.cells.seq}}
}

func (w *world) install(token int64, first bool) reply {
	switch {
	case first != (w.cells.fence == nil), !first && *w.cells.fence >= token:
		return w.refuse()
	case first:
		var zero int64
		w.cells.seq = &zero
	}
	w.cells.fence = &token
	return reply{outcome: ownership.Applied}
}

func (w *world) count(token int64, last *int64, next int64, batch gocql.UUID, stmts []statement) reply {
	if w.cells.fence == nil || *w.cells.fence != token || (last == nil) != (w.cells.seq == nil) || last != nil && *last != *w.cells.seq {
		return w.refuse()
	}
	for _, s := range stmts {
		if s.args != nil && !w.holds() {
			return w.refuse()
		}
	}
	w.cells.seq, w.cells.batch = &next, &batch
	for _, s := range stmts {
		w.applied[s.cql]++
	}
	return reply{outcome: ownership.Applied}
}

func (w *world) raise(_ context.Context, token ownership.Token, first bool) reply {
	return w.fate(func() reply { return w.install(int64(token), first) })
}

func (w *world) advance(_ context.Context, token ownership.Token, last *int64, next int64, batch gocql.UUID, stmts []statement) reply {
	if last != nil {
		n := *last
		last = &n
	}
	return w.fate(func() reply { return w.count(int64(token), last, next, batch, stmts) })
}

func (w *world) look(context.Context) (cells, error) {
	w.meanwhile()
	if w.faults > 0 && w.choose(2) == 1 {
		w.faults--
		return cells{}, errLost
	}
	return w.cells, nil
}

// writer is one of token 1 on this world.
func (w *world) writer() *Writer {
	return &Writer{f: &Fence{}, stamp: fence.Stamp{Token: 1}, where: "here", p: w, turn: make(chan struct{}, 1), verdict: fence.Accepted}
}

// deliver lets everything arrive that has not, and everybody act who has not.
func (w *world) deliver() {
	todo := append(w.late, w.rival...)
	if w.choose(2) == 1 {
		todo = append(w.rival, w.late...)
	}
	for _, f := range todo {
		f()
	}
}

// check compares what a writer was told with what happened in the end.
func (w *world) check(told map[string]fence.Verdict, errs map[string]error) error {
	for name, v := range told {
		n, err := w.applied[name], errs[name]
		switch {
		case (v == fence.Accepted) != (err == nil),
			v == fence.Accepted && n != 1,
			(v == fence.Stale || v == fence.NotApplied) && n != 0,
			v == fence.Stale && !errors.Is(err, fence.ErrStale),
			v == fence.Unknown && (!errors.Is(err, ownership.ErrUnknown) || n > 1),
			v == fence.NotApplied && errors.Is(err, ownership.ErrUnknown),
			errors.Is(err, ErrRival), errors.Is(err, ErrFenceGone): // there is none, and it is not
			return fmt.Errorf("%s: told %v (%w), applied %d times", name, v, err, n)
		}
	}
	return nil
}

// Every order of lost requests, lost answers and late arrivals, up to a number of
// them, against a newer owner who takes over and writes at any moment: what a
// writer is told is what happened, for ever (DESIGN 8.2, 8.4).
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name           string
		writes, faults int
		rivalWrites    int // -1: no rival
		conditional    bool
		again          bool // the token was installed before, by another writer
	}{
		{name: "alone", writes: 2, faults: 3, rivalWrites: -1},
		{name: "overtaken", writes: 2, faults: 2, rivalWrites: 0},
		{name: "overtaken and written to", writes: 1, faults: 3, rivalWrites: 2},
		{name: "conditions of its own", writes: 1, faults: 2, rivalWrites: 0, conditional: true},
		{name: "same token again", writes: 1, faults: 2, rivalWrites: 0, again: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var (
					all      chooser
					runs     int
					verdicts = map[fence.Verdict]int{}
				)
				for more := true; more; more = all.next() {
					runs++
					told, errs := map[string]fence.Verdict{}, map[string]error{}
					w := newWorld(&all, c.faults)
					if c.conditional {
						w.holds = func() bool { return w.choose(2) == 0 }
					}
					if c.rivalWrites >= 0 {
						w.overtake(c.rivalWrites)
					}
					if c.again { // a write of the earlier writer is under way
						w.install(1, true)
						zero := int64(0)
						w.late = append(w.late, func() { w.count(1, &zero, 1, newBatch(), []statement{{cql: "earlier"}}) })
					}
					wr := w.writer()
					ctx := t.Context()
					v, err := wr.takeOver(ctx)
					earlier := w.applied["earlier"]
					if v != fence.Accepted && v != fence.Stale {
						t.Fatalf("choices %v: taking over: %v, %v", all.script, v, err)
					}
					for i := 0; v == fence.Accepted && i < c.writes; i++ {
						name := fmt.Sprint("write ", i)
						s := statement{cql: name}
						if c.conditional {
							s.args = []any{1}
						}
						told[name], errs[name] = wr.commit(ctx, []statement{s})
						verdicts[told[name]]++
					}
					w.deliver()
					if err := w.check(told, errs); err != nil {
						t.Fatalf("choices %v: %v", all.script, err)
					}
					if v == fence.Accepted && w.applied["earlier"] != earlier {
						t.Fatalf("choices %v: an earlier writer's batch was applied after the takeover", all.script)
					}
				}
				t.Logf("%d runs, verdicts: %v", runs, verdicts)
				if verdicts[fence.Accepted] == 0 || c.rivalWrites >= 0 && verdicts[fence.Stale] == 0 {
					t.Error("the runs did not reach what they are for")
				}
			})
		})
	}
}
