// Package ownership lets one process at a time own a named resource: a shard, a
// partition, the single instance of a job. An adapter, such as package cassandra,
// does that with a store which the service runs already.
//
//	err := ownership.Run(ctx, own, "shard-7", func(ctx context.Context, t *ownership.Tenure) error {
//		return serve(ctx, fence.StampOf(t)) // until ctx is cancelled; every write carries the stamp
//	})
//
// # Authority and fence
//
// The authority decides who owns a resource now. With every grant it hands out a
// [Token], a number that only grows. The fence stands on the resource's own side:
// it keeps the highest token it has accepted and refuses every lower one, in the
// same atomic step as the write (package fence).
//
// Both halves are needed. A lease alone makes sure that there is one owner
// eventually. A process that is paused for longer than its lease, by the garbage
// collector, by swap, by the migration of its machine, goes on where it stopped,
// and no check that it makes before a write helps if the pause comes right after
// the check. The fence needs no clock and no good behaviour: the late write
// carries an old token.
//
// # A tenure and its five states
//
// What is granted is a [Tenure]: one unbroken period of ownership, by one owner,
// under one token. It is never revived.
//
//	               Released
//	                  ▲
//	                  │
//	Acquiring ─────▶ Held ◀─────▶ Suspect
//	    │             │              │
//	    │             ▼              │
//	    └──────────▶ Lost ◀──────────┘
//
// What to do in each:
//
//   - Acquiring: claimed, but not proven yet. Wait; [Ownership].Acquire does.
//   - Held: work, and let every write carry the token.
//   - Suspect: it is not known whether the tenure is still ours, so it counts as
//     not ours. Stop at once. If the authority proves that nobody was let in
//     meanwhile, it is Held again under the same token, and what was read before
//     still stands. Settle writes whose outcome is unknown before the next one.
//   - Lost: over. Drop what was read, acquire again, and start from the beginning
//     under the new token.
//   - Released: given back by its owner. As Lost, but nothing is wrong.
//
// [Tenure.Context] belongs to one period of Held. It is cancelled the moment that
// period ends, and context.Cause tells why, as a *[NotHeldError].
//
// # How long a tenure can be trusted
//
// The authority lets a rival in no earlier than one TTL after it got a renewal.
// The owner counts from before the renewal was sent, and stops earlier:
//
//	safe deadline = sent + TTL − granularity − clock skew − margin
//
// Past that moment a tenure is Suspect; past the hard deadline (sent + TTL) and a
// grace it is Lost. No answer of the network is needed for either: a timer of the
// tenure's own fires, and every method looks at the clock first, so a process
// that wakes up late reads "not held" before anything else. On Linux that clock
// goes on while the machine is suspended. Timers do not: after a suspend a bare
// select on Done may be told late, by up to the time between two renewals, while
// State, Ensure and the context's Err are right at once.
//
// [Timing] holds these durations. Validate proves that two renewals in a row may
// be lost, and says what is wrong with a configuration under which that is not so.
//
// # When something fails
//
//   - The authority is slow or away: renewals are repeated; work goes on until the
//     safe deadline, stops in Suspect, and starts again if a renewal succeeds.
//   - The process dies: its resources are free one TTL later. A process that ends
//     in order calls Close, and they are free at once.
//   - The work hangs while the process lives: the watchdog. [Tenure.Progress] is
//     the sign of life, [Timing].Stall how long it may be missing.
//   - An operator takes a resource away: the tenure is Lost with [ErrRevoked].
//   - A request is sent and no answer comes: its outcome is unknown, which is
//     neither success nor failure. [ErrUnknown] says so, and the library goes on
//     asking in the background; it never guesses.
//   - The fence answers stale: a newer owner is at work. Stop.
//
// The end of a tenure has an order, whatever causes it: not held, work cancelled,
// work ended, grant given back. Work that ignores its cancelled context delays
// the last step until the deadline that it was told, and no longer.
//
// # Run, or Acquire and Release
//
// [Run] is the whole loop: acquire, work, stop in doubt, start again, acquire
// again after a loss, release. Use it unless the work has a structure of its own.
// Without it:
//
//	t, err := own.Acquire(ctx, "shard-7")
//	if err != nil {
//		return err
//	}
//	defer t.Release(context.WithoutCancel(ctx)) // also after a loss: it says that the work has ended
//	return work(t.Context(), t)
//
// One thing is up to the caller then: call Release when the work has ended, not
// before. Close waits for it.
//
// # Watching it
//
// [Hooks] hear of every transition, claim, renewal and unknown outcome: one small
// interface an event, see [HookTransition] and its neighbours. [NewLogHook] writes
// them to log/slog under stable keys. Worth an alert: transitions to Suspect or
// Lost, a small Remaining after renewals, unknown outcomes that stay unresolved,
// and stale verdicts of a fence.
//
// [ExitOnLoss] ends the process on a loss, for work that cannot be cancelled.
//
// # When not to use it
//
//   - One conditional write would do: then make it, without an owner.
//   - Many short critical sections: a grant costs the authority a round of
//     consensus. Own a shard for hours, not a record for milliseconds.
//   - A resource that cannot check a token, where two writers at once would do
//     harm: there is no fence, so a paused process can still do it. A short TTL,
//     [Tenure.Ensure] right before each effect and [ExitOnLoss] make that rare,
//     not impossible.
//   - Fairness: whoever asks first after a release may win.
//
// # Errors
//
// Every error matches one of the Err… variables with errors.Is, or is a context's.
// Those with details are types for errors.As: [*NotHeldError], [*HeldError],
// [*InvalidError]. Bad input is reported all at once, before anything is touched.
//
// # Adapters
//
// A store with compare-and-set, a time to live and linearizable reads becomes an
// Ownership by implementing lease.Store (package lease). Anything else drives its
// tenures with a [Driver]. Package ownershiptest is the suite that both must pass.
package ownership
