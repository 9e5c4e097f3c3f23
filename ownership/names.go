package ownership

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Token is a fencing token: it strictly increases with every grant of a
// resource, for ever, and the resource's own side refuses any lower one (see
// package fence). Valid tokens are greater than zero; the zero Token is none.
type Token int64

// Valid reports whether t can have been granted.
func (t Token) Valid() bool { return t > 0 }

// String returns the token in decimal.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// Limits of names, in bytes of UTF-8.
const (
	MaxResource = 512
	MaxOwner    = 256
)

// Owner names one process: a name for people and a nonce that makes it unlike
// every other process of the same name. Two Owners with equal names are rivals.
type Owner struct {
	Name  string
	Nonce string
}

// NewOwner returns an Owner with a fresh random nonce of 16 hex digits. Use
// [CheckOwner] on name first; NewOwner takes it as it is.
func NewOwner(name string) Owner {
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails (Go 1.24)
	return Owner{Name: name, Nonce: hex.EncodeToString(b[:])}
}

// String returns name#nonce, or the empty string for the zero Owner.
func (o Owner) String() string {
	if o.Nonce == "" {
		return o.Name
	}
	return o.Name + "#" + o.Nonce
}

// ParseOwner is the inverse of [Owner.String] for every Owner made by [NewOwner].
// Any other text, as a hand edit might leave it, is kept too: the String of the
// result is s.
func ParseOwner(s string) Owner {
	if i := strings.LastIndexByte(s, '#'); i >= 0 && i < len(s)-1 {
		return Owner{Name: s[:i], Nonce: s[i+1:]}
	}
	return Owner{Name: s}
}

// Holder says who holds a resource, as the authority last told.
type Holder struct {
	// Resource is the name asked for.
	Resource string
	// Owner holds it; the zero Owner when it is vacant.
	Owner Owner
	// Token is the holder's, 0 when the resource is vacant.
	Token Token
	// Fence is the highest token known to have been granted where this
	// resource's tokens are counted, 0 when none ever was. It never decreases,
	// and the next grant is higher. It may be above Token: neighbours can share
	// a counter.
	Fence Token
}

// Vacant reports whether nobody holds the resource.
func (h Holder) Vacant() bool { return h.Token == 0 }

// String says who holds the resource, for logs.
func (h Holder) String() string {
	if h.Vacant() {
		return fmt.Sprintf("%s: vacant (fence %d)", h.Resource, h.Fence)
	}
	return fmt.Sprintf("%s: held by %s under token %d", h.Resource, h.Owner, h.Token)
}

// CheckResource reports everything that is wrong with a resource name: it must
// be valid UTF-8 of 1 to [MaxResource] bytes. The error is an [ErrInvalid].
func CheckResource(name string) error { return checkName("resource", name, MaxResource) }

// CheckOwner does for owner names what [CheckResource] does for resources; the
// limit is [MaxOwner].
func CheckOwner(name string) error { return checkName("owner", name, MaxOwner) }

func checkName(field, name string, limit int) error {
	var faults []error
	shown := shorten(name)
	if name == "" {
		faults = append(faults, Invalid(field, `""`, "must not be empty", "give it a name"))
	}
	if len(name) > limit {
		faults = append(faults, Invalid(field, fmt.Sprintf("%q (%d bytes)", shown, len(name)),
			fmt.Sprintf("must be at most %d bytes", limit), "shorten it"))
	}
	if !utf8.ValidString(name) {
		faults = append(faults, Invalid(field, fmt.Sprintf("%q", shown), "must be valid UTF-8", "encode it, for example in hex"))
	}
	return errors.Join(faults...)
}

// shorten cuts s for an error message, between two characters.
func shorten(s string) string {
	const limit = 40
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > limit-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
