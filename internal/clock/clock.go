// Package clock is the one seam through which Tenure reads time.
//
// A lease is measured on a clock that goes on while the machine is suspended:
// CLOCK_BOOTTIME on Linux. Go's own monotonic clock stands still there, and a
// process would wake up believing in a lease that ended hours ago. Inside a
// testing/synctest bubble CLOCK_BOOTTIME is the real clock while timers follow
// the bubble's, so there, and where no boot time clock exists, time.Now serves.
package clock

import (
	"sync/atomic"
	"time"
)

// Clock tells the time. The zero value is not usable; see [System] and [Manual].
//
// Its instants are for comparison with other instants of the same Clock only:
// they count elapsed time, and a step of the wall clock does not move them.
type Clock struct {
	now  func() time.Time
	wall func(time.Time) time.Time
}

// Now returns the current instant.
func (c Clock) Now() time.Time { return c.now() }

// Until returns how long it is until t, an instant of this clock.
func (c Clock) Until(t time.Time) time.Duration { return t.Sub(c.now()) }

// Valid reports whether c was made by this package.
func (c Clock) Valid() bool { return c.now != nil }

// Wall turns an instant of this clock into an ordinary time.Time, good for
// time.Until until the next suspend of the machine. Between two suspends one
// instant always gives the same answer, so deadlines that only grow still only
// grow when they are shown.
func (c Clock) Wall(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return c.wall(t)
}

// runtimeClock is Go's own clock. Its instants are ordinary ones already.
func runtimeClock() Clock {
	return Clock{now: time.Now, wall: func(t time.Time) time.Time { return t }}
}

// System returns the clock that production code uses.
//
// Whether it runs inside a synctest bubble is decided when it is called: a
// bubble's time starts in the year 2000, so the two clocks disagree by decades.
func System() Clock {
	for range 3 { // a step of the wall clock between two readings must not decide
		before := time.Now()
		real, ok := realtime()
		if !ok {
			return runtimeClock()
		}
		after := time.Now()
		if real.After(before.Add(-bubbleGap)) && real.Before(after.Add(bubbleGap)) {
			return bootClock(boottime)
		}
	}
	return runtimeClock()
}

// bubbleGap is far above any step that happens between two readings and far
// below the distance between a bubble's year 2000 and today.
const bubbleGap = 24 * time.Hour

// bootClock counts from now by what read reports, the time since boot.
func bootClock(read func() (time.Duration, bool)) Clock {
	c := &awake{read: read}
	for range 10 { // until both clocks were read at one instant, near enough
		c.base = time.Now()
		boot, ok := read()
		if !ok {
			return runtimeClock()
		}
		c.boot = boot
		if time.Since(c.base) < slack/10 {
			break
		}
	}
	return Clock{now: c.now, wall: c.wall}
}

// slack is how far two readings may lie apart and still count as one instant. It
// is small against any margin of a lease, and large against two system calls.
const slack = time.Millisecond

// awake relates the boot time clock to Go's, which stands still in a suspend.
type awake struct {
	base   time.Time // with Go's monotonic reading
	boot   time.Duration
	read   func() (time.Duration, bool)
	asleep atomic.Int64 // by how much the boot time clock has gone further than Go's
}

func (c *awake) now() time.Time {
	elapsed, ok := c.elapsed()
	if !ok {
		// It worked once, so somebody has forbidden it since. Never stand still:
		// a lease would look eternal.
		elapsed = time.Since(c.base) + time.Duration(c.asleep.Load())
	}
	return c.base.Round(0).Add(elapsed) // Round drops Go's monotonic reading
}

func (c *awake) elapsed() (time.Duration, bool) {
	now, ok := c.read()
	return now - c.boot, ok
}

func (c *awake) wall(t time.Time) time.Time {
	// The boot time is read between two readings of Go's clock, so the truth lies
	// between low and high. While the known value fits, it stays: measured anew
	// each time, a deadline would jitter backwards.
	before := time.Since(c.base)
	elapsed, ok := c.elapsed()
	after := time.Since(c.base)
	known := time.Duration(c.asleep.Load())
	if low, high := elapsed-after, elapsed-before; ok && (known < low-slack || known > high+slack) {
		known = high // rather too early a deadline than too late
		c.asleep.Store(int64(known))
	}
	return c.base.Add(t.Sub(c.base.Round(0)) - known)
}

// Manual is a clock for tests that suspend the machine: time passes, timers do
// not fire.
type Manual struct {
	skipped atomic.Int64
}

// Clock returns the clock that m drives.
func (m *Manual) Clock() Clock {
	return Clock{
		now:  func() time.Time { return time.Now().Add(m.asleep()) },
		wall: func(t time.Time) time.Time { return t.Add(-m.asleep()) },
	}
}

func (m *Manual) asleep() time.Duration { return time.Duration(m.skipped.Load()) }

// Suspend lets d pass for everybody who reads the clock, without any timer
// noticing: what a process sees on waking from a suspend of d.
func (m *Manual) Suspend(d time.Duration) { m.skipped.Add(int64(d)) }
