package ownership

import (
	"context"
	"log/slog"
)

// Keys of the attributes that [NewLogHook] writes. They are stable: alerts and
// queries may rely on them.
const (
	KeyResource  = "resource"
	KeyResources = "resources"
	KeyOwner     = "owner"
	KeyToken     = "token"
	KeyFrom      = "from"
	KeyTo        = "to"
	KeyCause     = "cause"
	KeyRemaining = "remaining"
	KeyInState   = "in_state"
	KeySession   = "session"
	KeyOutcome   = "outcome"
	KeyLatency   = "latency"
	KeyTenures   = "tenures"
	KeyOp        = "op"
	KeyError     = "error"
	KeyAttempt   = "attempt"
	KeyWaited    = "waited"
)

// NewLogHook returns a [Hook] that writes every event to log: loss and trouble
// as warnings, changes of hands as information, renewals and claims as debug. A nil
// log stands for slog.Default() at the time of the call.
func NewLogHook(log *slog.Logger) Hook {
	if log == nil {
		log = slog.Default()
	}
	return logHook{log}
}

type logHook struct {
	log *slog.Logger
}

func (h logHook) write(level slog.Level, msg string, attrs ...slog.Attr) {
	h.log.LogAttrs(context.Background(), level, msg, attrs...)
}

func (h logHook) OnTransition(e Transition) {
	level := slog.LevelInfo
	if e.To == Suspect || e.To == Lost {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String(KeyResource, e.Tenure.Resource()),
		slog.String(KeyOwner, e.Tenure.Owner().String()),
		slog.Int64(KeyToken, int64(e.Tenure.Token())),
		slog.String(KeyFrom, e.From.String()),
		slog.String(KeyTo, e.To.String()),
		slog.Duration(KeyRemaining, e.Remaining),
		slog.Duration(KeyInState, e.InState),
	}
	if e.Cause != nil {
		attrs = append(attrs, slog.String(KeyCause, e.Cause.Error()))
	}
	h.write(level, "tenure "+e.To.String(), attrs...)
}

func (h logHook) OnClaim(e ClaimEvent) {
	level := slog.LevelDebug
	if e.Outcome == Unknown {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.Any(KeyResources, e.Resources),
		slog.String(KeyOwner, e.Owner.String()),
		slog.Int64(KeyToken, int64(e.Token)),
		slog.String(KeyOutcome, e.Outcome.String()),
		slog.Duration(KeyLatency, e.Latency),
	}
	h.write(level, "claim", withError(attrs, e.Err)...)
}

func (h logHook) OnTrouble(e TroubleEvent) {
	h.write(slog.LevelWarn, "acquire waits out trouble",
		slog.String(KeyResource, e.Resource),
		slog.String(KeyOwner, e.Owner.String()),
		slog.Int(KeyAttempt, e.Attempt),
		slog.Duration(KeyWaited, e.Waited),
		slog.String(KeyError, e.Err.Error()))
}

func (h logHook) OnRenewal(e RenewalEvent) {
	level := slog.LevelDebug
	if e.Outcome != Applied {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String(KeySession, e.Session),
		slog.String(KeyOwner, e.Owner.String()),
		slog.String(KeyOutcome, e.Outcome.String()),
		slog.Duration(KeyLatency, e.Latency),
		slog.Duration(KeyRemaining, e.Remaining),
		slog.Int(KeyTenures, e.Tenures),
	}
	h.write(level, "renewal", withError(attrs, e.Err)...)
}

func (h logHook) OnSession(e SessionEvent) {
	level, msg := slog.LevelInfo, "session opened"
	if !e.Open {
		msg = "session ended"
		if e.Cause != nil {
			level = slog.LevelWarn
		}
	}
	attrs := []slog.Attr{slog.String(KeySession, e.Session), slog.String(KeyOwner, e.Owner.String())}
	if e.Cause != nil {
		attrs = append(attrs, slog.String(KeyCause, e.Cause.Error()))
	}
	h.write(level, msg, attrs...)
}

func (h logHook) OnUnknown(e UnknownEvent) {
	level, msg := slog.LevelWarn, "outcome unknown"
	if e.Resolved != Unknown {
		level, msg = slog.LevelInfo, "unknown outcome resolved"
	}
	attrs := []slog.Attr{
		slog.String(KeyOp, e.Op),
		slog.String(KeyResource, e.Resource),
		slog.String(KeyOutcome, e.Resolved.String()),
	}
	h.write(level, msg, withError(attrs, e.Err)...)
}

func withError(attrs []slog.Attr, err error) []slog.Attr {
	if err == nil {
		return attrs
	}
	return append(attrs, slog.String(KeyError, err.Error()))
}
