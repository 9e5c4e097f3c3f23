package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// play tells the story as often as opts say, and reports whether every
// expectation held.
func play(ctx context.Context, opts options, out io.Writer) (ok bool, err error) {
	if len(opts.hosts) > 0 && !opts.json {
		fmt.Fprintf(out, "Connecting to Cassandra at %s, and making what is missing in keyspace %s …\n\n", strings.Join(opts.hosts, ", "), opts.keyspace)
	}
	th, err := openTheatre(ctx, opts)
	if err != nil {
		return false, err
	}
	defer th.close()
	if opts.repeat == 1 {
		return playOnce(ctx, th, opts, out)
	}
	return playMany(ctx, th, opts, out)
}

// theatre is where stages come from.
type theatre struct {
	title string // what the stages are, for people
	stage func() stage
	close func()
}

func openTheatre(ctx context.Context, opts options) (*theatre, error) {
	if len(opts.hosts) > 0 {
		return openCassandra(ctx, opts)
	}
	return &theatre{
		title: "memory store, workers in this process",
		stage: func() stage { return newMemoryStage(opts.timing, !opts.unfenced) },
		close: func() {},
	}, nil
}

func playOnce(ctx context.Context, th *theatre, opts options, out io.Writer) (bool, error) {
	p := opts.plans()[0]
	tl := newTimeline(out, opts.json, 1)
	tl.text(title(opts, th), "")
	r, checks, err := tell(ctx, th.stage(), p, tl)
	if err != nil {
		return false, err
	}
	tl.text("", "What must hold")
	for _, c := range checks {
		tl.check(c)
	}
	tl.result(r)
	tl.text("", "What you saw")
	for _, line := range summary(r) {
		tl.text("  " + line)
	}
	return r.OK, nil
}

func title(opts options, th *theatre) string {
	kind := "a fenced table"
	if opts.unfenced {
		kind = "a table WITHOUT the fence"
	}
	return fmt.Sprintf("The late write, on %s (%s; lease of %v)", kind, th.title, opts.ttl)
}

// summary is the story in three lines.
func summary(r result) []string {
	if !r.OK {
		return []string{
			fmt.Sprintf("%d of the expectations above did not hold.", r.Failed),
			"That is not the story this program means to tell: on a real cluster, look for timeouts and for clocks that differ;",
			"in this process it is a bug, and we would like to hear of it.",
		}
	}
	believed := map[point]string{
		beforeCheck:  "A fell asleep before it looked at its lease, and slept through its end.",
		afterCheck:   "A checked its lease, fell asleep, slept through the lease's end, and went on to write.",
		inFlight:     "A checked its lease and sent its write; then it fell asleep, and the network took its time.",
		afterSending: "A fell asleep with a write just made, slept through its lease's end, and went on to the next.",
	}[r.Point]
	took := fmt.Sprintf("Meanwhile B had taken over under the higher token %d, and had written.", r.TokenB)
	if r.Fenced {
		return []string{believed, took,
			fmt.Sprintf("The table has seen token %d, so it refused A's late write under token %d. Nothing is lost. Now try --unfenced.", r.TokenB, r.TokenA)}
	}
	return []string{believed, took,
		"This table checks no token, so A's late write replaced B's, and nobody was told. The fence prevents that."}
}

func playMany(ctx context.Context, th *theatre, opts options, out io.Writer) (bool, error) {
	main := newTimeline(out, opts.json, 0)
	main.text(title(opts, th), fmt.Sprintf("%d times, seed %d", opts.repeat, opts.seed), "")
	var (
		good     int
		told     = map[point]int{}
		takeover []int64
	)
	for i, p := range opts.plans() {
		var quiet bytes.Buffer
		tl := newTimeline(&quiet, false, i+1)
		if opts.json {
			tl = newTimeline(out, true, i+1)
		}
		r, checks, err := tell(ctx, th.stage(), p, tl)
		if err != nil {
			return false, err
		}
		for _, c := range checks {
			tl.check(c)
		}
		tl.result(r)
		main.text(brief(i+1, opts.repeat, r))
		if !r.OK {
			main.text(strings.TrimRight(quiet.String(), "\n"))
		}
		told[p.at]++
		if r.OK {
			good++
			takeover = append(takeover, r.Takeover)
		}
	}
	main.text("", closing(opts, good, told, takeover))
	return good == opts.repeat, nil
}

// brief is one repetition in one line.
func brief(n, of int, r result) string {
	word := "ok"
	if !r.OK {
		word = "FAILED"
	}
	return fmt.Sprintf("%4d/%d  %-6s  A frozen %-13s  tokens %d, %d  takeover %.2fs  first look %-7s  late write %s",
		n, of, word, r.Point.name(), r.TokenA, r.TokenB, float64(r.Takeover)/1000, r.FirstLook, r.Verdict)
}

func closing(opts options, good int, told map[point]int, takeover []int64) string {
	var parts []string
	for _, p := range points {
		if told[p] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", p.name(), told[p]))
		}
	}
	if len(takeover) > 0 {
		parts = append(parts, fmt.Sprintf("takeover after %v to %v", time.Duration(slices.Min(takeover))*time.Millisecond,
			time.Duration(slices.Max(takeover))*time.Millisecond))
	}
	what := "the late write refused, nothing lost"
	if opts.unfenced {
		what = "the damage shown"
	}
	return fmt.Sprintf("%d of %d: %s (%s)", good, opts.repeat, what, strings.Join(parts, ", "))
}
