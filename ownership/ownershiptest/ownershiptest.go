package ownershiptest

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// Harness says how to test one adapter.
type Harness struct {
	// New returns an authority for one test. Tests use fresh resource names, so
	// it need not be empty. It is called from within the test's bubble when
	// VirtualTime is set.
	New func(t *testing.T) Authority
	// Timing is what every process gets, unless a test needs otherwise; a test
	// may raise Margin or set Stall. Zero fields mean defaults. Several tests
	// wait out TTL + Grace, so keep TTL short; but three renewals must fit into
	// it comfortably on a busy machine. Granularity must be the authority's.
	Timing ownership.Timing
	// Declines lists what the adapter cannot do; its tests are skipped.
	Declines []Capability
	// VirtualTime runs each test in a testing/synctest bubble: for authorities
	// within this process. Otherwise tests run in parallel, in real time.
	VirtualTime bool
	// Packages are those whose goroutines must not outlive a Close, as prefixes
	// of functions' names in a stack; package ownership and below are added.
	Packages []string
}

// Authority starts a process on the authority of one test.
type Authority func(Spec) (*Process, error)

// Spec describes one process.
type Spec struct {
	Owner  string
	Timing ownership.Timing
	Hooks  ownership.Hooks
}

// Process is one Ownership as another process would have it, with what a test
// can do to it. A func may be nil if the capability that it belongs to is
// declined.
type Process struct {
	ownership.Ownership

	// Faults: Cut makes the authority unreachable for this process alone, in
	// silence; Heal ends that and every Fail. Fail hits the next n requests that
	// change something. Observe calls f for every request, when it is about to
	// be sent and when its answer is about to be returned.
	Cut, Heal func()
	Fail      func(mode Failure, n int)
	Observe   func(f func(Request))
	// Suspends: the process's clock jumps by d, without a timer noticing, as if
	// its machine had been suspended. The authority's time does not move.
	Suspend func(d time.Duration)
	// Drops: the authority forgets this process at once, and does not tell it.
	Drop func(ctx context.Context) error
	// Revokes: take a resource away from whoever holds it, as an operator.
	Revoke func(ctx context.Context, resource string) error
	// AcquiresMany: one attempt for many resources.
	TryAcquireMany func(ctx context.Context, resources []string) ([]*ownership.Tenure, error)
}

// Request is one request to the authority.
type Request struct {
	Change   bool // false: a read
	Answered bool // false: about to be sent
}

// Failure is what happens to a request.
type Failure string

// The failures that [Process].Fail knows.
const (
	LoseRequest Failure = "lose request" // not applied, unknown at once
	LoseAnswer  Failure = "lose answer"  // applied, unknown at once
	Late        Failure = "late"         // unknown at once, applied a moment later
	Reject      Failure = "reject"       // refused without being looked at
	Hang        Failure = "hang"         // not applied, unknown when its time is up
)

// Capability is something that not every adapter can do.
type Capability string

// The capabilities that tests ask for. See the fields of [Process].
const (
	Faults       Capability = "faults"
	Suspends     Capability = "suspends"
	Drops        Capability = "drops"
	Revokes      Capability = "revokes"
	AcquiresMany Capability = "acquires many"
)

// testCase is one test of the suite.
type testCase struct {
	name  string
	needs []Capability
	test  func(*env)
	// alone: it counts what all goroutines of the process share.
	alone bool
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	if h.New == nil {
		t.Fatal("ownershiptest.Harness.New must be set")
	}
	h.Timing = h.Timing.WithDefaults()
	if err := h.Timing.Validate(); err != nil {
		t.Fatalf("ownershiptest.Harness.Timing: %v", err)
	}
	h.Packages = append(slices.Clone(h.Packages), "github.com/tenure-go/tenure/ownership")
	if !h.VirtualTime {
		t.Cleanup(func() { checkLeaks(t, h.Packages) }) // after all parallel tests
	}
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range c.needs {
				if slices.Contains(h.Declines, n) {
					t.Skipf("not applicable: the adapter declines %q", n)
				}
			}
			if h.VirtualTime {
				synctest.Test(t, func(t *testing.T) { newEnv(t, h, c).run() })
				return
			}
			if !c.alone {
				t.Parallel()
			}
			newEnv(t, h, c).run()
		})
	}
}
