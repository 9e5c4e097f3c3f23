package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

func boottime() (time.Duration, bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}

func realtime() (time.Time, bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return time.Time{}, false
	}
	return time.Unix(ts.Unix()), true
}
