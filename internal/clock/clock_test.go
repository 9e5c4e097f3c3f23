package clock

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestSystemFollowsTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := System()
		start := c.Now()
		time.Sleep(time.Hour)
		if got := c.Now().Sub(start); got != time.Hour {
			t.Fatalf("an hour of the bubble's time took %v on the clock", got)
		}
	})
}

// fakeBoot is a boot time clock that a test moves: it follows Go's clock and can
// be suspended, or taken away.
type fakeBoot struct {
	asleep time.Duration
	start  time.Time
	gone   bool
}

func (f *fakeBoot) read() (time.Duration, bool) {
	if f.gone {
		return 0, false
	}
	return 5*time.Hour + time.Since(f.start) + f.asleep, true
}

// DESIGN 2, Time: Go's monotonic clock stands still during suspend, so elapsed
// time must come from the boot time clock alone.
func TestBootClockCountsASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boot := fakeBoot{start: time.Now()}
		c := bootClock(boot.read)
		start := c.Now()
		time.Sleep(time.Minute)
		boot.asleep = 3 * time.Hour // no other clock of the process has moved
		if got := c.Now().Sub(start); got != 3*time.Hour+time.Minute {
			t.Fatalf("after 1m awake and a suspend of 3h the clock has moved %v", got)
		}
		if s := c.Now().String(); strings.Contains(s, " m=") {
			t.Fatalf("Now carries Go's monotonic reading, which Sub would prefer: %s", s)
		}
	})
}

func TestBootClockFallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bootClock((&fakeBoot{gone: true}).read)
		if !c.Now().Equal(time.Now()) {
			t.Fatalf("without a boot time clock Now is %v, not %v", c.Now(), time.Now())
		}
	})
}

// A sandbox may forbid the system call later on. The clock must not stand still,
// nor fall back behind a suspend that it has seen.
func TestBootClockThatIsTakenAwayGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boot := fakeBoot{start: time.Now()}
		c := bootClock(boot.read)
		start := c.Now()
		boot.asleep = time.Hour
		c.Wall(start) // sees the suspend
		boot.gone = true
		time.Sleep(time.Minute)
		if got := c.Now().Sub(start); got != time.Hour+time.Minute {
			t.Fatalf("the clock has moved %v, want 1h1m", got)
		}
	})
}

func TestWallAcrossASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boot := fakeBoot{start: time.Now()}
		c := bootClock(boot.read)
		at := c.Now().Add(10 * time.Second)
		if got := time.Until(c.Wall(at)); got != 10*time.Second {
			t.Fatalf("before the suspend: time.Until(Wall) = %v, want 10s", got)
		}
		boot.asleep = time.Minute
		if got := time.Until(c.Wall(at)); got != -50*time.Second {
			t.Fatalf("after a suspend of 1m: time.Until(Wall) = %v, want -50s", got)
		}
	})
}

// DESIGN 2.5: a deadline never moves backwards, not even by the nanoseconds
// between two readings of two clocks.
func TestWallDoesNotJitter(t *testing.T) {
	c := System()
	at := c.Now().Add(time.Hour)
	first := c.Wall(at)
	for range 10_000 {
		if again := c.Wall(at); !again.Equal(first) {
			t.Fatalf("Wall of one instant was %v and is %v", first, again)
		}
	}
}

func TestSystemUsesBootTimeWhereThereIsOne(t *testing.T) {
	if _, ok := boottime(); !ok {
		t.Skip("no boot time clock on this system; time.Now serves")
	}
	if s := System().Now().String(); strings.Contains(s, " m=") {
		t.Fatalf("System().Now() carries Go's monotonic reading: %s", s)
	}
}

func TestManualSuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Manual
		c := m.Clock()
		fired := false
		time.AfterFunc(time.Second, func() { fired = true })
		start := c.Now()
		m.Suspend(time.Minute)
		synctest.Wait()
		if c.Now().Sub(start) != time.Minute || fired {
			t.Fatalf("elapsed %v, timer fired %v; want 1m and false", c.Now().Sub(start), fired)
		}
	})
}

func TestWallIsGoodForUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Manual
		c := m.Clock()
		m.Suspend(time.Hour)
		at := c.Now().Add(10 * time.Second)
		if got := time.Until(c.Wall(at)); got != 10*time.Second {
			t.Fatalf("time.Until(Wall) = %v, want 10s", got)
		}
		if !c.Wall(time.Time{}).IsZero() {
			t.Fatal("Wall of the zero time is not zero")
		}
	})
}
