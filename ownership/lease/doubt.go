package lease

import "github.com/tenure-go/tenure/ownership"

// doubt follows one change that may have to be sent more than once. The hooks
// hear of every unknown answer, and once of what it came to; of a change that
// never met an unknown answer they hear nothing.
type doubt struct {
	o    *Ownership
	op   string
	on   string // resource or bucket; empty for sessions
	open bool
}

func (d *doubt) arises(err error) {
	d.open = true
	d.tell(err, ownership.Unknown)
}

// ends reports the resolution. While the outcome stays unknown it is not called.
func (d *doubt) ends(outcome ownership.Outcome) {
	if d.open {
		d.open = false
		d.tell(nil, outcome)
	}
}

func (d *doubt) tell(err error, resolved ownership.Outcome) {
	ownership.Each(d.o.hooks, func(h ownership.HookUnknown) {
		h.OnUnknown(ownership.UnknownEvent{Op: d.op, Resource: d.on, Err: err, Resolved: resolved})
	})
}
