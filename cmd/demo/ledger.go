package main

import (
	"context"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/fence"
)

// A ledger is the table that the workers write to: one row that says what was
// written last, and by whom. It follows the contract of package fence, unless it
// is the unfenced one, which takes everything.
type ledger interface {
	// takeOver shows the token to the table and then reads what is there. In that
	// order: a late write must not land behind the reader's back.
	takeOver(ctx context.Context, s fence.Stamp) (entry, fence.Verdict, error)
	write(ctx context.Context, s fence.Stamp, value string) (fence.Verdict, error)
}

// A view is the parent's side of a ledger.
type view interface {
	// read is linearizable.
	read(ctx context.Context) (entry, error)
	// peek may be old. It does not get in the way of a write, which a
	// linearizable read can.
	peek(ctx context.Context) (entry, error)
}

// entry is the row. The zero entry: nothing was ever written.
type entry struct {
	value string
	by    ownership.Token // of the write
	fence ownership.Token // highest token shown to the table; 0 in an unfenced one
}
