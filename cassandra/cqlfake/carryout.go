package cqlfake

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra/cqlfake/internal/engine"
)

// carryOut does what the request asks for.
func (j *job) carryOut() answer {
	switch j.kind {
	case KindOptions:
		return answer{frame: finish(appendSupported(j.answer(opSupported), j.conn.node.cluster.release()))}
	case KindStartup:
		return j.startup()
	case KindAuth:
		return j.login()
	case KindRegister:
		return j.register()
	case KindPrepare:
		id, s, err := j.conn.node.prepare(j.keyspace, j.entries[0].text)
		if err != nil {
			return fail(err)
		}
		return answer{frame: finish(appendPrepared(j.answer(opResult), id, s))}
	}
	return j.execute()
}

func appendSupported(b []byte, release int) []byte {
	b = appendShort(b, 3)
	b = appendStringList(appendString(b, "COMPRESSION"), nil)
	b = appendStringList(appendString(b, "CQL_VERSION"), []string{cqlVersion(release)})
	return appendStringList(appendString(b, "PROTOCOL_VERSIONS"), []string{"4/v4"})
}

func cqlVersion(release int) string {
	if release >= 5 {
		return "3.4.7"
	}
	return "3.4.6"
}

func (j *job) startup() answer {
	if j.options["CQL_VERSION"] == "" {
		return fail(protocolError("Missing value CQL_VERSION in STARTUP message"))
	}
	if name := j.options["COMPRESSION"]; name != "" {
		return fail(protocolError("Unknown compression algorithm: %s", name))
	}
	c := j.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.node.cluster.opts.Users) == 0 {
		c.state = ready
		return answer{frame: finish(j.answer(opReady))}
	}
	c.state = authenticating
	return answer{frame: finish(appendString(j.answer(opAuthenticate), "org.apache.cassandra.auth.PasswordAuthenticator"))}
}

// login checks what SASL calls PLAIN: an identity, a name and a password.
func (j *job) login() answer {
	bad := func(message string) answer { return answer{err: &Error{Code: CodeBadCredentials, Message: message}} }
	parts := bytes.Split(j.token, []byte{0})
	if len(parts) != 3 {
		return bad("Both username and password are required")
	}
	name, password := string(parts[1]), string(parts[2])
	if want, ok := j.conn.node.cluster.opts.Users[name]; !ok || want != password {
		return bad(fmt.Sprintf("Provided username %s and/or password are incorrect", name))
	}
	c := j.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.user = ready, name
	return answer{frame: finish(appendBytes(j.answer(opAuthSuccess), nil))}
}

func (j *job) register() answer {
	known := []string{schemaEvent, statusEvent, topologyEvent}
	for _, e := range j.events {
		if !slices.Contains(known, strings.ToUpper(e)) {
			return fail(protocolError("Invalid value '%s' for Type", e))
		}
	}
	c := j.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range j.events {
		c.schema = c.schema || strings.EqualFold(e, schemaEvent)
		c.status = c.status || strings.EqualFold(e, statusEvent)
	}
	return answer{frame: finish(j.answer(opReady))}
}

// execute runs the statements.
func (j *job) execute() answer {
	n := j.conn.node
	r := engine.Request{
		Keyspace: j.keyspace, Statements: make([]engine.Bound, len(j.entries)),
		Batch: j.kind == KindBatch, Unlogged: j.batchKind == 1, Counter: j.batchKind == 2,
		Consistency: j.consistency, Serial: j.serial, Now: n.Now(), Timestamp: j.timestamp,
		PageSize: j.pageSize, PagingState: j.pagingState, User: j.user,
	}
	system, conditional := false, false
	for i := range j.entries {
		s, err := j.statement(i)
		if err != nil {
			return fail(err)
		}
		r.Statements[i] = engine.Bound{Statement: s, Values: j.entries[i].values}
		system = system || strings.HasPrefix(s.Keyspace, "system")
		conditional = conditional || s.Conditional
	}
	result, err := n.cluster.ask(n, system, r)
	if err != nil {
		e := asError(err)
		if e.Code == CodeUnprepared && e.id == nil && j.entries[0].id != nil {
			e.id = j.entries[0].id
		}
		return answer{err: e}
	}
	switch result.Kind {
	case engine.SetKeyspace:
		j.conn.mu.Lock()
		j.conn.keyspace = result.Keyspace
		j.conn.mu.Unlock()
	case engine.SchemaChange:
		n.cluster.schemaChanged(result.Change)
	}
	return answer{
		frame:   finish(appendResult(j.answer(opResult), result, j.skip)),
		applied: conditional && applied(result),
	}
}

// applied reads the first column of what a conditional statement returns.
func applied(r engine.Result) bool {
	return len(r.Rows) > 0 && len(r.Rows[0]) > 0 && bytes.Equal(r.Rows[0][0], []byte{1})
}

// ask hands a request to the engine. Those of system tables go one at a time, for
// their rows are those of the node that is asked.
func (c *Cluster) ask(n *Node, system bool, r engine.Request) (engine.Result, error) {
	if system {
		c.systemMu.Lock()
		defer c.systemMu.Unlock()
		c.local = n
	}
	return c.engine.Execute(r)
}

// describe fills in what faults and observers see.
func (j *job) describe() {
	j.req = Request{
		Node: j.conn.node, Kind: j.kind, User: j.user,
		Consistency: gocql.Consistency(j.consistency), Serial: gocql.SerialConsistency(j.serial),
	}
	for i, e := range j.entries {
		s := Statement{Text: e.text}
		p := j.parsed[i]
		if p != nil {
			s = Statement{Text: p.Text, Keyspace: p.Keyspace, Table: p.Table, Conditional: p.Conditional}
		}
		for k, v := range e.values {
			value := Value{Name: v.Name, Bytes: v.Bytes, Unset: v.Unset}
			if p != nil && value.Name == "" && k < len(p.Variables) {
				value.Name = p.Variables[k].Name
			}
			s.Values = append(s.Values, value)
		}
		j.req.Statements = append(j.req.Statements, s)
	}
}
