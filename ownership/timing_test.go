package ownership_test

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// usual is a Timing that validates, with no field at its default.
func usual() ownership.Timing {
	return ownership.Timing{
		TTL: 20 * time.Second, RenewEvery: 4 * time.Second, RequestTimeout: time.Second, Granularity: time.Second,
		Skew: 100 * time.Millisecond, Margin: 200 * time.Millisecond, Grace: 5 * time.Second, Drain: 6 * time.Second,
		Stall: 30 * time.Second,
	}
}

// DESIGN 2, Time, and 7: each fault alone is named, with its value, its rule and
// what to do, and nothing else is blamed.
func TestTimingFaults(t *testing.T) {
	const max, min = time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
	for _, c := range []struct {
		name   string
		change func(*ownership.Timing)
		want   []string // one prefix a fault
	}{
		{"fine", func(t *ownership.Timing) {}, nil},
		{"no watchdog, no skew, no granularity", func(t *ownership.Timing) { t.Stall, t.Skew, t.Granularity = 0, 0, 0 }, nil},
		{"exactly", func(t *ownership.Timing) { t.RenewEvery, t.RequestTimeout = 5*time.Second, 3700*time.Millisecond }, nil},
		{"one too many", func(t *ownership.Timing) { t.RenewEvery, t.RequestTimeout = 5*time.Second, 3700*time.Millisecond+1 },
			[]string{"Timing.RenewEvery is 5s: it must leave room for two lost renewals: 3 · RenewEvery + RequestTimeout = 3 · 5s + 3.700000001s" +
				" must be at most TTL − Granularity − Skew − Margin = 20s − 1s − 100ms − 200ms = 18.7s; raise TTL, or lower RenewEvery or RequestTimeout"}},
		{"zero TTL", func(t *ownership.Timing) { t.TTL = 0 }, []string{"Timing.TTL is 0s: it must be positive; set it, or leave it 0 for its default"}},
		{"negative TTL", func(t *ownership.Timing) { t.TTL = -1 }, []string{"Timing.TTL is -1ns: it must be positive"}},
		{"least TTL", func(t *ownership.Timing) { t.TTL = min }, []string{"Timing.TTL is -2562047h47m16.854775808s: it must be positive"}},
		{"enormous TTL", func(t *ownership.Timing) { t.TTL = max }, []string{"Timing.TTL is 2562047h47m16.854775807s: it must be at most 24h0m0s; check its unit"}},
		{"TTL below its granularity", func(t *ownership.Timing) { t.TTL = time.Second },
			[]string{"Timing.TTL is 1s: it must be at least Granularity + 100ms = 1.1s; raise TTL"}},
		{"nothing usable", func(t *ownership.Timing) { t.Skew = 19 * time.Second },
			[]string{"Timing.TTL is 20s: it must exceed Granularity + Skew + Margin = 1s + 19s + 200ms; raise TTL"}},
		{"zero RenewEvery", func(t *ownership.Timing) { t.RenewEvery = 0 }, []string{"Timing.RenewEvery is 0s: it must be positive"}},
		{"enormous RenewEvery", func(t *ownership.Timing) { t.RenewEvery = max }, []string{"Timing.RenewEvery is 2562047h47m16.854775807s: it must be at most"}},
		{"negative RequestTimeout", func(t *ownership.Timing) { t.RequestTimeout = min }, []string{"Timing.RequestTimeout is -2562047h47m16.854775808s: it must be positive"}},
		{"negative Granularity", func(t *ownership.Timing) { t.Granularity = min }, []string{"Timing.Granularity is -2562047h47m16.854775808s: it must not be negative; set it to 0 or more"}},
		{"enormous Granularity", func(t *ownership.Timing) { t.Granularity = max }, []string{"Timing.Granularity is 2562047h47m16.854775807s: it must be at most"}},
		{"negative Skew", func(t *ownership.Timing) { t.Skew = -1 }, []string{"Timing.Skew is -1ns: it must not be negative"}},
		{"enormous Skew", func(t *ownership.Timing) { t.Skew = max }, []string{"Timing.Skew is 2562047h47m16.854775807s: it must be at most"}},
		{"zero Margin", func(t *ownership.Timing) { t.Margin = 0 }, []string{"Timing.Margin is 0s: it must be positive"}},
		{"enormous Margin", func(t *ownership.Timing) { t.Margin = max }, []string{"Timing.Margin is 2562047h47m16.854775807s: it must be at most"}},
		{"negative Grace", func(t *ownership.Timing) { t.Grace = -1 }, []string{"Timing.Grace is -1ns: it must be positive"}},
		{"enormous Grace", func(t *ownership.Timing) { t.Grace = max }, []string{"Timing.Grace is 2562047h47m16.854775807s: it must be at most"}},
		{"zero Drain", func(t *ownership.Timing) { t.Drain = 0 }, []string{"Timing.Drain is 0s: it must be positive"}},
		{"enormous Drain", func(t *ownership.Timing) { t.Drain = 25 * time.Hour }, []string{"Timing.Drain is 25h0m0s: it must be at most"}},
		{"negative Stall", func(t *ownership.Timing) { t.Stall = -1 }, []string{"Timing.Stall is -1ns: it must not be negative"}},
		{"enormous Stall", func(t *ownership.Timing) { t.Stall = max }, []string{"Timing.Stall is 2562047h47m16.854775807s: it must be at most"}},
		{"a Stall of 30, of nothing", func(t *ownership.Timing) { t.Stall = 30 },
			[]string{"Timing.Stall is 30ns: it must be 0 or at least RenewEvery = 4s; raise it"}},
		{"faults that have nothing to do with each other", func(t *ownership.Timing) { t.Drain, t.Stall, t.RenewEvery = -1, 1, 7*time.Second },
			[]string{"Timing.Drain is -1ns", "Timing.RenewEvery is 7s: it must leave room", "Timing.Stall is 1ns"}},
		{"all at once, least", func(t *ownership.Timing) {
			*t = ownership.Timing{TTL: min, RenewEvery: min, RequestTimeout: min, Granularity: min, Skew: min, Margin: min, Grace: min, Drain: min, Stall: min}
		}, []string{"Timing.TTL", "Timing.RenewEvery", "Timing.RequestTimeout", "Timing.Granularity", "Timing.Skew", "Timing.Margin", "Timing.Grace", "Timing.Drain", "Timing.Stall"}},
		{"all at once, most", func(t *ownership.Timing) {
			*t = ownership.Timing{TTL: max, RenewEvery: max, RequestTimeout: max, Granularity: max, Skew: max, Margin: max, Grace: max, Drain: max, Stall: max}
		}, []string{"Timing.TTL", "Timing.RenewEvery", "Timing.RequestTimeout", "Timing.Granularity", "Timing.Skew", "Timing.Margin", "Timing.Grace", "Timing.Drain", "Timing.Stall"}},
	} {
		timing := usual()
		c.change(&timing)
		err := timing.Validate()
		if err != nil && !errors.Is(err, ownership.ErrInvalid) {
			t.Errorf("%s: %v is not an ErrInvalid", c.name, err)
		}
		got := strings.Split(lines(err), "\n")
		if err == nil {
			got = nil
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %d faults, want %d:\n%s", c.name, len(got), len(c.want), lines(err))
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], c.want[i]) {
				t.Errorf("%s\ngot  %s\nwant %s", c.name, got[i], c.want[i])
			}
		}
	}
}

// One field set wrongly, the others left to their defaults: the field that the
// user set is named, once, and no default is blamed.
func TestTimingFaultsDoNotSpread(t *testing.T) {
	const max, min = time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
	for name, set := range map[string]func(*ownership.Timing, time.Duration){
		"TTL":            func(t *ownership.Timing, d time.Duration) { t.TTL = d },
		"RenewEvery":     func(t *ownership.Timing, d time.Duration) { t.RenewEvery = d },
		"RequestTimeout": func(t *ownership.Timing, d time.Duration) { t.RequestTimeout = d },
		"Granularity":    func(t *ownership.Timing, d time.Duration) { t.Granularity = d },
		"Skew":           func(t *ownership.Timing, d time.Duration) { t.Skew = d },
		"Margin":         func(t *ownership.Timing, d time.Duration) { t.Margin = d },
		"Grace":          func(t *ownership.Timing, d time.Duration) { t.Grace = d },
		"Drain":          func(t *ownership.Timing, d time.Duration) { t.Drain = d },
		"Stall":          func(t *ownership.Timing, d time.Duration) { t.Stall = d },
	} {
		for _, d := range []time.Duration{min, -time.Hour, -1, 25 * time.Hour, max} {
			var timing ownership.Timing
			set(&timing, d)
			got := lines(timing.WithDefaults().Validate())
			if !strings.HasPrefix(got, "Timing."+name+" is ") || strings.Contains(got, "\n") {
				t.Errorf("only %s = %v is wrong, but:\n%s", name, d, got)
			}
		}
	}
	// Contradictions between one given field and a default name both values.
	for _, c := range []struct {
		timing ownership.Timing
		want   string
	}{
		{ownership.Timing{RequestTimeout: time.Minute}, "3 · RenewEvery + RequestTimeout = 3 · 3.75s + 1m0s must be at most"},
		{ownership.Timing{Skew: time.Minute}, "Timing.TTL is 15s: it must exceed Granularity + Skew + Margin = 0s + 1m0s + 250ms"},
		{ownership.Timing{Granularity: time.Minute}, "Timing.TTL is 15s: it must be at least Granularity + 100ms = 1m0.1s"},
		{ownership.Timing{TTL: 1}, "Timing.TTL is 1ns: it must be at least Granularity + 100ms = 100ms"},
	} {
		got := lines(c.timing.WithDefaults().Validate())
		if !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%+v\ngot  %s\nwant %s", c.timing, got, c.want)
		}
	}
}

func TestTimingDefaults(t *testing.T) {
	got := ownership.Timing{Granularity: time.Second}.WithDefaults()
	want := ownership.Timing{
		TTL: 15 * time.Second, RenewEvery: 3750 * time.Millisecond, RequestTimeout: 2 * time.Second, Granularity: time.Second,
		Skew: 500 * time.Millisecond, Margin: 250 * time.Millisecond, Grace: 15 * time.Second, Drain: 15 * time.Second,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if set := usual(); set.WithDefaults() != set {
		t.Error("WithDefaults changed a field that was set")
	}
	sent := time.Unix(1000, 0)
	if got := want.Safe(sent).Sub(sent); got != 13250*time.Millisecond {
		t.Errorf("safe %v after the request was sent, want 13.25s", got)
	}
	if got := want.End(sent).Sub(sent); got != 30*time.Second {
		t.Errorf("over %v after the request was sent, want 30s", got)
	}
	// What the doc comment says of short ones.
	for ttl, full := range map[time.Duration]bool{2 * time.Second: false, 6 * time.Second: false, 8 * time.Second: true} {
		timing := ownership.Timing{TTL: ttl, Granularity: time.Second}.WithDefaults()
		if err := timing.Validate(); err != nil {
			t.Errorf("TTL %v: %v", ttl, err)
		}
		if (timing.RequestTimeout == 2*time.Second) != full {
			t.Errorf("TTL %v: RequestTimeout is %v", ttl, timing.RequestTimeout)
		}
	}
}

// The defaults of every TTL that is allowed are consistent.
func TestTimingDefaultsValidate(t *testing.T) {
	random := rand.New(rand.NewPCG(*seed, 1))
	for _, granularity := range []time.Duration{0, time.Millisecond, time.Second, time.Minute} {
		least := granularity + ownership.MinTTL
		try := func(ttl time.Duration) {
			timing := ownership.Timing{TTL: ttl, Granularity: granularity}.WithDefaults()
			if err := timing.Validate(); err != nil {
				t.Fatalf("seed %d, TTL %v, granularity %v: %v", *seed, ttl, granularity, err)
			}
		}
		try(least)
		try(ownership.MaxTTL)
		for ttl := least; ttl < 20*time.Second; ttl += 10 * time.Millisecond {
			try(ttl)
		}
		for range 20_000 {
			try(least + time.Duration(random.Int64N(int64(ownership.MaxTTL-least))))
		}
	}
}

// Whatever validates fulfils the rule, in arithmetic that cannot overflow.
func FuzzTiming(f *testing.F) {
	u := usual()
	for _, t := range []ownership.Timing{{}, u, u.WithDefaults(), {TTL: math.MaxInt64, RenewEvery: math.MinInt64}} {
		for _, fill := range []bool{false, true} {
			f.Add(int64(t.TTL), int64(t.RenewEvery), int64(t.RequestTimeout), int64(t.Granularity), int64(t.Skew), int64(t.Margin),
				int64(t.Grace), int64(t.Drain), int64(t.Stall), fill)
		}
	}
	f.Fuzz(func(t *testing.T, ttl, renew, request, granularity, skew, margin, grace, drain, stall int64, fill bool) {
		d := func(n int64) time.Duration { return time.Duration(n) }
		timing := ownership.Timing{TTL: d(ttl), RenewEvery: d(renew), RequestTimeout: d(request), Granularity: d(granularity),
			Skew: d(skew), Margin: d(margin), Grace: d(grace), Drain: d(drain), Stall: d(stall)}
		if fill {
			timing = timing.WithDefaults()
		}
		checkTiming(t, timing)
	})
}

func checkTiming(t *testing.T, timing ownership.Timing) {
	t.Helper()
	n := func(d time.Duration) *big.Int { return big.NewInt(int64(d)) }
	room := n(timing.TTL)
	for _, d := range []time.Duration{timing.Granularity, timing.Skew, timing.Margin} {
		room.Sub(room, n(d))
	}
	need := new(big.Int).Add(new(big.Int).Mul(big.NewInt(3), n(timing.RenewEvery)), n(timing.RequestTimeout))
	holds := need.Cmp(room) <= 0 && timing.RenewEvery > 0 && timing.RequestTimeout > 0 && timing.Margin > 0 &&
		timing.Granularity >= 0 && timing.Skew >= 0 && timing.Grace > 0 && timing.Drain > 0 && timing.Stall >= 0 &&
		new(big.Int).Sub(n(timing.TTL), n(timing.Granularity)).Cmp(n(ownership.MinTTL)) >= 0 &&
		(timing.Stall == 0 || timing.Stall >= timing.RenewEvery)
	for _, d := range []time.Duration{timing.TTL, timing.RenewEvery, timing.RequestTimeout, timing.Granularity, timing.Skew,
		timing.Margin, timing.Grace, timing.Drain, timing.Stall} {
		holds = holds && d <= ownership.MaxTTL
	}
	if err := timing.Validate(); (err == nil) != holds {
		t.Errorf("%+v: the rules hold: %v; Validate: %v", timing, holds, err)
	}
}

// The same over random values near the limits, without a fuzzing engine.
func TestTimingRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(*seed, 2))
	pick := func() time.Duration {
		switch random.IntN(12) {
		case 0:
			return time.Duration(random.Uint64())
		case 1:
			return ownership.MaxTTL + time.Duration(random.IntN(3)) - 1
		default:
			return time.Duration(random.IntN(20)) * time.Second / 4
		}
	}
	valid := 0
	for range 50_000 {
		timing := ownership.Timing{TTL: 4 * pick(), RenewEvery: pick(), RequestTimeout: pick(), Granularity: pick() / 2,
			Skew: pick() / 4, Margin: pick() / 4, Grace: pick(), Drain: pick()}
		checkTiming(t, timing)
		checkTiming(t, timing.WithDefaults())
		if timing.WithDefaults().Validate() == nil {
			valid++
		}
		if t.Failed() {
			t.Fatalf("seed %d", *seed)
		}
	}
	if valid < 500 {
		t.Errorf("seed %d: only %d of the random ones were valid: this proves little", *seed, valid)
	}
}
