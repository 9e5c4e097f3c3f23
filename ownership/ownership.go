package ownership

import (
	"context"
	"iter"
)

// Ownership hands out tenures. Implementations come from an adapter, such as
// package cassandra, or from package memory for tests; all of them pass package
// ownershiptest. All methods are safe for concurrent use and return when ctx
// ends, whatever the network does.
type Ownership interface {
	// Acquire waits until the resource is ours. Errors: ctx's, [ErrClosed],
	// [ErrInvalid]. Trouble with the authority is waited out, so bound ctx if
	// that should end. A ctx that ends leaves no grant behind: what was under
	// way is resolved in the background.
	Acquire(ctx context.Context, resource string) (*Tenure, error)

	// TryAcquire makes one attempt. If somebody holds the resource, another
	// tenure of this process included, the error is a *[HeldError]. One that is
	// [ErrUnknown] says that the attempt was sent and ctx ended before its
	// outcome was known; it is undone in the background.
	TryAcquire(ctx context.Context, resource string) (*Tenure, error)

	// Holder returns who holds the resource: a linearizable read. Vacancy is an
	// answer, not an error.
	Holder(ctx context.Context, resource string) (Holder, error)

	// Watch yields the holder now, and again whenever it has changed, until ctx
	// ends. A slow reader misses states in between but always gets the latest,
	// and never an older one after a newer. An error is yielded and the watch
	// goes on; [ErrClosed] and [ErrInvalid] end it.
	Watch(ctx context.Context, resource string) iter.Seq2[Holder, error]

	// Close ends everything, in this order: no tenure is held any more, all work
	// is cancelled, waits until it has ended (each tenure's Release is called,
	// or its body of [Run] has returned), gives the grants back. If ctx, or
	// [Timing].Drain, ends first, grants whose work has not ended are left to
	// run out with the session, and the error is [ErrDraining]. After Close no
	// goroutine is left. It is idempotent.
	Close(ctx context.Context) error
}
