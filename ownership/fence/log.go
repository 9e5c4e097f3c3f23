package fence

import (
	"context"
	"log/slog"

	"github.com/tenure-go/tenure/ownership"
)

// KeyVerdict is the key of the verdict in what [NewLogHook] writes; the others
// are those of package ownership. It is stable.
const KeyVerdict = "verdict"

// NewLogHook returns a [ownership.Hook] that writes every verdict to log: stale
// and unknown ones as warnings, other refusals as information, the rest as debug.
// A nil log stands for slog.Default() at the time of the call.
func NewLogHook(log *slog.Logger) ownership.Hook {
	if log == nil {
		log = slog.Default()
	}
	return logHook{log}
}

type logHook struct {
	log *slog.Logger
}

func (h logHook) OnVerdict(e VerdictEvent) {
	level := slog.LevelDebug
	switch e.Verdict {
	case Stale, Unknown:
		level = slog.LevelWarn
	case NotApplied:
		level = slog.LevelInfo
	}
	attrs := []slog.Attr{
		slog.String(ownership.KeyResource, e.Stamp.Resource),
		slog.String(ownership.KeyOwner, e.Stamp.Owner),
		slog.Int64(ownership.KeyToken, int64(e.Stamp.Token)),
		slog.String(KeyVerdict, e.Verdict.String()),
	}
	if e.Err != nil {
		attrs = append(attrs, slog.String(ownership.KeyError, e.Err.Error()))
	}
	h.log.LogAttrs(context.Background(), level, "fence: "+e.Verdict.String(), attrs...)
}
