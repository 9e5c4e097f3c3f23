package cqlfake

import (
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/gocql/gocql"
)

// Kind is a kind of request; kinds can be joined with |.
type Kind uint16

// The kinds, by the names of the native protocol.
const (
	KindQuery Kind = 1 << iota
	KindPrepare
	KindExecute
	KindBatch
	KindOptions // also what drivers send as a heartbeat
	KindStartup
	KindAuth
	KindRegister

	// Statements are the kinds that carry statements out.
	Statements = KindQuery | KindExecute | KindBatch
	// Everything is all that a client can send: a fault on it makes a node look
	// dead to those that are connected, too.
	Everything = Statements | KindPrepare | KindOptions | KindStartup | KindAuth | KindRegister
)

var kindNames = []string{"QUERY", "PREPARE", "EXECUTE", "BATCH", "OPTIONS", "STARTUP", "AUTH_RESPONSE", "REGISTER"}

func (k Kind) String() string {
	var names []string
	for i, n := range kindNames {
		if k&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, "|")
}

// Request describes one request to those who watch or pick requests. It is
// shared: do not change what it points to.
type Request struct {
	Node *Node
	Kind Kind
	// Statements: one, those of a batch, or none.
	Statements  []Statement
	Consistency gocql.Consistency
	// Serial is the serial consistency, 0 if none was sent.
	Serial gocql.SerialConsistency
	// User is who has logged in; empty without authentication.
	User string

	// Answered is false when the request arrives, and true when its answer is
	// about to be sent; the fields below belong to the latter. A request whose
	// answer a fault keeps back is answered never.
	Answered bool
	Err      *Error // nil: it went well
	// Applied is the [applied] of a conditional statement or batch.
	Applied bool
}

// Conditional reports whether the request has a condition: IF.
func (r Request) Conditional() bool {
	for _, s := range r.Statements {
		if s.Conditional {
			return true
		}
	}
	return false
}

// Statement is a statement of a [Request].
type Statement struct {
	Text string
	// Keyspace and Table it is about; empty if it is about none, or is not valid.
	Keyspace, Table string
	Conditional     bool
	Values          []Value
}

// Value is a bound value, as it was sent.
type Value struct {
	Name  string // of the bind variable; its column's, for a plain ?
	Bytes []byte // nil: null
	Unset bool
}

// Answer is what a client gets instead of the answer.
type Answer uint8

const (
	// TrueAnswer is the answer of the node, and requires nothing of Apply.
	TrueAnswer Answer = iota
	// NoAnswer: the client hears nothing.
	NoAnswer
	// CloseConnection: the connection ends without an answer.
	CloseConnection
	// Timeout is an error of 0 received answers: of a write, with the write type
	// that fits (CAS for a conditional one), or of a read.
	Timeout
	// Failure is a write or read failure.
	Failure
	// Unavailable is an error of 0 living replicas; at the serial consistency for
	// a conditional statement, at the ordinary one for others.
	Unavailable
	// Overloaded is that error.
	Overloaded
)

// Fault is what happens to requests that fit. The zero Fault does nothing to
// every statement: it counts them, see [Injection.Hits].
type Fault struct {
	// Node hits requests to that node; nil: to any.
	Node *Node
	// Kind is the kinds of requests, [Statements] if 0.
	Kind Kind
	// Statement matches the text of the statement, or of one in a batch. With nil,
	// all match.
	Statement *regexp.Regexp
	// Table is the statement's table, as table or keyspace.table; one in a batch
	// is enough. Empty: any.
	Table string
	// If, when set, must be true of the request, too. It must not call the cluster.
	If func(Request) bool
	// Nth is the first matching request that is hit, counted from 1 and from the
	// moment of injection; 0 means 1.
	Nth int
	// Times is how many matching requests in a row are hit; 0 means 1, and a
	// negative number all from then on.
	Times int

	// Delay is how long the node waits before it looks at the request. Others on
	// the same connection pass it. A client that has gone by then changes nothing:
	// the request is carried out late.
	Delay time.Duration
	// Answer is what the client gets. With anything but TrueAnswer the request is
	// not carried out, unless Apply is set.
	Answer Answer
	// Apply: the request is carried out, whatever the answer.
	Apply bool
	// Err, if set, is answered in place of Answer.
	Err *Error
	// AnswerDelay is how long the answer stays away once the request has, or has
	// not, been carried out.
	AnswerDelay time.Duration
}

// Injection is a fault that was injected.
type Injection struct {
	cluster *Cluster
	fault   Fault

	mu      sync.Mutex
	matched int
	hits    int
}

// Inject adds a fault. Of several that hit one request the first one injected
// counts; the others count it among their matching ones all the same.
func (c *Cluster) Inject(f Fault) *Injection {
	f.Nth = max(f.Nth, 1)
	if f.Times == 0 {
		f.Times = 1
	}
	if f.Kind == 0 {
		f.Kind = Statements
	}
	i := &Injection{cluster: c, fault: f}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults[:len(c.faults):len(c.faults)], i)
	return i
}

// Remove ends the fault. What it has hit stays hit.
func (i *Injection) Remove() {
	c := i.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	var rest []*Injection
	for _, o := range c.faults {
		if o != i {
			rest = append(rest, o)
		}
	}
	c.faults = rest
}

// Hits is how many requests the fault has hit.
func (i *Injection) Hits() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hits
}

// Heal removes all faults.
func (c *Cluster) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
}

// Observe calls f for every request, once as it arrives and once as it is
// answered; see [Request]. A call that waits holds up this request alone, which
// makes it a gate. f may be called by several goroutines at once; nil ends it.
func (c *Cluster) Observe(f func(Request)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observe = f
}

// pick returns the fault that hits a request, if any.
func pick(faults []*Injection, r Request) *Fault {
	var hit *Fault
	for _, i := range faults {
		if i.hit(r, hit == nil) && hit == nil {
			hit = &i.fault
		}
	}
	return hit
}

func (i *Injection) hit(r Request, free bool) bool {
	if !i.fault.matches(r) {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.matched++
	nth := i.matched - i.fault.Nth
	if !free || nth < 0 || i.fault.Times > 0 && nth >= i.fault.Times {
		return false
	}
	i.hits++
	return true
}

func (f *Fault) matches(r Request) bool {
	if f.Node != nil && f.Node != r.Node || f.Kind&r.Kind == 0 {
		return false
	}
	if !anyOf(r.Statements, f.Statement == nil, func(s Statement) bool { return f.Statement.MatchString(s.Text) }) {
		return false
	}
	if !anyOf(r.Statements, f.Table == "", func(s Statement) bool {
		return s.Table != "" && (f.Table == s.Table || f.Table == s.Keyspace+"."+s.Table)
	}) {
		return false
	}
	return f.If == nil || f.If(r)
}

func anyOf(list []Statement, always bool, is func(Statement) bool) bool {
	for _, s := range list {
		if always || is(s) {
			return true
		}
	}
	return always
}

// instead returns the error that the fault answers, or nil.
func (f *Fault) instead(r Request, kind writeKind) *Error {
	e := f.Err
	if e == nil {
		switch f.Answer {
		case Timeout:
			e = &Error{Code: CodeWriteTimeout}
			if kind == isRead {
				e = &Error{Code: CodeReadTimeout}
			}
		case Failure:
			e = &Error{Code: CodeWriteFailure}
			if kind == isRead {
				e = &Error{Code: CodeReadFailure}
			}
		case Unavailable:
			e = &Error{Code: CodeUnavailable}
		case Overloaded:
			e = &Error{Code: CodeOverloaded}
		default:
			return nil
		}
	}
	return e.suit(r, kind)
}
