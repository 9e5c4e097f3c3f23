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

// wantDeadline compares a tenure's safe deadline, counted from the scenario's begin.
func (w *world) wantDeadline(t *ownership.Tenure, want time.Duration) {
	w.Helper()
	if got := t.Deadline().Sub(w.began); got != want {
		w.Errorf("the deadline of %s is at %v, want %v", t.Resource(), got, want)
	}
}

// DESIGN 2, time: a deadline counts from before the request was sent, however late
// the answer. So does the first one, from the opening of the session.
func TestDeadlineCountsFromBeforeTheSend(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p")
		p.view.Inject(memory.Fault{Op: memory.OpOpen, Mode: memory.SlowAnswer, Delay: 700 * time.Millisecond})
		p.view.Inject(memory.Fault{Op: memory.OpClaim, Mode: memory.SlowAnswer, Delay: 400 * time.Millisecond})
		tenure := p.acquire("a")
		w.wantDeadline(tenure, usable)
		p.view.Inject(memory.Fault{Op: memory.OpRenew, Mode: memory.SlowAnswer, Delay: 600 * time.Millisecond})
		w.pass(renewal)
		w.wantDeadline(tenure, renewal+usable)
	})
}

// DESIGN 5: "A grant lives as long as its session: its deadline is the session's,
// never claim-send + TTL."
func TestGrantLivesAsLongAsItsSession(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p")
		first := p.acquire("a")
		p.view.Inject(memory.Fault{Op: memory.OpRenew, Mode: memory.Hang, Times: -1})
		w.pass(5 * time.Second)
		second := p.acquire("b")
		w.wantDeadline(second, usable)
		w.wantDeadline(first, usable)
		w.pass(usable - 5*time.Second)
		w.wantState(first, ownership.Suspect)
		w.wantState(second, ownership.Suspect)
	})
}

// DESIGN 5, unknown outcome of a renewal: "deadline from the first send".
func TestDeadlineCountsFromTheFirstCopy(t *testing.T) {
	for name, fault := range map[string]memory.Fault{
		"LostTwice":  {Op: memory.OpRenew, Mode: memory.Lose, Times: 2},
		"AnswerLost": {Op: memory.OpRenew, Mode: memory.LoseAnswer},
		"CameLate":   {Op: memory.OpRenew, Mode: memory.Slow, Delay: timeout + 10*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(w *world) {
				p := w.process("p")
				tenure := p.acquire("a")
				p.view.Inject(fault)
				w.pass(renewal + timeout + timeout/2)
				w.wantDeadline(tenure, renewal+usable)
				w.settled(p)
			})
		})
	}
}

// A copy that was certainly not sent is none: the deadline counts from the next.
func TestRejectedCopyDoesNotCount(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p")
		tenure := p.acquire("a")
		var sent []time.Duration
		p.view.Observe(func(r memory.Request) {
			if r.Op == memory.OpRenew && !r.Answered {
				sent = append(sent, w.now())
			}
		})
		p.view.Inject(memory.Fault{Op: memory.OpRenew, Mode: memory.Reject, Times: 3})
		w.pass(renewal + time.Second)
		if len(sent) != 4 {
			t.Fatalf("sent at %v, want four copies", sent)
		}
		w.wantDeadline(tenure, sent[3]+usable)
	})
}

// DESIGN 5, unknown outcome: the next seq is only asked for when the one before is
// known. A process that skips one finds its own session refused.
func TestSeqIsNeverSkipped(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p")
		tenure := p.acquire("a")
		last := int64(0)
		var mu sync.Mutex
		p.view.Observe(func(r memory.Request) {
			if r.Op != memory.OpRenew || r.Answered {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if r.Seq != last && r.Seq != last+1 {
				t.Errorf("renewal %d is sent after %d", r.Seq, last)
			}
			last = r.Seq
		})
		for i, mode := range []memory.Mode{memory.LoseAnswer, memory.Lose, memory.Late, memory.SlowAnswer, memory.Slow} {
			p.view.Inject(memory.Fault{Op: memory.OpRenew, Mode: mode, Delay: timeout + timeout/10})
			if i%2 == 0 { // and the read-back fails, too
				p.view.Inject(memory.Fault{Op: memory.OpSession, Mode: memory.Hang})
			}
			w.pass(2 * renewal)
			w.wantState(tenure, ownership.Held)
		}
		w.pass(renewal)
		w.settled(p)
	})
}

// DESIGN 2, time: "two lost renewals in a row must not end a tenure", nor put it in
// doubt, though their read-backs are lost with them: 3 · interval + request timeout
// fit into what is usable, and a copy with its read-back takes one interval.
func TestTwoLostRenewalsChangeNothing(t *testing.T) {
	for name, request := range map[string]time.Duration{"TimeoutBelowInterval": renewal / 2, "TimeoutIsInterval": renewal} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(w *world) {
				p := w.process("p", func(c *lease.Config) { c.Timing.RequestTimeout = request })
				tenure := p.acquire("a")
				copies := 0
				p.view.Observe(func(r memory.Request) {
					if r.Op == memory.OpRenew && !r.Answered {
						if copies++; copies == 3 {
							p.view.Heal()
						}
					}
				})
				w.pass(renewal - time.Millisecond)
				p.view.Cut()
				w.pass(2 * usable)
				w.wantState(tenure, ownership.Held)
				if w.counts.Suspects > 0 {
					t.Errorf("in doubt %d times", w.counts.Suspects)
				}
			})
		})
	}
}

// DESIGN 2.1, 2.3, 2.5: Suspect stops work at once; proof makes it Held again, under
// the same token and in a new period, as long as nobody was let in.
func TestDoubtAndProof(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p")
		tenure := p.acquire("a")
		work, token := tenure.Context(), tenure.Token()
		p.crash()
		w.pass(usable)
		w.wantState(tenure, ownership.Suspect)
		if cause := context.Cause(work); !errors.Is(cause, ownership.ErrSuspect) || !errors.Is(cause, ownership.ErrExpired) {
			t.Errorf("the work was cancelled because of %v", cause)
		}
		p.view.Heal() // the session has two seconds left
		w.pass(2 * timeout)
		w.wantState(tenure, ownership.Held)
		if tenure.Token() != token || tenure.Context().Err() != nil || work.Err() == nil {
			t.Errorf("token %d, new context %v, old context %v", tenure.Token(), tenure.Context().Err(), work.Err())
		}
	})
}

// DESIGN 2.3, 8.5: without a network a tenure is in doubt by its safe deadline and
// lost by the hard deadline plus the grace.
func TestSilenceEndsInLoss(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p")
		tenure := p.acquire("a")
		p.crash()
		w.pass(usable - time.Millisecond)
		w.wantState(tenure, ownership.Held)
		time.Sleep(time.Millisecond)
		w.wantState(tenure, ownership.Suspect)
		time.Sleep(2*ttl - usable - time.Millisecond)
		w.wantState(tenure, ownership.Suspect)
		time.Sleep(time.Millisecond)
		w.wantLost(tenure, ownership.ErrExpired)
		w.pass(3 * timeout)
		if id := p.Session(); id != "" {
			t.Errorf("session %s goes on without proof", id)
		}
	})
}

// DESIGN 5, unknown outcome of a renewal, "no row or dead → lost"; etcd#15247: the
// authority drops the session early. The next claim opens another one.
func TestRefusedRenewalEndsTheSession(t *testing.T) {
	for name, by := range map[string]func(w *world, s lease.Session){
		"Killed":  func(w *world, s lease.Session) { w.store.Kill(context.Background(), s.ID, &s.Seq, 0) },
		"Deleted": func(w *world, s lease.Session) { w.store.End(context.Background(), s) },
		"RenewedByAnother": func(w *world, s lease.Session) {
			s.Seq++
			w.store.Renew(context.Background(), s, lease.ID{})
			s.Seq++
			w.store.Renew(context.Background(), s, lease.ID{})
		},
	} {
		for answer, lost := range map[string]bool{"Refused": false, "ReadBack": true} {
			t.Run(name+"/"+answer, func(t *testing.T) {
				scenario(t, func(w *world) {
					p := w.process("p")
					a, b := p.acquire("a"), p.acquire("b")
					old := p.Session()
					by(w, w.session(w.row("a").Session))
					if lost {
						p.view.Inject(memory.Fault{Op: memory.OpRenew, Mode: memory.LoseAnswer, Times: -1})
					}
					w.pass(renewal)
					w.wantLost(a, ownership.ErrRefused)
					w.wantLost(b, ownership.ErrRefused)
					p.view.Heal()
					if n := p.count(memory.OpRenew); n != 1 {
						t.Errorf("%d renewals, want none after the refusal", n)
					}
					for _, tenure := range []*ownership.Tenure{a, b} {
						if err := tenure.Release(w.within(time.Minute)); err != nil {
							t.Errorf("its grant is nobody's, and yet: %v", err)
						}
					}
					p.acquire("c")
					if id := p.Session(); id == "" || id == old {
						t.Errorf("session %q after %q", id, old)
					}
				})
			})
		}
	}
}

// DESIGN 5, open: "A session id is never inserted a second time: after an unknown
// outcome that does not resolve, a fresh id."
func TestSessionIDIsInsertedOnce(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p")
		seen := map[lease.ID]bool{}
		p.view.Observe(func(r memory.Request) {
			if r.Op == memory.OpOpen && !r.Answered {
				if seen[r.Session] {
					t.Errorf("session %s is inserted again", r.Session)
				}
				seen[r.Session] = true
			}
		})
		p.view.Inject(memory.Fault{Op: memory.OpOpen, Mode: memory.Lose, Times: 2})
		p.view.Inject(memory.Fault{Op: memory.OpOpen, Mode: memory.Late, Delay: time.Second, Nth: 3})
		p.view.Inject(memory.Fault{Op: memory.OpOpen, Mode: memory.LoseAnswer, Nth: 4})
		p.view.Inject(memory.Fault{Op: memory.OpSession, Mode: memory.Lose, Nth: 4})
		tenure := p.acquire("a")
		if len(seen) != 5 {
			t.Errorf("%d ids, want 5", len(seen))
		}
		w.pass(2 * ttl)
		w.wantState(tenure, ownership.Held)
		for id := range seen {
			if alive := w.session(id).Alive(); alive != (id.String() == p.Session()) {
				t.Errorf("session %s: alive is %v; the process has %s", id, alive, p.Session())
			}
		}
	})
}

// A session whose opening was answered too late to be of use is not used.
func TestSessionOpenedTooLate(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p", func(c *lease.Config) {
			c.Timing = ownership.Timing{TTL: ttl, RenewEvery: timeout, RequestTimeout: 4 * timeout, Skew: skew, Margin: 2 * time.Second, Grace: ttl, Drain: ttl}
		})
		p.view.Inject(memory.Fault{Op: memory.OpOpen, Mode: memory.SlowAnswer, Delay: time.Minute})
		p.view.Inject(memory.Fault{Op: memory.OpSession, Mode: memory.SlowAnswer, Delay: 4*timeout - time.Millisecond})
		tenure := p.acquire("a")
		w.wantState(tenure, ownership.Held)
		if n := p.count(memory.OpOpen); n != 2 {
			t.Errorf("%d sessions were opened, want a second one", n)
		}
	})
}

// A claim that is granted while its session is in doubt waits for the proof.
func TestAcquireInDoubtWaitsForTheProof(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p")
		old := p.acquire("a")
		p.view.Inject(memory.Fault{Op: memory.OpRenew, Mode: memory.Lose, Times: -1})
		w.pass(usable + timeout/5)
		w.wantState(old, ownership.Suspect)
		time.AfterFunc(timeout/5, p.view.Heal) // the session has more than a second left
		tenure := p.try("b")
		w.wantState(tenure, ownership.Held)
		w.wantState(old, ownership.Held)
	})
}

// A session that ends while claims are under way ends these, too: none waits for a
// proof that will never come. Acquire goes on with another session.
func TestSessionEndsUnderAClaim(t *testing.T) {
	for name, meanwhile := range map[string]func(w *world, p *process){
		// The claim is applied after its session was found dead.
		"BeforeTheGrant": func(w *world, p *process) {
			w.pass(renewal - timeout/4)
			p.view.Observe(func(r memory.Request) {
				if r.Op == memory.OpClaim && !r.Answered {
					p.view.Observe(nil)
					s := w.session(w.row("a").Session)
					w.store.Kill(context.Background(), s.ID, &s.Seq, 0)
					time.Sleep(timeout / 2) // the renewal comes in between
				}
			})
		},
		// The claim is granted in doubt, and the doubt ends in a refusal.
		"AfterTheGrant": func(w *world, p *process) {
			p.view.Inject(memory.Fault{Op: memory.OpRenew, Mode: memory.Hang, Times: -1})
			w.pass(usable + timeout/2)
			time.AfterFunc(2*timeout, p.view.Heal)
		},
	} {
		t.Run(name+"/TryAcquire", func(t *testing.T) {
			scenario(t, func(w *world) {
				p := w.process("p")
				p.acquire("a")
				meanwhile(w, p)
				if got, err := p.TryAcquire(w.within(10*time.Minute), "b"); got != nil || !errors.Is(err, ownership.ErrRefused) {
					t.Errorf("TryAcquire: %v, %v; want a refusal", got, err)
				}
			})
		})
		t.Run(name+"/Acquire", func(t *testing.T) {
			scenario(t, func(w *world) {
				p := w.process("p")
				p.acquire("a")
				meanwhile(w, p)
				tenure, err := p.Acquire(w.within(10*time.Minute), "b")
				if err != nil {
					t.Fatal(err)
				}
				w.wantState(tenure, ownership.Held)
			})
		})
	}
}
