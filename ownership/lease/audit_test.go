package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
)

// DESIGN 5: "Owners audit their rows once a minute by plain reads (hand edits,
// TRUNCATE, restores): a mismatch is Lost." The session and the others go on.
func TestAudit(t *testing.T) {
	for name, edit := range map[string]func(w *world, g lease.Grant){
		"RowGone": func(w *world, g lease.Grant) {
			w.store.Release(context.Background(), w.store.Bucket("a"), []lease.Grant{g})
		},
		"AnotherSession": func(w *world, g lease.Grant) {
			w.stray("a", lease.NewID())
		},
		"AnotherAttempt": func(w *world, g lease.Grant) {
			w.stray("a", g.Session)
		},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(w *world) {
				p := w.process("p")
				a, b := p.acquire("a"), p.acquire("b")
				edit(w, w.row("a"))
				w.pass(2*time.Minute + time.Second) // the first round may have begun without them
				w.wantLost(a, ownership.ErrRefused)
				w.wantState(b, ownership.Held)
				if n := p.count(memory.OpPeek); n > 2+4 {
					t.Errorf("%d plain reads to claim two rows and look at them twice", n)
				}
			})
		})
	}
}

// Token and session of a row are compared, too: a restored row may have the same
// attempt and not be the same.
func TestAuditComparesTokenAndSession(t *testing.T) {
	for name, change := range map[string]func(g *lease.Grant){
		"Token":   func(g *lease.Grant) { g.Token++ },
		"Session": func(g *lease.Grant) { g.Session = lease.NewID() },
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(w *world) {
				p := w.process("p", func(c *lease.Config) { c.Store = &editedRows{c.Store, change} })
				tenure := p.acquire("a")
				w.pass(2*time.Minute + time.Second)
				w.wantLost(tenure, ownership.ErrRefused)
			})
		})
	}
}

// editedRows shows every row that is taken with a change.
type editedRows struct {
	lease.Store
	change func(*lease.Grant)
}

func (e *editedRows) Peek(ctx context.Context, bucket string, resources []string) (lease.Bucket, error) {
	return e.Grants(ctx, bucket, resources)
}

func (e *editedRows) Grants(ctx context.Context, bucket string, resources []string) (lease.Bucket, error) {
	b, err := e.Store.Grants(ctx, bucket, resources)
	for r, g := range b.Rows {
		if !g.Free() {
			e.change(&g)
			b.Rows[r] = g
		}
	}
	return b, err
}

// A plain read may be old, so it convicts nobody.
func TestAuditByAnOldReadConvictsNobody(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.alter("p", func(a *altered) {
			a.peek = func(_ context.Context, bucket string, _ []string) (lease.Bucket, error) {
				return lease.Bucket{Name: bucket}, nil // from before the claim
			}
		})
		tenure := p.acquire("a")
		w.pass(3 * time.Minute)
		w.wantState(tenure, ownership.Held)
	})
}

// DESIGN 5: "The owner releases any row that names its session with an attempt that
// it does not know": when it claims the resource, and when it gives a grant back
// that was replaced by such a row.
func TestOwnerRemovesStrays(t *testing.T) {
	for name, opts := range stores {
		t.Run(name+"/AtTheClaim", func(t *testing.T) {
			scenarioOn(t, opts, func(w *world) {
				p := w.process("p")
				p.acquire("b")
				c := w.stray("a", w.row("b").Session)
				tenure := p.try("a")
				if g := w.row("a"); g.Attempt == c.Attempt || tenure.Token() <= c.Next {
					t.Errorf("the row is %+v, the tenure has token %d after %d", g, tenure.Token(), c.Next)
				}
			})
		})
		t.Run(name+"/AtTheRelease", func(t *testing.T) {
			scenarioOn(t, opts, func(w *world) {
				p := w.process("p")
				tenure := p.acquire("a")
				w.stray("a", w.row("a").Session)
				w.release(tenure)
				if g := w.row("a"); !g.Free() {
					t.Errorf("the row is %+v, and its session lives", g)
				}
			})
		})
	}
}
