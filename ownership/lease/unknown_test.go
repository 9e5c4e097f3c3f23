package lease_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
)

// recorder notes the requests of a process that change or linearizably read
// buckets, as they begin.
type recorder struct {
	mu   sync.Mutex
	list []memory.Request
}

func (p *process) record() *recorder {
	r := new(recorder)
	p.view.Observe(func(q memory.Request) {
		if q.Answered {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = append(r.list, q)
	})
	return r
}

// of returns the recorded requests of the given kinds.
func (r *recorder) of(ops ...memory.Op) []memory.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []memory.Request
	for _, q := range r.list {
		for _, op := range ops {
			if q.Op == op {
				list = append(list, q)
			}
		}
	}
	return list
}

// DESIGN 5, unknown outcome of a claim: "our attempt in the row → granted".
func TestClaimWhoseAnswerWasLost(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p")
		sent := p.record()
		p.view.Inject(memory.Fault{Op: memory.OpClaim, Mode: memory.LoseAnswer})
		tenure := p.try("a")
		if claims := sent.of(memory.OpClaim); len(claims) != 1 || claims[0].Token != tenure.Token() {
			t.Errorf("claims %+v; want the one that was applied", claims)
		}
		w.settled(p)
	})
}

// "Fence still F → it may yet arrive: send the same again." To the letter: both
// copies name one attempt, and cannot both apply.
func TestClaimThatWasLostIsSentAgain(t *testing.T) {
	for _, mode := range []memory.Mode{memory.Lose, memory.Late} {
		t.Run(string(mode), func(t *testing.T) {
			scenario(t, func(w *world) {
				p := w.process("p")
				sent := p.record()
				p.view.Inject(memory.Fault{Op: memory.OpClaim, Mode: mode})
				tenure := p.try("a")
				claims := sent.of(memory.OpClaim)
				if len(claims) != 2 || claims[0].Attempt != claims[1].Attempt || claims[0].Token != claims[1].Token {
					t.Errorf("claims %+v; want the same twice", claims)
				}
				p.view.Deliver()
				w.pass(renewal)
				w.wantState(tenure, ownership.Held)
				if g := w.row("a"); g.Token != tenure.Token() {
					t.Errorf("the late copy changed the row: %+v", g)
				}
				w.settled(p)
			})
		})
	}
}

// "Fence beyond F without us → refused for good": a fresh attempt is made.
func TestClaimThatTheFenceHasPassed(t *testing.T) {
	scenarioOn(t, memory.StoreOptions{Buckets: 1}, func(w *world) {
		p, q := w.process("p"), w.process("q")
		sent := p.record()
		p.view.Inject(memory.Fault{Op: memory.OpClaim, Mode: memory.Late})
		p.view.Inject(memory.Fault{Op: memory.OpGrants, Mode: memory.Slow, Delay: timeout / 2})
		time.AfterFunc(timeout/4, func() { q.try("b") }) // moves the fence of the bucket
		tenure := p.try("a")
		claims := sent.of(memory.OpClaim)
		if len(claims) != 2 || claims[0].Attempt == claims[1].Attempt || claims[1].Token <= claims[0].Token {
			t.Errorf("claims %+v; want a fresh one", claims)
		}
		p.view.Deliver()
		w.pass(renewal)
		w.wantState(tenure, ownership.Held)
		if g := w.row("a"); g.Attempt != claims[1].Attempt {
			t.Errorf("the row is %+v", g)
		}
	})
}

// "A refused second copy proves nothing about the first: while the fence is F, only
// moving the fence without a grant settles it." Here the row was taken when the
// second copy came, and is free when the first does.
func TestRefusedSecondCopyIsNotFinal(t *testing.T) {
	for _, sparse := range []bool{false, true} {
		scenarioOn(t, memory.StoreOptions{Buckets: 1, Sparse: sparse}, func(w *world) {
			p, q := w.process("p"), w.process("q")
			w.release(p.try("a")) // p knows that a is free
			rival := q.try("a")   // which it is no more
			w.release(p.try("b")) // and now p knows a fence beyond q's
			p.view.Inject(memory.Fault{Op: memory.OpClaim, Mode: memory.Late})
			if h := p.refused("a"); h.Token != rival.Token() {
				t.Errorf("held by %v, want q under token %d", h, rival.Token())
			}
			w.release(rival)
			p.view.Deliver() // the row is as it was when the first copy was sent
			w.pass(renewal)
			w.noGhost("a")
			w.release(q.try("a"))
		})
	}
}

// "Never accept by owner name": the row that a lost claim was to replace names this
// very process, from a session before.
func TestReadBackLooksForTheAttempt(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p")
		old := p.acquire("a")
		s := w.session(w.row("a").Session)
		w.store.Kill(context.Background(), s.ID, &s.Seq, 0)
		w.pass(renewal)
		w.wantLost(old, ownership.ErrRefused)
		p.view.Inject(memory.Fault{Op: memory.OpClaim, Mode: memory.Lose, Times: -1})
		w.release(old)
		if got, err := p.TryAcquire(w.within(3*timeout), "a"); got != nil || !errors.Is(err, ownership.ErrUnknown) {
			t.Errorf("TryAcquire: %v, %v; want an unknown outcome", got, err)
		}
	})
}

// tornReads reads a bucket in two steps, as a server does that has no snapshot over
// both: other requests land in between.
type tornReads struct {
	lease.Store
	gap time.Duration
}

func (s *tornReads) Grants(ctx context.Context, bucket string, resources []string) (lease.Bucket, error) {
	fence, err := s.Store.Grants(ctx, bucket, nil)
	if err != nil {
		return lease.Bucket{}, err
	}
	time.Sleep(s.gap)
	rows, err := s.Store.Grants(ctx, bucket, resources)
	return lease.Bucket{Name: bucket, Fence: fence.Fence, Rows: rows.Rows}, err
}

// "Read the fence first, then the rows": a claim that lands between the two then
// shows in the rows. It may land at any instant of the read-back, which is that of a
// claim that somebody waits for, or of one that was given up.
func TestClaimLandsDuringTheReadBack(t *testing.T) {
	const gap = 100 * time.Millisecond
	for delay := 10 * time.Millisecond; delay <= 3*gap; delay += 10 * time.Millisecond {
		for _, given := range []bool{false, true} {
			scenario(t, func(w *world) {
				p := w.process("p", func(c *lease.Config) { c.Store = &tornReads{c.Store, gap} })
				p.acquire("b")
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				p.view.Inject(memory.Fault{Op: memory.OpClaim, Mode: memory.Late, Delay: delay})
				if given {
					p.view.Inject(memory.Fault{Op: memory.OpClaim, Nth: 2, Mode: memory.Lose}) // the fence is not moved
					p.view.Observe(func(r memory.Request) {
						if r.Op == memory.OpClaim && r.Answered {
							cancel()
						}
					})
				}
				tenure, err := p.TryAcquire(ctx, "a")
				if (tenure == nil) != given {
					t.Errorf("after %v: %v, %v", delay, tenure, err)
				}
				w.pass(renewal)
				if tenure != nil {
					w.wantState(tenure, ownership.Held)
				}
				w.noGhost("a")
				w.settled(p)
			})
		}
	}
}

// DESIGN 4, 5: a claim that is given up while its outcome is unknown is said to be
// that, and nothing else; it is brought to release or to impossibility in the
// background, and until then nobody of this process claims there.
func TestAbandonedClaim(t *testing.T) {
	for name, mode := range map[string]memory.Mode{"Landed": memory.LoseAnswer, "Lost": memory.Lose, "StillUnderWay": memory.Late} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(w *world) {
				p := w.process("p")
				w.release(p.acquire("b"))
				ctx, cancel := context.WithCancel(context.Background())
				p.view.Inject(memory.Fault{Op: memory.OpClaim, Mode: mode})
				p.view.Observe(func(r memory.Request) {
					if r.Op == memory.OpClaim && r.Answered { // nothing can be read back
						p.view.Observe(nil)
						p.view.Cut()
						time.AfterFunc(timeout/2, cancel)
					}
				})
				got, err := p.TryAcquire(ctx, "a")
				if got != nil || !errors.Is(err, ownership.ErrUnknown) || !errors.Is(err, context.Canceled) || errors.Is(err, ownership.ErrHeld) {
					t.Errorf("TryAcquire: %v, %v; want ErrUnknown and why it ended", got, err)
				}
				sent := p.record()
				time.AfterFunc(3*timeout, p.view.Heal)
				tenure := p.try("a")
				w.wantState(tenure, ownership.Held)
				p.view.Deliver()
				w.pass(renewal)
				w.wantState(tenure, ownership.Held)
				w.settled(p)
				if got := sent.of(memory.OpClaim); len(got) > 0 && len(got[0].Resources) != 0 {
					t.Errorf("the first change is %+v, want the fence to be moved", got[0])
				}
			})
		})
	}
}

// A resource that a claim found taken is told so even if the claim's own outcome
// is never known, and stays out of what the background has to settle.
func TestUnknownClaimAccountsForEveryResource(t *testing.T) {
	scenarioOn(t, memory.StoreOptions{Buckets: 1}, func(w *world) {
		p, q := w.process("p"), w.process("q")
		q.acquire("a")
		w.release(p.acquire("b"))
		p.view.Inject(memory.Fault{Op: memory.OpClaim, Mode: memory.Hang, Times: -1})
		ctx, cancel := context.WithTimeout(context.Background(), timeout/2)
		defer cancel()
		got, err := p.TryAcquireMany(ctx, []string{"a", "b"})
		if len(got) != 0 || !errors.Is(err, ownership.ErrUnknown) || !errors.Is(err, ownership.ErrHeld) {
			t.Errorf("%v, %v; want ErrHeld for a and ErrUnknown for b", got, err)
		}
		p.view.Heal()
		w.pass(renewal)
		w.settled(p)
	})
}

// A plain read is a hint: no verdict rests on it. Here it still shows the holder
// that has released.
func TestOldHintIsNoVerdict(t *testing.T) {
	scenario(t, func(w *world) {
		q := w.process("q")
		old := q.acquire("a")
		stale, _ := w.store.Grants(context.Background(), "a", []string{"a"})
		w.release(old)
		p := w.alter("p", func(a *altered) {
			a.peek = func(context.Context, string, []string) (lease.Bucket, error) { return stale, nil }
		})
		tenure := p.try("a")
		if tenure.Token() <= old.Token() {
			t.Errorf("token %d after %d", tenure.Token(), old.Token())
		}
	})
}

// A store that refuses a request as invalid will do so for ever: nobody waits.
func TestInvalidForTheStore(t *testing.T) {
	invalid := ownership.Invalid("resource", "a", "must please this store", "")
	scenario(t, func(w *world) {
		p := w.alter("p", func(a *altered) {
			a.claim = func(context.Context, lease.Claim) lease.Result[lease.Bucket] {
				return lease.NotSent[lease.Bucket](invalid)
			}
			a.peek = func(context.Context, string, []string) (lease.Bucket, error) { return lease.Bucket{}, nil }
		})
		if _, err := p.Acquire(w.within(time.Minute), "a"); !errors.Is(err, ownership.ErrInvalid) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire: %v", err)
		}
	})
}

// DESIGN 5: one change in flight for each bucket and each session, whatever happens
// to them, and whoever asks.
func TestOneChangeInFlight(t *testing.T) {
	for name, opts := range stores {
		t.Run(name, func(t *testing.T) {
			scenarioOn(t, opts, func(w *world) {
				p, q := w.process("p"), w.process("q")
				q.acquire("a")
				var mu sync.Mutex
				inFlight := map[string]int{}
				p.view.Observe(func(r memory.Request) {
					var on string
					switch r.Op {
					case memory.OpClaim, memory.OpRelease:
						on = "bucket " + r.Bucket
					case memory.OpOpen, memory.OpRenew, memory.OpKill, memory.OpEnd:
						on = "session " + r.Session.String()
					default:
						return
					}
					mu.Lock()
					defer mu.Unlock()
					if r.Answered {
						inFlight[on]--
					} else if inFlight[on]++; inFlight[on] > 1 {
						t.Errorf("two changes of %s are in flight, the second one a %s of %v", on, r.Op, r.Resources)
					}
				})
				for _, mode := range modes {
					p.view.Inject(memory.Fault{Mode: mode, Delay: timeout / 3, Nth: 7, Times: 5})
				}
				for _, op := range changes { // long enough to meet another one
					p.view.Inject(memory.Fault{Op: op, Mode: memory.SlowAnswer, Delay: poll / 10, Times: -1})
				}
				q.crash()
				var work sync.WaitGroup
				for _, r := range []string{"a", "b", "c", "a", "b", "c", "d", "e"} {
					work.Go(func() {
						for range 3 {
							ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
							if tenure, err := p.Acquire(ctx, r); err == nil {
								time.Sleep(poll)
								_ = tenure.Release(ctx)
							}
							cancel()
						}
					})
				}
				work.Wait()
				w.pass(renewal)
			})
		})
	}
}
