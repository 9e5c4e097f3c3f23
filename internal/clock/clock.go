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
	now func() time.Time
}

// Now returns the current instant.
func (c Clock) Now() time.Time { return c.now() }

// Until returns how long it is until t, an instant of this clock.
func (c Clock) Until(t time.Time) time.Duration { return t.Sub(c.now()) }

// Valid reports whether c was made by this package.
func (c Clock) Valid() bool { return c.now != nil }

// Wall turns an instant of this clock into an ordinary time.Time, good for
// time.Until now: between a suspend and the next call the two may drift.
func (c Clock) Wall(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.Now().Add(c.Until(t))
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
			return Clock{now: time.Now}
		}
		after := time.Now()
		if real.After(before.Add(-bubbleGap)) && real.Before(after.Add(bubbleGap)) {
			return bootClock(time.Now(), boottime)
		}
	}
	return Clock{now: time.Now}
}

// bubbleGap is far above any step that happens between two readings and far
// below the distance between a bubble's year 2000 and today.
const bubbleGap = 24 * time.Hour

// bootClock counts from base by what since reports; it falls back to time.Now
// when the boot time clock cannot be read.
func bootClock(base time.Time, since func() (time.Duration, bool)) Clock {
	start, ok := since()
	if !ok {
		return Clock{now: time.Now}
	}
	base = base.Round(0) // drop Go's monotonic reading, which stands still in suspend
	return Clock{now: func() time.Time {
		d, _ := since()
		return base.Add(d - start)
	}}
}

// Manual is a clock for tests that suspend the machine: time passes, timers do
// not fire.
type Manual struct {
	skipped atomic.Int64
}

// Clock returns the clock that m drives.
func (m *Manual) Clock() Clock {
	return Clock{now: func() time.Time {
		return time.Now().Add(time.Duration(m.skipped.Load()))
	}}
}

// Suspend lets d pass for everybody who reads the clock, without any timer
// noticing: what a process sees on waking from a suspend of d.
func (m *Manual) Suspend(d time.Duration) { m.skipped.Add(int64(d)) }
