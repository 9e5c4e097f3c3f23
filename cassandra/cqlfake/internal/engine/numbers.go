package engine

import (
	"encoding/binary"
	"math/big"
	"strconv"
	"strings"
)

// encodeVarint writes n in two's complement, in as few bytes as hold it.
func encodeVarint(n *big.Int) []byte {
	if n.Sign() >= 0 {
		b := n.Bytes()
		if len(b) == 0 || b[0]&0x80 != 0 {
			b = append([]byte{0}, b...)
		}
		return b
	}
	size := n.BitLen()/8 + 1
	b := new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(size)*8)).Bytes()
	for len(b) < size {
		b = append([]byte{0xff}, b...)
	}
	for len(b) > 1 && b[0] == 0xff && b[1]&0x80 != 0 {
		b = b[1:]
	}
	return b
}

func decodeVarint(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(b))*8))
	}
	return n
}

// maxExponent bounds decimals: a short text must not make a long number.
const maxExponent = 10_000

// parseDecimal reads digits, a point and an exponent.
func parseDecimal(s string) ([]byte, bool) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	exp := 0
	if exponent != "" {
		var err error
		if exp, err = strconv.Atoi(exponent); err != nil {
			return nil, false
		}
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	n, ok := new(big.Int).SetString(whole+frac, 10)
	scale := len(frac) - exp
	if !ok || scale > maxExponent || scale < -maxExponent {
		return nil, false
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(int32(scale))), encodeVarint(n)...), true
}

// compareDecimals compares by number, whatever the scales are.
func compareDecimals(a, b []byte) int {
	if len(a) < 5 || len(b) < 5 {
		return len(a) - len(b)
	}
	x, y := decodeVarint(a[4:]), decodeVarint(b[4:])
	sx, sy := int64(int32(binary.BigEndian.Uint32(a))), int64(int32(binary.BigEndian.Uint32(b)))
	if s := x.Sign() - y.Sign(); s != 0 || x.Sign() == 0 {
		return s
	}
	// Far apart: the digits before the point tell, without a huge power of ten.
	dx, dy := int64(len(x.Text(10)))-sx, int64(len(y.Text(10)))-sy
	if x.Sign() < 0 {
		dx, dy = dy+1, dx+1 // the sign counts as a character on both sides
	}
	if dx != dy {
		if dx < dy {
			return -1
		}
		return 1
	}
	ten := big.NewInt(10)
	if sx < sy {
		x.Mul(x, new(big.Int).Exp(ten, big.NewInt(sy-sx), nil))
	} else {
		y.Mul(y, new(big.Int).Exp(ten, big.NewInt(sx-sy), nil))
	}
	return x.Cmp(y)
}

// duration in Cassandra's three parts.
type duration struct{ months, days, nanos int64 }

func (d duration) encode() []byte {
	var b []byte
	for _, n := range []int64{d.months, d.days, d.nanos} {
		b = appendVint(b, uint64(n<<1)^uint64(n>>63))
	}
	return b
}

// appendVint writes n as the server's variable-length integer: the first byte
// tells by its leading ones how many follow.
func appendVint(b []byte, n uint64) []byte {
	extra := 0
	for extra < 8 && n>>(7*uint(extra)+7) != 0 {
		extra++
	}
	if extra == 8 {
		return binary.BigEndian.AppendUint64(append(b, 0xff), n)
	}
	first := byte(0xff << (8 - extra))
	for i := extra; i >= 0; i-- {
		c := byte(n >> (8 * uint(i)))
		if i == extra {
			c |= first
		}
		b = append(b, c)
	}
	return b
}

// vints returns how many variable-length integers b holds, -1 if it is cut off.
func vints(b []byte) int {
	n := 0
	for len(b) > 0 {
		extra := 0
		for extra < 8 && b[0]&(0x80>>extra) != 0 {
			extra++
		}
		if len(b) < extra+1 {
			return -1
		}
		b = b[extra+1:]
		n++
	}
	return n
}

const (
	day  = int64(86_400_000_000_000)
	hour = day / 24
)

var durationUnits = []struct {
	unit                string
	months, days, nanos int64
}{ // in the order they must have
	{"y", 12, 0, 0}, {"mo", 1, 0, 0}, {"w", 0, 7, 0}, {"d", 0, 1, 0}, {"h", 0, 0, hour}, {"m", 0, 0, hour / 60},
	{"s", 0, 0, 1e9}, {"ms", 0, 0, 1e6}, {"us", 0, 0, 1e3}, {"µs", 0, 0, 1e3}, {"ns", 0, 0, 1},
}

// parseDuration reads 1y2mo3w4d5h6m7s8ms9us10ns, and P1Y2M3DT4H5M6S.
func parseDuration(s string) (duration, bool) {
	var d duration
	neg := strings.HasPrefix(s, "-")
	s = strings.ToLower(strings.TrimPrefix(s, "-"))
	if d, ok := parseISODuration(s); ok {
		return d.signed(neg)
	}
	last := -1
	for s != "" {
		n := 0
		for n < len(s) && isDigit(s[n]) {
			n++
		}
		v, err := strconv.ParseInt(s[:n], 10, 32)
		if err != nil {
			if v, err = strconv.ParseInt(s[:n], 10, 63); err != nil {
				return d, false
			}
		}
		s = s[n:]
		unit := 0
		for unit < len(s) && !isDigit(s[unit]) {
			unit++
		}
		found := false
		for i, u := range durationUnits {
			if s[:unit] == u.unit && i > last {
				if !d.add(v, u.months, u.days, u.nanos) {
					return d, false
				}
				last, found = i, true
			}
		}
		if !found {
			return d, false
		}
		s = s[unit:]
	}
	if last < 0 {
		return d, false
	}
	return d.signed(neg)
}

func (d duration) signed(neg bool) (duration, bool) {
	if neg {
		d = duration{-d.months, -d.days, -d.nanos}
	}
	return d, true
}

// add adds v units, unless that overflows.
func (d *duration) add(v, months, days, nanos int64) bool {
	for _, p := range []struct {
		to        *int64
		unit, max int64
	}{{&d.months, months, 1<<31 - 1}, {&d.days, days, 1<<31 - 1}, {&d.nanos, nanos, 1<<63 - 1}} {
		if p.unit != 0 && v > (p.max-*p.to)/p.unit {
			return false
		}
		*p.to += v * p.unit
	}
	return true
}

// parseISODuration reads P1Y2M3DT4H5M6S and P4W, in lower case.
func parseISODuration(s string) (duration, bool) {
	var d duration
	s, ok := strings.CutPrefix(s, "p")
	if !ok || s == "" {
		return d, false
	}
	inTime, parts := false, 0
	for s != "" {
		if s[0] == 't' && !inTime {
			inTime, s = true, s[1:]
			continue
		}
		n := 0
		for n < len(s) && isDigit(s[n]) {
			n++
		}
		v, err := strconv.ParseInt(s[:n], 10, 64)
		if err != nil || n == len(s) {
			return d, false
		}
		unit := string(s[n])
		switch {
		case unit == "m" && !inTime:
			unit = "mo"
		case strings.Contains("hms", unit) != inTime:
			return d, false
		}
		found := false
		for _, u := range durationUnits {
			if u.unit == unit {
				found = d.add(v, u.months, u.days, u.nanos)
			}
		}
		if !found {
			return d, false
		}
		s, parts = s[n+1:], parts+1
	}
	return d, parts > 0
}
