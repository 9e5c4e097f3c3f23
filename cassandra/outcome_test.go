package cassandra

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/ownership"
)

// serverError is what gocql makes of an error that has a code only.
type serverError struct {
	code    int
	message string
}

func (e serverError) Code() int       { return e.code }
func (e serverError) Message() string { return e.message }
func (e serverError) Error() string   { return e.message }

func unavailable(c gocql.Consistency) error {
	return &gocql.RequestErrUnavailable{Consistency: c, Required: 2, Alive: 1}
}

// Every error that gocql can return for a conditional statement: what is not
// provably without effect is unknown (DESIGN 8.4; gocql#1308, ShedLock#466).
func TestClassify(t *testing.T) {
	const no, unknown = ownership.NotApplied, ownership.Unknown
	for _, c := range []struct {
		err  error
		want ownership.Outcome
	}{
		{&notSentError{context.Canceled}, no},
		{&notSentError{errors.New("any")}, no},
		{gocql.MarshalError("no"), no},
		{gocql.ErrNoConnections, no},
		{gocql.ErrNoStreams, no},
		{gocql.ErrSessionClosed, no},
		{gocql.ErrTooManyStmts, no},
		{gocql.ErrUseStmt, no},
		{unavailable(gocql.Consistency(gocql.Serial)), no},
		{unavailable(gocql.Consistency(gocql.LocalSerial)), no},
		{serverError{code: gocql.ErrCodeSyntax}, no},
		{serverError{code: gocql.ErrCodeInvalid}, no},
		{serverError{code: gocql.ErrCodeUnauthorized}, no},
		{serverError{code: gocql.ErrCodeConfig}, no},
		{serverError{code: gocql.ErrCodeBootstrapping}, no},

		{unavailable(gocql.Quorum), unknown},
		{unavailable(gocql.LocalQuorum), unknown},
		{unavailable(gocql.One), unknown},
		{&gocql.RequestErrWriteTimeout{WriteType: "CAS", Received: 0, BlockFor: 2}, unknown},
		{&gocql.RequestErrWriteTimeout{WriteType: "SIMPLE", Received: 2, BlockFor: 2}, unknown},
		{&gocql.RequestErrWriteFailure{}, unknown},
		{&gocql.RequestErrCASWriteUnknown{}, unknown},
		{&gocql.RequestErrCDCWriteFailure{}, unknown},
		{&gocql.RequestErrReadTimeout{}, unknown},
		{&gocql.RequestErrReadFailure{}, unknown},
		{&gocql.RequestErrUnprepared{}, unknown},
		{&gocql.RequestErrFunctionFailure{}, unknown},
		{&gocql.RequestErrAlreadyExists{}, unknown},
		{serverError{code: gocql.ErrCodeServer}, unknown},
		{serverError{code: gocql.ErrCodeProtocol}, unknown},
		{serverError{code: gocql.ErrCodeCredentials}, unknown},
		{serverError{code: gocql.ErrCodeOverloaded}, unknown},
		{serverError{code: gocql.ErrCodeTruncate}, unknown},
		{serverError{code: gocql.ErrCodeUnavailable}, unknown},
		{serverError{code: gocql.ErrCodeWriteTimeout}, unknown},
		{serverError{code: gocql.ErrCodeWriteFailure}, unknown},
		{serverError{code: gocql.ErrCodeCASWriteUnknown}, unknown},
		{serverError{code: 0x7777}, unknown},
		{gocql.ErrTimeoutNoResponse, unknown},
		{gocql.ErrConnectionClosed, unknown},
		{gocql.ErrTooManyTimeouts, unknown},
		{gocql.ErrNotFound, unknown},
		{gocql.ErrUnavailable, unknown},
		{gocql.ErrUnsupported, unknown},
		{gocql.ErrHostQueryFailed, unknown},
		{gocql.ErrNoConnectionsStarted, unknown},
		{gocql.ErrUnknownRetryType, unknown},
		{gocql.ErrNoMetadata, unknown},
		{gocql.NewErrProtocol("frame"), unknown},
		{gocql.UnmarshalError("scan"), unknown},
		{context.Canceled, unknown},
		{context.DeadlineExceeded, unknown},
		{io.EOF, unknown},
		{&net.OpError{Op: "write", Err: syscall.ECONNRESET}, unknown},
		{errNoApplied, unknown},
		{errors.New("the driver panicked: x"), unknown},
	} {
		for _, err := range []error{c.err, fmt.Errorf("wrapped: %w", c.err)} {
			if got := classify(err); got != c.want {
				t.Errorf("%T %v: %v, want %v", c.err, err, got, c.want)
			}
			for _, e := range []error{explain(err), explainInput(err)} {
				if !errors.Is(e, err) || classify(e) != c.want || blameFor(e) != blameFor(err) {
					t.Errorf("%v loses %v, or what that tells", e, err)
				}
			}
		}
	}
	if classify(nil) != ownership.Applied || explain(nil) != nil {
		t.Error("nil is no error")
	}
}

func TestBlame(t *testing.T) {
	for _, c := range []struct {
		err  error
		want blame
	}{
		{nil, innocent},
		{&notSentError{context.DeadlineExceeded}, innocent},
		{context.Canceled, innocent},
		{gocql.ErrNoConnections, innocent},
		{gocql.MarshalError("x"), innocent},
		{serverError{code: gocql.ErrCodeInvalid}, innocent},
		{serverError{code: gocql.ErrCodeUnauthorized}, innocent},
		{serverError{code: gocql.ErrCodeWriteTimeout}, doubtful},
		{serverError{code: gocql.ErrCodeUnavailable}, doubtful},
		{serverError{code: gocql.ErrCodeOverloaded}, guilty},
		{context.DeadlineExceeded, guilty},
		{gocql.ErrTimeoutNoResponse, guilty},
		{gocql.ErrConnectionClosed, guilty},
		{io.EOF, guilty},
	} {
		if got := blameFor(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

// Errors are in lower case and say what to do.
func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{gocql.ErrNoConnections, "check that Cassandra is up"},
		{gocql.ErrSessionClosed, "keep it open"},
		{gocql.ErrNoStreams, "NumConns"},
		{unavailable(gocql.Quorum), "1 of the 2 that QUORUM needs"},
		{serverError{gocql.ErrCodeUnauthorized, "User x has no MODIFY permission"}, "grant"},
		{serverError{gocql.ErrCodeCredentials, "bad"}, "Authenticator"},
		{serverError{gocql.ErrCodeInvalid, "keyspace ks does not exist"}, "CreateSchema"},
		{serverError{gocql.ErrCodeInvalid, "unconfigured table tenure_session"}, "CreateSchema"},
		{serverError{gocql.ErrCodeOverloaded, "busy"}, "send less"},
	} {
		if got := explain(c.err).Error(); !strings.Contains(got, c.want) || got[0] < 'a' || got[0] > 'z' {
			t.Errorf("%q: want it to mention %q", got, c.want)
		}
	}
	for text, want := range map[string]string{
		"gocql: unable to create session: unable to discover protocol version: Provided username x and/or password are incorrect":    "the login failed",
		"gocql: unable to create session: failed to resolve any of the provided hostnames":                                           "no address can be resolved",
		"gocql: unable to create session: unable to discover protocol version: dial tcp 127.0.0.1:9042: connect: connection refused": "no node answers",
	} {
		if got := explainConnect(errors.New(text)).Error(); !strings.Contains(got, want) {
			t.Errorf("%q: want it to mention %q", got, want)
		}
	}
	if got := explainConnect(gocql.ErrNoConnectionsStarted).Error(); !strings.Contains(got, "keyspace exists") {
		t.Errorf("%q: want it to mention the keyspace", got)
	}
}

// What the server or the driver calls bad input of the user's is ErrInvalid, and
// nothing else is. CreateSchema does not help a table of theirs.
func TestExplainInput(t *testing.T) {
	for _, err := range []error{
		serverError{gocql.ErrCodeInvalid, "unconfigured table ledger"},
		serverError{gocql.ErrCodeSyntax, "line 1"},
		gocql.MarshalError("no"),
	} {
		if got := explainInput(err); !errors.Is(got, ownership.ErrInvalid) || strings.Contains(got.Error(), "CreateSchema") {
			t.Errorf("%v; want bad input", got)
		}
	}
	for _, err := range []error{
		serverError{gocql.ErrCodeUnauthorized, "x"}, serverError{gocql.ErrCodeOverloaded, "x"}, serverError{gocql.ErrCodeServer, "x"},
		unavailable(gocql.Quorum), gocql.ErrSessionClosed, context.Canceled, io.EOF,
	} {
		if got := explainInput(err); errors.Is(got, ownership.ErrInvalid) {
			t.Errorf("%v is no bad input", got)
		}
	}
	if explainInput(nil) != nil {
		t.Error("nil is no error")
	}
}
