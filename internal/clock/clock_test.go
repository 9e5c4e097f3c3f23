package clock

import (
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

// DESIGN 2, Time: Go's monotonic clock stands still during suspend, so elapsed
// time must come from the boot time clock alone.
func TestBootClockCountsBootTimeOnly(t *testing.T) {
	boot := 5 * time.Hour
	c := bootClock(time.Now(), func() (time.Duration, bool) { return boot, true })
	start := c.Now()
	boot += 3 * time.Hour // a suspend: no other clock of the process has moved
	if got := c.Now().Sub(start); got != 3*time.Hour {
		t.Fatalf("after a suspend of 3h the clock has moved %v", got)
	}
}

func TestBootClockFallsBack(t *testing.T) {
	c := bootClock(time.Now(), func() (time.Duration, bool) { return 0, false })
	if d := time.Since(c.Now()); d < 0 || d > time.Minute {
		t.Fatalf("without a boot time clock Now is %v away from time.Now", d)
	}
}

func TestSystemUsesBootTimeWhereThereIsOne(t *testing.T) {
	if _, ok := boottime(); !ok {
		t.Log("no boot time clock on this system; time.Now serves")
		return
	}
	if s := System().Now().String(); len(s) == 0 || containsMonotonic(s) {
		t.Fatalf("System().Now() carries Go's monotonic reading: %s", s)
	}
}

func containsMonotonic(s string) bool {
	for i := 0; i+2 < len(s); i++ {
		if s[i:i+3] == " m=" {
			return true
		}
	}
	return false
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
