package fence_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/fence"
	"github.com/tenure-go/tenure/ownership/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is what the contract is about.
type place interface {
	Install(fence.Stamp) (string, fence.Verdict, error)
	Write(s fence.Stamp, op, value string) (fence.Verdict, error)
}

// keepsTheContract lets owners under all kinds of tokens write at random, and
// compares every verdict, and what installing reads, with the contract's own
// words. It returns the first difference.
func keepsTheContract(p place, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 0))
	var highest ownership.Token
	var value string
	effects := map[string]bool{}
	for i := range 500 {
		s := fence.Stamp{Resource: "r", Owner: "o", Token: max(1, highest+ownership.Token(random.IntN(5)-3))}
		op := fmt.Sprintf("op-%d", random.IntN(200))
		if random.IntN(4) == 0 {
			read, verdict, err := p.Install(s)
			want := fence.Accepted
			if s.Token < highest {
				want = fence.Stale
			}
			if verdict != want || (err == nil) != (want == fence.Accepted) {
				return fmt.Errorf("step %d: installing token %d over %d: %v, %v; want %v", i, s.Token, highest, verdict, err, want)
			}
			if err == nil && read != value {
				return fmt.Errorf("step %d: the new owner read %q; accepted was %q", i, read, value)
			}
			highest = max(highest, s.Token)
			continue
		}
		var want fence.Verdict
		switch {
		case effects[op]:
			want = fence.Duplicate
		case s.Token < highest:
			want = fence.Stale
		default:
			want = fence.Accepted
		}
		written := fmt.Sprintf("%s under %d", op, s.Token)
		verdict, err := p.Write(s, op, written)
		if verdict != want || (err == nil) != (want != fence.Stale) {
			return fmt.Errorf("step %d: %s over %d: %v, %v; want %v", i, written, highest, verdict, err, want)
		}
		var stale *fence.StaleError
		if want == fence.Stale && (!errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) || stale.Token != s.Token || stale.Current != highest) {
			return fmt.Errorf("step %d: the refusal of %s over %d is %v", i, written, highest, err)
		}
		if want == fence.Accepted {
			highest, value, effects[op] = s.Token, written, true
		}
	}
	return nil
}

func TestRegisterKeepsTheContract(t *testing.T) {
	seed := rand.Uint64()
	if err := keepsTheContract(&Register{}, seed); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	var register Register
	for _, token := range []ownership.Token{0, -1, math.MinInt64} {
		verdict, err := register.Write(fence.Stamp{Token: token}, "op", "value")
		if verdict != fence.NotApplied || !errors.Is(err, ownership.ErrInvalid) || register.value != "" {
			t.Errorf("token %d: %v, %v", token, verdict, err)
		}
	}
}

// broken is a register that breaks one rule of the contract. The check above must
// notice each, or it proves nothing.
type broken struct {
	Register
	install func(*broken, fence.Stamp) bool // true: do this instead of the right thing
	write   func(b *broken, s fence.Stamp, op, value string) (fence.Verdict, bool)
}

func (b *broken) Install(s fence.Stamp) (string, fence.Verdict, error) {
	if b.install != nil && b.install(b, s) {
		return b.value, fence.Accepted, nil
	}
	return b.Register.Install(s)
}

func (b *broken) Write(s fence.Stamp, op, value string) (fence.Verdict, error) {
	if b.write != nil {
		if v, instead := b.write(b, s, op, value); instead {
			return v, nil
		}
	}
	return b.Register.Write(s, op, value)
}

func TestBrokenRegistersAreNoticed(t *testing.T) {
	for rule, b := range map[string]*broken{
		"no token in the predicate": {write: func(b *broken, s fence.Stamp, op, value string) (fence.Verdict, bool) {
			b.token = min(b.token, s.Token)
			return 0, false
		}},
		"the token must be higher, not equal": {write: func(b *broken, s fence.Stamp, op, value string) (fence.Verdict, bool) {
			if s.Token == b.token {
				b.token++
			}
			return 0, false
		}},
		"the token is forgotten when installing": {install: func(b *broken, s fence.Stamp) bool { return true }},
		"an older owner may install again": {install: func(b *broken, s fence.Stamp) bool {
			b.token = s.Token
			return true
		}},
		"a refused write leaves its effect": {write: func(b *broken, s fence.Stamp, op, value string) (fence.Verdict, bool) {
			if s.Token < b.token {
				b.value = value
			}
			return 0, false
		}},
		"a stale write is swallowed": {write: func(b *broken, s fence.Stamp, op, value string) (fence.Verdict, bool) {
			return fence.Accepted, s.Token < b.token
		}},
		"ids are not recorded": {write: func(b *broken, s fence.Stamp, op, value string) (fence.Verdict, bool) {
			b.ops = nil
			return 0, false
		}},
		"a redelivery under an old token is stale": {write: func(b *broken, s fence.Stamp, op, value string) (fence.Verdict, bool) {
			if s.Token < b.token {
				delete(b.ops, op)
			}
			return 0, false
		}},
		"a refused id is recorded": {write: func(b *broken, s fence.Stamp, op, value string) (fence.Verdict, bool) {
			if v, _ := b.Register.Write(s, op, value); v != fence.Stale {
				return v, true
			}
			if b.ops == nil {
				b.ops = map[string]bool{}
			}
			b.ops[op] = true
			return 0, false
		}},
	} {
		if keepsTheContract(b, rand.Uint64()) == nil {
			t.Errorf("not noticed: %s", rule)
		}
	}
}

// DESIGN 8.2: whether a late write counts is for the resource to decide, so a
// tenure that is over still gives its stamp, with the token of its grant.
func TestStampOf(t *testing.T) {
	own, err := memory.New("worker")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close(t.Context())
	tenure, err := own.Acquire(t.Context(), "shard-7")
	if err != nil {
		t.Fatal(err)
	}
	before := fence.StampOf(tenure)
	if before.Resource != "shard-7" || before.Token != tenure.Token() || before.Owner != own.Owner().String() || before.Validate() != nil {
		t.Errorf("%+v: %v", before, before.Validate())
	}
	if err := tenure.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := fence.StampOf(tenure); after != before {
		t.Errorf("after the release it is %+v", after)
	}
}

func TestTexts(t *testing.T) {
	for v, want := range map[fence.Verdict]string{fence.Unknown: "unknown", fence.Accepted: "accepted", fence.Duplicate: "duplicate",
		fence.Stale: "stale", fence.NotApplied: "not applied", 9: "Verdict(9)"} {
		if v.String() != want {
			t.Errorf("Verdict(%d) is %q, want %q", uint8(v), v, want)
		}
	}
	var zero fence.Verdict
	if zero != fence.Unknown {
		t.Error("a verdict that nobody set claims to know")
	}
	for _, c := range []struct{ got, want string }{
		{(&fence.StaleError{Resource: "r", Token: 1, Current: 2}).Error(), "r refused token 1: it has accepted token 2; stop, a newer owner is at work"},
		{(&fence.StaleError{Resource: "r", Token: 1}).Error(), "r refused token 1: it has accepted a higher one; stop, a newer owner is at work"},
		{fence.Stamp{}.Validate().Error(), "Stamp.Token is 0: it must be greater than 0; take the stamp from a tenure with StampOf"},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
}

// The keys and messages of the log are an interface: alerts rely on them.
func TestLogHook(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
	s := fence.Stamp{Resource: "r", Owner: "w#1", Token: 3}
	ownership.Each(ownership.Hooks{fence.NewLogHook(log)}, func(h fence.HookVerdict) {
		h.OnVerdict(fence.VerdictEvent{Stamp: s, Verdict: fence.Accepted})
		h.OnVerdict(fence.VerdictEvent{Stamp: s, Verdict: fence.Duplicate})
		h.OnVerdict(fence.VerdictEvent{Stamp: s, Verdict: fence.Stale, Err: &fence.StaleError{Resource: "t", Token: 3, Current: 4}})
		h.OnVerdict(fence.VerdictEvent{Stamp: s, Verdict: fence.Unknown, Err: ownership.ErrUnknown})
		h.OnVerdict(fence.VerdictEvent{Stamp: s, Verdict: fence.NotApplied, Err: errors.New("overloaded")})
	})
	const want = `level=DEBUG msg="fence: accepted" resource=r owner=w#1 token=3 verdict=accepted
level=DEBUG msg="fence: duplicate" resource=r owner=w#1 token=3 verdict=duplicate
level=WARN msg="fence: stale" resource=r owner=w#1 token=3 verdict=stale error="t refused token 3: it has accepted token 4; stop, a newer owner is at work"
level=WARN msg="fence: unknown" resource=r owner=w#1 token=3 verdict=unknown error="the outcome is unknown"
level=INFO msg="fence: not applied" resource=r owner=w#1 token=3 verdict="not applied" error=overloaded
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	old := slog.Default()
	slog.SetDefault(log)
	defer slog.SetDefault(old)
	out.Reset()
	fence.NewLogHook(nil).(fence.HookVerdict).OnVerdict(fence.VerdictEvent{Stamp: s})
	if !strings.Contains(out.String(), "fence: unknown") {
		t.Errorf("the default logger got %q", out.String())
	}
}
