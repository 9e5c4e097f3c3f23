package cqlfake

import (
	"errors"
	"fmt"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra/cqlfake/internal/engine"
)

// Code is the code of an error in the native protocol.
type Code int32

// The codes of version 4. gocql has a type for each that has fields.
const (
	CodeServer         Code = 0x0000
	CodeProtocol       Code = 0x000A
	CodeBadCredentials Code = 0x0100
	CodeUnavailable    Code = 0x1000
	CodeOverloaded     Code = 0x1001
	CodeBootstrapping  Code = 0x1002
	CodeTruncate       Code = 0x1003
	CodeWriteTimeout   Code = 0x1100
	CodeReadTimeout    Code = 0x1200
	CodeReadFailure    Code = 0x1300
	CodeFunction       Code = 0x1400
	CodeWriteFailure   Code = 0x1500
	CodeSyntax         Code = 0x2000
	CodeUnauthorized   Code = 0x2100
	CodeInvalid        Code = 0x2200
	CodeConfig         Code = 0x2300
	CodeAlreadyExists  Code = 0x2400
	CodeUnprepared     Code = 0x2500
)

// Error is an ERROR that a node answers. Which fields count depends on the code.
// In a [Fault], those left at zero are filled in to suit the request.
type Error struct {
	Code    Code
	Message string

	// Consistency, of unavailable, timeouts and failures.
	Consistency gocql.Consistency
	// Required is how many replicas had to answer, and Alive (unavailable) or
	// Received (timeouts, failures) how many did. Failures is how many failed.
	Required, Alive, Received, Failures int
	// WriteType of a write timeout or failure: SIMPLE, BATCH, UNLOGGED_BATCH,
	// COUNTER, BATCH_LOG, CAS, VIEW or CDC.
	WriteType string
	// DataPresent, of a read timeout or failure: a replica had sent data.
	DataPresent bool
	// Keyspace and Table of what already exists; a keyspace has no table.
	Keyspace, Table string

	id []byte // of the statement that is not prepared
}

func (e *Error) Error() string { return fmt.Sprintf("%#04x: %s", int32(e.Code), e.Message) }

// asError turns what the engine returns into what the wire carries.
func asError(err error) *Error {
	var own *Error
	var inner *engine.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &inner):
		return &Error{Code: Code(inner.Code), Message: inner.Message, Keyspace: inner.Keyspace, Table: inner.Table}
	}
	return &Error{Code: CodeServer, Message: err.Error()}
}

func protocolError(format string, args ...any) *Error {
	return &Error{Code: CodeProtocol, Message: fmt.Sprintf(format, args...)}
}

// appendError appends the body of an ERROR.
func appendError(b []byte, e *Error) []byte {
	b = appendInt(b, int(e.Code))
	b = appendString(b, e.Message)
	level := func() { b = appendShort(b, int(e.Consistency)) }
	flag := func(set bool) {
		if set {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	switch e.Code {
	case CodeUnavailable:
		level()
		b = appendInt(appendInt(b, e.Required), e.Alive)
	case CodeWriteTimeout:
		level()
		b = appendString(appendInt(appendInt(b, e.Received), e.Required), e.WriteType)
	case CodeReadTimeout:
		level()
		b = appendInt(appendInt(b, e.Received), e.Required)
		flag(e.DataPresent)
	case CodeReadFailure:
		level()
		b = appendInt(appendInt(appendInt(b, e.Received), e.Required), e.Failures)
		flag(e.DataPresent)
	case CodeWriteFailure:
		level()
		b = appendString(appendInt(appendInt(appendInt(b, e.Received), e.Required), e.Failures), e.WriteType)
	case CodeFunction:
		b = appendStringList(appendString(appendString(b, e.Keyspace), e.Table), nil)
	case CodeAlreadyExists:
		b = appendString(appendString(b, e.Keyspace), e.Table)
	case CodeUnprepared:
		b = append(appendShort(b, len(e.id)), e.id...)
	}
	return b
}

// writeKind is what a request is to those who time out on it: isRead, or the write
// type of the protocol.
type writeKind string

const isRead writeKind = ""

// suit returns a copy of e with the fields filled in that a server would fill in.
func (e *Error) suit(r Request, kind writeKind) *Error {
	s := *e
	cas := r.Conditional()
	if s.Consistency == 0 {
		s.Consistency = r.Consistency
		if cas && (s.Code != CodeWriteFailure) {
			s.Consistency = gocql.Consistency(r.Serial)
			if r.Serial == 0 {
				s.Consistency = gocql.Consistency(gocql.Serial)
			}
		}
	}
	s.Required = max(s.Required, 1)
	if s.WriteType == "" {
		s.WriteType = string(kind)
	}
	if s.Code == CodeReadFailure || s.Code == CodeWriteFailure {
		s.Failures = max(s.Failures, 1)
	}
	if s.Message == "" {
		s.Message = s.text()
	}
	return &s
}

func (e *Error) text() string {
	switch e.Code {
	case CodeUnavailable:
		return fmt.Sprintf("Cannot achieve consistency level %v", e.Consistency)
	case CodeWriteTimeout:
		if e.WriteType == "CAS" {
			return fmt.Sprintf("CAS operation timed out: received %d of %d required responses after 0 contention retries", e.Received, e.Required)
		}
		return fmt.Sprintf("Operation timed out - received only %d responses.", e.Received)
	case CodeReadTimeout:
		return fmt.Sprintf("Operation timed out - received only %d responses.", e.Received)
	case CodeReadFailure, CodeWriteFailure:
		return fmt.Sprintf("Operation failed - received %d responses and %d failures", e.Received, e.Failures)
	case CodeOverloaded:
		return "Request is overloaded: injected"
	}
	return "injected fault"
}
