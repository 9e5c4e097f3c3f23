package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// audit looks at every row of ours now and then. Only the session that a row
// names may change it, so a row that says otherwise was edited by hand, truncated
// or restored: that tenure is lost.
func (s *session) audit() {
	for {
		grants := s.carried()
		if len(grants) == 0 && !s.sleep(s.o.cfg.AuditEvery) {
			return
		}
		for _, g := range grants {
			if !s.sleep(s.o.cfg.AuditEvery / time.Duration(len(grants))) {
				return
			}
			s.auditOne(g)
		}
	}
}

func (s *session) auditOne(g *grant) {
	if g.over() {
		return
	}
	if _, differs := s.differs(s.o.store.Peek, g); !differs {
		return
	}
	row, differs := s.differs(s.o.store.Grants, g) // the plain read may have been old
	if !differs || g.over() {
		return
	}
	g.driver.Lose(fmt.Errorf("%w: the row of %s names attempt %s of %q under token %d, though only its own session may change it",
		ownership.ErrRefused, g.resource, row.Attempt, row.Owner, row.Token))
}

// over reports whether the tenure has ended. Its row may be gone then.
func (g *grant) over() bool { return g.driver.Tenure().State().Terminal() }

// differs reads the grant's row and reports whether it is known not to be as the
// claim wrote it.
func (s *session) differs(read func(context.Context, string, []string) (Bucket, error), g *grant) (Grant, bool) {
	rctx, cancel := s.o.request(s.o.background)
	defer cancel()
	state, err := read(rctx, g.bucket, []string{g.resource})
	if err != nil {
		return Grant{}, false
	}
	row, known := state.Row(g.resource)
	return row, known && (row.Attempt != g.attempt || row.Session != s.id || row.Token != g.token)
}
