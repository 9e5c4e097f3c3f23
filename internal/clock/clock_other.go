//go:build !linux

package clock

import "time"

func boottime() (time.Duration, bool) { return 0, false }

func realtime() (time.Time, bool) { return time.Time{}, false }
