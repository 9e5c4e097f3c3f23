package cassandra

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/ownership"
)

// notSentError marks an error that arose before anything left this process.
type notSentError struct{ err error }

func (e *notSentError) Error() string { return e.err.Error() }
func (e *notSentError) Unwrap() error { return e.err }

// classify says what an error tells about a conditional statement that was sent
// once. Only what is listed here is certain; anything else is Unknown:
//
//   - a timeout or failure of a write, whatever it claims to have received: over
//     protocol 4 the server reports one that has been decided in the same way
//   - Unavailable at the commit's level: it can be thrown after acceptance
//   - Overloaded: the hint check inside the commit throws it
//   - the end of the context: gocql reports it alike before and after the send
//   - errors of connections, and of reading the answer
func classify(err error) ownership.Outcome {
	if err == nil {
		return ownership.Applied
	}
	var notSent *notSentError
	var marshal gocql.MarshalError
	var unavailable *gocql.RequestErrUnavailable
	var request gocql.RequestError
	switch {
	case errors.As(err, &notSent),
		errors.As(err, &marshal), // gocql marshals before it sends
		errors.Is(err, gocql.ErrNoConnections),
		errors.Is(err, gocql.ErrNoStreams),
		errors.Is(err, gocql.ErrSessionClosed),
		errors.Is(err, gocql.ErrTooManyStmts),
		errors.Is(err, gocql.ErrUseStmt):
		return ownership.NotApplied
	case errors.As(err, &unavailable):
		if isSerial(unavailable.Consistency) {
			return ownership.NotApplied // the first phase did not begin
		}
		return ownership.Unknown
	case errors.As(err, &request):
		switch request.Code() {
		case gocql.ErrCodeSyntax, gocql.ErrCodeInvalid, gocql.ErrCodeUnauthorized, gocql.ErrCodeConfig,
			gocql.ErrCodeBootstrapping:
			return ownership.NotApplied
		}
	}
	return ownership.Unknown
}

func isSerial(c gocql.Consistency) bool {
	return c == gocql.Consistency(gocql.Serial) || c == gocql.Consistency(gocql.LocalSerial)
}

// blame is how much an error speaks against the coordinator that returned it, or
// did not.
type blame uint8

const (
	innocent blame = iota // it answered, or was never asked
	doubtful              // it answered that others did not: two in a row count
	guilty                // no answer
)

func blameFor(err error) blame {
	var notSent *notSentError
	var marshal gocql.MarshalError
	var request gocql.RequestError
	switch {
	case err == nil,
		errors.As(err, &notSent),
		errors.As(err, &marshal),
		errors.Is(err, context.Canceled), // our caller lost interest
		errors.Is(err, gocql.ErrNoConnections),
		errors.Is(err, gocql.ErrSessionClosed),
		errors.Is(err, gocql.ErrTooManyStmts),
		errors.Is(err, gocql.ErrUseStmt):
		return innocent
	case errors.As(err, &request):
		switch request.Code() {
		case gocql.ErrCodeUnavailable, gocql.ErrCodeWriteTimeout, gocql.ErrCodeReadTimeout, gocql.ErrCodeWriteFailure,
			gocql.ErrCodeReadFailure, gocql.ErrCodeCASWriteUnknown:
			return doubtful
		case gocql.ErrCodeServer, gocql.ErrCodeOverloaded, gocql.ErrCodeBootstrapping:
			return guilty
		}
		return innocent
	}
	return guilty // silence, a broken connection
}

// explain adds to a driver's error what it means and what to do. It wraps err.
func explain(err error) error {
	var unavailable *gocql.RequestErrUnavailable
	var request gocql.RequestError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gocql.ErrNoConnections):
		return fmt.Errorf("no node can be reached: %w; check that Cassandra is up and the addresses are right", err)
	case errors.Is(err, gocql.ErrSessionClosed):
		return fmt.Errorf("the session is closed: %w; keep it open until everything that uses it is closed", err)
	case errors.Is(err, gocql.ErrNoStreams):
		return fmt.Errorf("the connection has no room for another request: %w; raise NumConns of the cluster's configuration", err)
	case errors.As(err, &unavailable):
		return fmt.Errorf("too few replicas are up: %d of the %d that %v needs: %w",
			unavailable.Alive, unavailable.Required, unavailable.Consistency, err)
	case !errors.As(err, &request):
		return err
	}
	switch request.Code() {
	case gocql.ErrCodeUnauthorized:
		return fmt.Errorf("permission denied: %w; grant this user SELECT and MODIFY on the keyspace, and CREATE and ALTER to whoever runs CreateSchema", err)
	case gocql.ErrCodeCredentials:
		return fmt.Errorf("wrong user or password: %w; check the Authenticator of the cluster's configuration", err)
	case gocql.ErrCodeOverloaded:
		return fmt.Errorf("the node is overloaded: %w; send less", err)
	case gocql.ErrCodeBootstrapping:
		return fmt.Errorf("the node is still joining: %w", err)
	case gocql.ErrCodeInvalid, gocql.ErrCodeConfig:
		if isMissing(err) {
			return fmt.Errorf("the schema is missing: %w; run CreateSchema once", err)
		}
	}
	return err
}

// inputError marks bad input that the server or the driver noticed: it matches
// [ownership.ErrInvalid], and unwraps to their error.
type inputError struct{ err error }

func (e *inputError) Error() string        { return e.err.Error() }
func (e *inputError) Unwrap() error        { return e.err }
func (e *inputError) Is(target error) bool { return target == ownership.ErrInvalid }

// explainInput does what explain does, for statements on a table of the user's,
// where what the server calls invalid is their input, and CreateSchema no remedy.
func explainInput(err error) error {
	var marshal gocql.MarshalError
	var request gocql.RequestError
	if errors.As(err, &marshal) || errors.As(err, &request) &&
		(request.Code() == gocql.ErrCodeInvalid || request.Code() == gocql.ErrCodeSyntax) {
		return &inputError{err}
	}
	return explain(err)
}

// isMissing recognises the server's words for a keyspace or table that is not there.
func isMissing(err error) bool {
	var request gocql.RequestError
	if !errors.As(err, &request) || request.Code() != gocql.ErrCodeInvalid && request.Code() != gocql.ErrCodeConfig {
		return false
	}
	m := strings.ToLower(request.Message())
	return strings.Contains(m, "does not exist") || strings.Contains(m, "unconfigured table") || strings.Contains(m, "doesn't exist")
}
