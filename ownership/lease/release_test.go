package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
)

// DESIGN 8.3, 8.6: a release touches the row of its own attempt only, even while its
// session lives and whatever the row says of others by then.
func TestReleaseIsByAttempt(t *testing.T) {
	for name, fault := range map[string]memory.Fault{"Refused": {}, "Unknown": {Op: memory.OpRelease, Mode: memory.Lose}} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(w *world) {
				p := w.process("p")
				tenure := p.acquire("a")
				rival := w.stray("a", lease.NewID())
				if fault.Mode != "" {
					p.view.Inject(fault)
				}
				w.release(tenure)
				if g := w.row("a"); g.Attempt != rival.Attempt {
					t.Errorf("the row is %+v; the late release touched the next owner's grant", g)
				}
				w.settled(p)
			})
		})
	}
}

// A release that arrives late, when the next tenure is there, changes nothing.
func TestReleaseThatArrivesLate(t *testing.T) {
	scenario(t, func(w *world) {
		p, q := w.process("p"), w.process("q")
		tenure := p.acquire("a")
		p.view.Inject(memory.Fault{Op: memory.OpRelease, Mode: memory.Late})
		w.release(tenure)
		next := q.acquire("a")
		if n := p.view.Deliver(); n != 1 {
			t.Fatalf("%d requests were late", n)
		}
		if g := w.row("a"); g.Token != next.Token() {
			t.Errorf("the row is %+v", g)
		}
	})
}

// DESIGN 5, release: many rows of a bucket in one batch; "one mismatched row refuses
// a batch: read again, release the rest".
func TestRefusedBatchReleasesTheRest(t *testing.T) {
	for _, sparse := range []bool{false, true} {
		scenarioOn(t, memory.StoreOptions{Buckets: 1, Sparse: sparse}, func(w *world) {
			p := w.process("p")
			names := numbered("r", 20)
			got, err := p.TryAcquireMany(w.within(time.Minute), names)
			if err != nil {
				t.Fatal(err)
			}
			rival := w.stray(names[7], lease.NewID())
			w.store.Release(context.Background(), w.store.Bucket(names[9]), []lease.Grant{w.row(names[9])})
			p.view.Inject(memory.Fault{Op: memory.OpRelease, Mode: memory.SlowAnswer, Delay: poll, Times: 2})
			for _, tenure := range got {
				go func() {
					if err := tenure.Release(context.Background()); err != nil {
						t.Error(err)
					}
				}()
			}
			w.pass(renewal)
			for i, r := range names {
				if g := w.row(r); g.Free() != (i != 7) || i == 7 && g.Attempt != rival.Attempt {
					t.Errorf("%s: %+v", r, g)
				}
			}
			if n := p.count(memory.OpRelease); n > 4 { // two batches, each refused once
				t.Errorf("%d releases for twenty rows, one of them edited", n)
			}
		})
	}
}

// DESIGN 2.6 and kubernetes PR #139991: work stops before its grant is given back.
// A tenure that is over without its Release goes back when the deadline that its
// work was told has passed.
func TestWorkStopsBeforeTheRelease(t *testing.T) {
	for name, revoked := range map[string]time.Duration{"WorkEnds": 3 * time.Second, "WorkIsStuck": 0} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(w *world) {
				p, operator := w.process("p"), w.process("operator")
				tenure := p.acquire("a")
				if err := operator.Revoke(w.within(time.Minute), "a"); err != nil {
					t.Fatal(err)
				}
				w.pass(renewal)
				w.wantLost(tenure, ownership.ErrRevoked)
				told := tenure.Deadline()
				if revoked > 0 {
					w.pass(revoked)
				} else {
					w.pass(time.Until(told) - time.Millisecond)
				}
				if n := p.count(memory.OpRelease); n > 0 || w.row("a").Free() {
					t.Fatal("the grant was given back under work that goes on")
				}
				if revoked > 0 {
					w.release(tenure)
				} else {
					w.pass(2 * time.Millisecond)
				}
				if !w.row("a").Free() {
					t.Error("the grant was not given back")
				}
			})
		})
	}
}

// While work goes on under a tenure that is over, the resource is not free: neither
// to others, nor to this process, which is told at once.
func TestResourceOfStoppedWorkIsHeld(t *testing.T) {
	scenario(t, func(w *world) {
		p, q, operator := w.process("p"), w.process("q"), w.process("operator")
		old := p.acquire("a")
		if err := operator.Revoke(w.within(time.Minute), "a"); err != nil {
			t.Fatal(err)
		}
		w.pass(renewal)
		began := w.now()
		for _, x := range []*process{p, q} {
			if h := x.refused("a"); h.Owner != p.Owner() || h.Token != old.Token() {
				t.Errorf("held by %v", h)
			}
		}
		if w.now() != began {
			t.Errorf("TryAcquire took %v", w.now()-began)
		}
		time.AfterFunc(time.Second, func() { _ = old.Release(context.Background()) })
		next := p.acquire("a")
		if waited := w.now() - began; waited < time.Second {
			t.Errorf("a new tenure, token %d, %v after the old one was revoked", next.Token(), waited)
		}
	})
}

// DESIGN 7: a release whose outcome is not known is never reported as done. The
// authority's word that the session is gone is knowledge; silence is not.
func TestReleaseThatWasNeverAnswered(t *testing.T) {
	for name, cut := range map[string]bool{"Silence": true, "Refusal": false} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(w *world) {
				p := w.process("p")
				tenure := p.acquire("a")
				p.view.Inject(memory.Fault{Op: memory.OpRelease, Mode: memory.Lose, Times: -1})
				if cut {
					p.crash()
				} else {
					s := w.session(w.row("a").Session)
					w.store.Kill(context.Background(), s.ID, &s.Seq, 0)
				}
				err := tenure.Release(w.within(10 * ttl))
				if cut && !errors.Is(err, ownership.ErrUnknown) || !cut && err != nil {
					t.Errorf("Release: %v", err)
				}
			})
		})
	}
}

// A release under way when Close gives up is unknown, too.
func TestReleaseUnderWayAtClose(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p")
		tenure := p.acquire("a")
		p.crash()
		released := make(chan error)
		go func() { released <- tenure.Release(context.Background()) }()
		if err := p.Close(w.within(timeout)); !errors.Is(err, ownership.ErrUnknown) {
			t.Errorf("Close: %v", err)
		}
		if err := <-released; !errors.Is(err, ownership.ErrUnknown) {
			t.Errorf("Release: %v", err)
		}
	})
}

// A bucket that does not answer holds up no other, however many of its grants are
// given back.
func TestStuckBucketHoldsUpNoOther(t *testing.T) {
	scenarioOn(t, memory.StoreOptions{Buckets: 10}, func(w *world) {
		p := w.process("p")
		tenures, err := p.TryAcquireMany(w.within(time.Minute), numbered("r", 400))
		if err != nil {
			t.Fatal(err)
		}
		stuck := w.store.Bucket(tenures[0].Resource())
		p.view.Inject(memory.Fault{Mode: memory.Hang, Times: -1, If: func(r memory.Request) bool { return r.Bucket == stuck }})
		in := func(bucket string, yes bool) (list []*ownership.Tenure) {
			for _, tenure := range tenures {
				if (w.store.Bucket(tenure.Resource()) == bucket) == yes {
					list = append(list, tenure)
				}
			}
			return list
		}
		for _, tenure := range in(stuck, true) {
			go func() { _ = tenure.Release(context.Background()) }()
			w.pass(poll)
		}
		began := w.now()
		for _, tenure := range in(stuck, false) {
			w.release(tenure)
		}
		if took := w.now() - began; took > 0 {
			t.Errorf("the releases of other buckets took %v", took)
		}
	})
}
