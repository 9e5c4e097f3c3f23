package ownership_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

type hookFunc func(ownership.Transition)

func (f hookFunc) OnTransition(e ownership.Transition) { f(e) }

func withHooks(hooks ...ownership.Hook) func(*ownership.DriverConfig) {
	return func(cfg *ownership.DriverConfig) { cfg.Hooks = append(ownership.Hooks(hooks), cfg.Hooks...) }
}

// A hook may call back into the tenure, and cause the next event; every hook sees
// all events in the order of the tenure, after the state is stored.
func TestHooksSeeEventsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		var seen journal
		r = newRig(withHooks(&seen, nil, 7, hookFunc(func(e ownership.Transition) {
			if e.To == ownership.Held {
				if e.Tenure.State() != ownership.Held || e.Tenure.Ensure(0) != nil || e.Tenure.Context().Err() != nil {
					t.Error("the hook heard of Held before it was so")
				}
				if err := e.Tenure.Release(t.Context()); err != nil { // Free answers at once here
					t.Error(err)
				}
				if e.Tenure.State() != ownership.Released {
					t.Error("released in the hook, and it is", e.Tenure.State())
				}
			}
		})))
		r.prove()
		// r.log is called after the hook that released, and still hears Held first.
		r.log.expect(t, "free", "held", "released")
		seen.expect(t, "held", "released")
	})
}

// A hook that breaks its promise and panics costs its own event: the tenure goes
// on, and later events are told.
func TestHookThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		var log journal
		r = newRig(withHooks(&log, hookFunc(func(e ownership.Transition) {
			if e.To == ownership.Held {
				panic("hook")
			}
		})))
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			r.prove()
		}()
		wantState(t, r.tenure, ownership.Held)
		if err := r.tenure.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		log.expect(t, "held", "released")
	})
}

// exits records what its ExitOnLoss would have done.
type exits struct {
	mu    sync.Mutex
	codes []int
}

func (x *exits) hook(e ownership.ExitOnLoss) ownership.Hook {
	e.Exit = func(code int) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.codes = append(x.codes, code)
	}
	return e
}

func (x *exits) expect(t *testing.T, want ...int) {
	t.Helper()
	synctest.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	if !slices.Equal(x.codes, want) {
		t.Errorf("exits: %v, want %v", x.codes, want)
	}
}

func TestExitOnLoss(t *testing.T) {
	for _, c := range []struct {
		name string
		hook ownership.ExitOnLoss
		run  func(*rig)
		want int // exit status; 0: no exit
	}{
		{"refused", ownership.ExitOnLoss{}, func(r *rig) { r.prove(); r.Lose(ownership.ErrRefused) }, 1},
		{"its own status", ownership.ExitOnLoss{Code: 3}, func(r *rig) { r.prove(); r.Lose(ownership.ErrRefused) }, 3},
		{"expired", ownership.ExitOnLoss{}, func(r *rig) { r.prove(); <-r.tenure.Done() }, 1},
		{"in doubt to the end", ownership.ExitOnLoss{}, func(r *rig) { r.prove(); r.Doubt(errNetwork); <-r.tenure.Done() }, 1},
		{"in doubt", ownership.ExitOnLoss{}, func(r *rig) { r.prove(); r.Doubt(errNetwork) }, 0},
		{"in doubt, OnSuspect", ownership.ExitOnLoss{OnSuspect: true}, func(r *rig) { r.prove(); r.Doubt(errNetwork) }, 1},
		{"released", ownership.ExitOnLoss{OnSuspect: true}, func(r *rig) { r.prove(); _ = r.tenure.Release(ended()) }, 0},
		{"released in doubt", ownership.ExitOnLoss{}, func(r *rig) { r.prove(); r.Doubt(errNetwork); _ = r.tenure.Release(ended()) }, 0},
		{"closed in doubt", ownership.ExitOnLoss{}, func(r *rig) { r.prove(); r.Doubt(errNetwork); r.End(ownership.ErrClosed) }, 0},
		{"never held", ownership.ExitOnLoss{OnSuspect: true}, func(r *rig) { r.Lose(ownership.ErrRefused) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x exits
				r := newRig(withHooks(x.hook(c.hook)))
				c.run(r)
				if c.want == 0 {
					x.expect(t)
				} else {
					x.expect(t, c.want)
				}
				r.Abandon(ownership.ErrClosed)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // with time to stop by itself
		var x exits
		r := held(withHooks(x.hook(ownership.ExitOnLoss{After: 5 * time.Second})))
		r.Lose(ownership.ErrRefused)
		time.Sleep(5*time.Second - 1)
		x.expect(t)
		time.Sleep(time.Nanosecond)
		x.expect(t, 1)
		_ = r.tenure.Release(ended())
	})
}

// The keys and messages of the log are an interface: alerts rely on them.
func TestLogHook(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
	hooks := ownership.Hooks{ownership.NewLogHook(log)}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(withHooks(hooks...))
		r.prove()
		time.Sleep(2 * time.Second)
		r.Doubt(errNetwork)
		time.Sleep(time.Second)
		r.prove()
		_ = r.tenure.Release(t.Context())
		r = held(withHooks(hooks...))
		r.Lose(ownership.ErrRevoked)
		_ = r.tenure.Release(t.Context())
	})
	owner := ownership.Owner{Name: "worker", Nonce: "01"}
	ownership.Each(hooks, func(h ownership.HookClaim) {
		h.OnClaim(ownership.ClaimEvent{Resources: []string{"a", "b"}, Owner: owner, Token: 8, Outcome: ownership.Applied, Latency: time.Millisecond})
		h.OnClaim(ownership.ClaimEvent{Resources: []string{"a"}, Owner: owner, Latency: time.Second, Err: errNetwork})
	})
	ownership.Each(hooks, func(h ownership.HookRenewal) {
		e := ownership.RenewalEvent{Session: "s", Owner: owner, Outcome: ownership.Applied, Latency: time.Millisecond, Remaining: 9 * time.Second, Tenures: 1000}
		h.OnRenewal(e)
		e.Outcome, e.Err = ownership.Unknown, errNetwork
		h.OnRenewal(e)
	})
	ownership.Each(hooks, func(h ownership.HookSession) {
		h.OnSession(ownership.SessionEvent{Session: "s", Owner: owner, Open: true})
		h.OnSession(ownership.SessionEvent{Session: "s", Owner: owner})
		h.OnSession(ownership.SessionEvent{Session: "s", Owner: owner, Cause: ownership.ErrRefused})
	})
	ownership.Each(hooks, func(h ownership.HookUnknown) {
		h.OnUnknown(ownership.UnknownEvent{Op: "claim", Resource: "a", Err: errNetwork})
		h.OnUnknown(ownership.UnknownEvent{Op: "claim", Resource: "a", Resolved: ownership.NotApplied})
	})
	const want = `
level=INFO msg="tenure held" resource=shard-7 owner=worker#01 token=7 from=acquiring to=held remaining=10s in_state=0s
level=WARN msg="tenure suspect" resource=shard-7 owner=worker#01 token=7 from=held to=suspect remaining=8s in_state=2s cause="no route to the authority"
level=INFO msg="tenure held" resource=shard-7 owner=worker#01 token=7 from=suspect to=held remaining=10s in_state=1s
level=INFO msg="tenure released" resource=shard-7 owner=worker#01 token=7 from=held to=released remaining=10s in_state=0s cause="the tenure was released"
level=INFO msg="tenure held" resource=shard-7 owner=worker#01 token=7 from=acquiring to=held remaining=10s in_state=0s
level=WARN msg="tenure lost" resource=shard-7 owner=worker#01 token=7 from=held to=lost remaining=10s in_state=0s cause="the tenure was revoked by an operator"
level=DEBUG msg=claim resources="[a b]" owner=worker#01 token=8 outcome=applied latency=1ms
level=WARN msg=claim resources=[a] owner=worker#01 token=0 outcome=unknown latency=1s error="no route to the authority"
level=DEBUG msg=renewal session=s owner=worker#01 outcome=applied latency=1ms remaining=9s tenures=1000
level=WARN msg=renewal session=s owner=worker#01 outcome=unknown latency=1ms remaining=9s tenures=1000 error="no route to the authority"
level=INFO msg="session opened" session=s owner=worker#01
level=INFO msg="session ended" session=s owner=worker#01
level=WARN msg="session ended" session=s owner=worker#01 cause="the authority refused the lease"
level=WARN msg="outcome unknown" op=claim resource=a outcome=unknown error="no route to the authority"
level=INFO msg="unknown outcome resolved" op=claim resource=a outcome="not applied"
`
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	lines := strings.Split(strings.TrimSpace(want), "\n")
	for i := range max(len(got), len(lines)) {
		var g, w string
		if i < len(got) {
			g = got[i]
		}
		if i < len(lines) {
			w = lines[i]
		}
		if g != w {
			t.Errorf("line %d\ngot  %s\nwant %s", i+1, g, w)
		}
	}
}

func TestLogHookWithoutALogger(t *testing.T) {
	var out bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(old)
	ownership.NewLogHook(nil).(ownership.HookSession).OnSession(ownership.SessionEvent{Session: "s", Open: true})
	if !strings.Contains(out.String(), "session opened") {
		t.Errorf("the default logger got %q", out.String())
	}
}
