package ownership_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tenure-go/tenure/ownership"
)

// Bad names: every fault at once, naming field, value and rule (DESIGN 7).
func TestCheckNames(t *testing.T) {
	long := strings.Repeat("ä", ownership.MaxResource/2)
	for _, c := range []struct {
		check func(string) error
		name  string
		want  []string // one line a fault; none: the name is fine
	}{
		{ownership.CheckResource, "shard-7", nil},
		{ownership.CheckResource, "a\x00b \n#", nil},
		{ownership.CheckResource, long, nil},
		{ownership.CheckOwner, strings.Repeat("o", ownership.MaxOwner), nil},
		{ownership.CheckResource, "", []string{`resource is "": it must not be empty; give it a name`}},
		{ownership.CheckOwner, "", []string{`owner is "": it must not be empty; give it a name`}},
		{ownership.CheckResource, long + "x", []string{
			`resource is "` + long[:40] + `…" (513 bytes): it must be at most 512 bytes; shorten it`}},
		{ownership.CheckOwner, "x" + long, []string{
			`owner is "x` + long[:38] + `…" (513 bytes): it must be at most 256 bytes; shorten it`}},
		{ownership.CheckOwner, "a\xffb", []string{`owner is "a\xffb": it must be valid UTF-8; encode it, for example in hex`}},
		{ownership.CheckResource, strings.Repeat("\x80", 513), []string{
			`resource is "` + strings.Repeat(`\x80`, 36) + `…" (513 bytes): it must be at most 512 bytes; shorten it`,
			`resource is "` + strings.Repeat(`\x80`, 36) + `…": it must be valid UTF-8; encode it, for example in hex`}},
	} {
		err := c.check(c.name)
		if got := lines(err); got != strings.Join(c.want, "\n") {
			t.Errorf("%.20q\ngot  %s\nwant %s", c.name, got, strings.Join(c.want, "\n"))
		}
		if err != nil && !errors.Is(err, ownership.ErrInvalid) {
			t.Errorf("%v is not an ErrInvalid", err)
		}
	}
}

func lines(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// kubernetes#22775: two processes of one name are still rivals.
func TestOwnersOfOneNameDiffer(t *testing.T) {
	a, b := ownership.NewOwner("worker"), ownership.NewOwner("worker")
	if a == b || a.String() == b.String() {
		t.Fatalf("two owners are both %v", a)
	}
	if len(a.Nonce) != 16 || a.Name != "worker" {
		t.Fatalf("%+v", a)
	}
}

func FuzzParseOwner(f *testing.F) {
	for _, s := range []string{"", "#", "a", "a#", "#a", "a#b", "a#b#c", "##", "a\x00#\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := ownership.ParseOwner(s).String(); got != s {
			t.Errorf("%q became %q", s, got)
		}
		o := ownership.NewOwner(s)
		if got := ownership.ParseOwner(o.String()); got != o {
			t.Errorf("%+v became %+v", o, got)
		}
		if err := ownership.CheckOwner(s); (err == nil) != (s != "" && len(s) <= ownership.MaxOwner && utf8.ValidString(s)) {
			t.Errorf("CheckOwner(%q) = %v", s, err)
		}
	})
}

func TestHolder(t *testing.T) {
	vacant := ownership.Holder{Resource: "r", Fence: 4}
	held := ownership.Holder{Resource: "r", Owner: ownership.Owner{Name: "w", Nonce: "1"}, Token: 5, Fence: 6}
	if !vacant.Vacant() || held.Vacant() {
		t.Error("Vacant is wrong")
	}
	if got, want := vacant.String(), "r: vacant (fence 4)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := held.String(), "r: held by w#1 under token 5"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	err := error(&ownership.HeldError{Holder: held})
	if got, want := err.Error(), "r is held by w#1 under token 5; wait with Acquire, or try again later"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	wantErr(t, err, ownership.ErrHeld)
	for token, valid := range map[ownership.Token]bool{-1: false, 0: false, 1: true, 1 << 62: true} {
		if token.Valid() != valid {
			t.Errorf("Token(%d).Valid() = %v", token, token.Valid())
		}
	}
	if ownership.Token(42).String() != "42" {
		t.Error("Token.String")
	}
}
