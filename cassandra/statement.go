package cassandra

import (
	"fmt"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// statement is a CQL statement with its values. names, where it has any, name
// the values in their order.
type statement struct {
	cql   string
	names []string
	args  []any
}

// template is the text of a statement with named parameters, built once.
type template struct {
	cql   string
	names []string
}

// built makes a template from a builder of package qb.
func built(b interface{ ToCql() (string, []string) }) template {
	cql, names := b.ToCql()
	return template{cql: cql, names: names}
}

// values are the parameters of a template by name; a nil value is null.
type values map[string]any

func (t template) bind(v values) statement {
	args := make([]any, len(t.names))
	for i, name := range t.names {
		args[i] = v[name]
	}
	return statement{cql: t.cql, names: t.names, args: args}
}

// ttlParam is the name of every parameter of a USING TTL.
const ttlParam = "using_ttl"

// maxTTL is the server's own limit, 20 years.
const maxTTL = 20 * 365 * 24 * 60 * 60

// checkTTL is the last look before a statement leaves: USING TTL 0 would mean
// for ever, and a session that never expires blocks its resources for ever.
func (s statement) checkTTL() error {
	for i, name := range s.names {
		if name != ttlParam {
			continue
		}
		if ttl, ok := s.args[i].(int); !ok || ttl < 1 || ttl > maxTTL {
			return ownership.Invalid("TTL", fmt.Sprintf("%v s", s.args[i]), fmt.Sprintf("must be from 1 to %d whole seconds", maxTTL), "0 would mean for ever")
		}
	}
	return nil
}

// wholeSeconds converts a TTL. It never rounds: a TTL below a second must not
// become 0, and one that was rounded up would outlive what its owner computes.
func wholeSeconds(ttl time.Duration) (int, error) {
	if ttl < time.Second || ttl%time.Second != 0 {
		return 0, ownership.Invalid("TTL", ttl, "must be a whole number of seconds, at least 1", "Cassandra counts in seconds, and 0 would mean for ever")
	}
	return int(ttl / time.Second), nil
}

// secondsUp converts a wait, rounded up.
func secondsUp(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	return int(min((d+time.Second-1)/time.Second, maxTTL))
}
