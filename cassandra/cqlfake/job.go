package cqlfake

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/tenure-go/tenure/cassandra/cqlfake/internal/engine"
)

// kinds of requests by opcode.
var kinds = map[opcode]Kind{
	opQuery: KindQuery, opPrepare: KindPrepare, opExecute: KindExecute, opBatch: KindBatch,
	opOptions: KindOptions, opStartup: KindStartup, opAuthResponse: KindAuth, opRegister: KindRegister,
}

// job is one request under way.
type job struct {
	conn   *conn
	stream int16
	kind   Kind

	params
	entries   []entry             // of QUERY, PREPARE and EXECUTE, one; of BATCH, any number
	parsed    []*engine.Statement // by entry; nil where it failed
	batchKind byte
	keyspace  string
	user      string
	options   map[string]string // STARTUP
	token     []byte            // AUTH_RESPONSE
	events    []string          // REGISTER

	req     Request // described only if somebody looks
	fault   *Fault
	observe func(Request)
}

// parse reads the request, and checks that it may come now.
func (j *job) parse(f frame) *Error {
	kind, ok := kinds[f.op]
	if !ok {
		return protocolError("Unknown opcode %d", f.op)
	}
	j.kind = kind
	if f.flags&flagCompressed != 0 {
		return protocolError("A compressed frame, though no compression was agreed on")
	}
	if err := j.admit(); err != nil {
		return err
	}
	r := &body{b: f.body}
	if f.flags&flagPayload != 0 {
		r.skipPayload()
	}
	switch kind {
	case KindQuery:
		text := r.longString()
		j.params = r.params()
		j.entries = []entry{{text: text, values: j.values}}
	case KindPrepare:
		j.entries = []entry{{text: r.longString()}}
	case KindExecute:
		id := r.shortBytes()
		j.params = r.params()
		j.entries = []entry{{id: id, values: j.values}}
	case KindBatch:
		b := r.batch()
		j.batchKind, j.entries, j.params = b.kind, b.entries, b.params
	case KindStartup:
		j.options = r.stringMap()
	case KindAuth:
		j.token = r.bytes()
	case KindRegister:
		j.events = r.stringList()
	}
	if r.err != nil {
		return protocolError("%s: %v", kind, r.err)
	}
	if kind&(Statements|KindPrepare) != 0 {
		j.parsed = make([]*engine.Statement, len(j.entries))
		for i := range j.entries {
			j.parsed[i], _ = j.statement(i) // an error counts when it is carried out
		}
	}
	return nil
}

// admit checks the request against the state of the connection.
func (j *job) admit() *Error {
	c := j.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	j.keyspace, j.user = c.keyspace, c.user
	switch {
	case j.kind == KindOptions:
	case c.state == fresh && j.kind != KindStartup:
		return protocolError("Unexpected message %s, expecting STARTUP or OPTIONS", j.kind)
	case c.state == authenticating && j.kind != KindAuth:
		return protocolError("Unexpected message %s, expecting AUTH_RESPONSE", j.kind)
	case c.state == ready && (j.kind == KindStartup || j.kind == KindAuth):
		return protocolError("Unexpected message %s, after the connection was set up", j.kind)
	}
	return nil
}

// statement finds or parses the statement of an entry.
func (j *job) statement(i int) (*engine.Statement, error) {
	if s := j.parsed[i]; s != nil {
		return s, nil
	}
	if e := j.entries[i]; e.id != nil || j.kind == KindExecute {
		return j.conn.node.find(e.id)
	}
	return j.conn.node.cluster.engine.Prepare(j.keyspace, j.entries[i].text)
}

// run carries the request out, as far as the fault lets it, and answers.
func (j *job) run(flush bool) {
	cluster := j.conn.node.cluster
	if j.observe != nil {
		j.observe(j.req)
	}
	f := j.fault
	if f == nil {
		f = &Fault{}
	}
	if !cluster.sleep(f.Delay) {
		return
	}
	var out answer
	if f.Apply || f.Answer == TrueAnswer && f.Err == nil {
		out = j.guarded()
	}
	if !cluster.sleep(f.AnswerDelay) {
		return
	}
	switch {
	case f.Err == nil && f.Answer == NoAnswer:
		return
	case f.Err == nil && f.Answer == CloseConnection:
		j.conn.close()
		return
	}
	if j.fault != nil {
		if e := f.instead(j.req, j.writeKind()); e != nil {
			out = answer{err: e}
		}
	}
	if j.observe != nil {
		j.req.Answered, j.req.Err, j.req.Applied = true, out.err, out.applied
		j.observe(j.req)
	}
	if out.err != nil {
		j.conn.sendError(j.stream, out.err, flush)
		return
	}
	j.conn.send(out.frame, flush)
}

// guarded keeps a bug of ours from ending the process of the test, and lets the
// client know of it.
func (j *job) guarded() (out answer) {
	defer func() {
		if p := recover(); p != nil {
			out = answer{err: &Error{Code: CodeServer, Message: fmt.Sprintf("cqlfake failed, which is a bug: %v at %s", p, debug.Stack())}}
		}
	}()
	return j.carryOut()
}

// writeKind classifies the request for errors.
func (j *job) writeKind() writeKind {
	if j.req.Conditional() {
		return "CAS"
	}
	if j.kind == KindBatch {
		return [...]writeKind{"BATCH", "UNLOGGED_BATCH", "COUNTER"}[j.batchKind]
	}
	for _, s := range j.req.Statements {
		if isSelect(s.Text) {
			return isRead
		}
	}
	return "SIMPLE"
}

func isSelect(text string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	return strings.EqualFold(word, "SELECT")
}

// answer is what is sent: a whole frame, or an error.
type answer struct {
	frame   []byte
	err     *Error
	applied bool
}

func (j *job) answer(op opcode) []byte { return appendHeader(make([]byte, 0, 128), j.stream, op) }

func fail(err error) answer { return answer{err: asError(err)} }
