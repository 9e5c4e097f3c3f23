package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// timeline prints what happens, in the order in which the parent learns of it: as
// text for people, or as one JSON object a line. It is safe for concurrent use.
type timeline struct {
	mu         sync.Mutex
	out        io.Writer
	json       bool
	start      time.Time
	repetition int
}

func newTimeline(out io.Writer, asJSON bool, repetition int) *timeline {
	return &timeline{out: out, json: asJSON, start: time.Now(), repetition: repetition}
}

// director is who freezes and thaws; it has no token and no state.
const director = "demo"

// row is one line of the timeline.
type row struct {
	Who     string `json:"who"`
	Token   int64  `json:"token,omitempty"`
	State   string `json:"state,omitempty"`
	Verdict string `json:"verdict,omitempty"` // of the table
	Text    string `json:"text"`
}

const rowFormat = "%8s  %-4s  %5s  %-9s  %-9s  %s"

func (r row) format(at time.Duration) string {
	token, state := fmt.Sprint(r.Token), r.State
	if r.Token == 0 {
		token = "-"
	}
	if r.State == "" {
		state = "-"
	}
	if r.Who == director {
		token, state = "", ""
	}
	line := fmt.Sprintf(rowFormat, fmt.Sprintf("%.2fs", at.Seconds()), r.Who, token, state, r.Verdict, r.Text)
	return strings.TrimRight(line, " ")
}

// check is an expectation and whether it held.
type check struct {
	OK   bool   `json:"ok"`
	Text string `json:"text"`
	Got  string `json:"got,omitempty"` // what was found where it did not hold
}

func (c check) format() string {
	if c.OK {
		return "  ok      " + c.Text
	}
	return "  FAILED  " + c.Text + ": " + c.Got
}

// result is how one repetition went.
type result struct {
	OK        bool   `json:"ok"`
	Fenced    bool   `json:"fenced"`
	Point     point  `json:"point"`
	TokenA    int64  `json:"token_a"`
	TokenB    int64  `json:"token_b"`
	Takeover  int64  `json:"takeover_ms"`  // from A's freeze until B owned it
	FirstLook string `json:"first_look"`   // A's state at its first look after waking
	Verdict   string `json:"late_verdict"` // of the table, on A's late write
	Lost      int64  `json:"lost_ms"`      // from A's first look until its tenure was lost
	Total     int64  `json:"total_ms"`
	Failed    int    `json:"failed"`
}

func (t *timeline) header() {
	t.text(strings.TrimRight(fmt.Sprintf(rowFormat, "time", "who", "token", "state", "verdict", "what happens"), " "))
}

func (t *timeline) row(r row) {
	at := time.Since(t.start)
	t.text(r.format(at))
	t.object(struct {
		Kind       string `json:"kind"`
		Repetition int    `json:"repetition"`
		Ms         int64  `json:"ms"`
		row
	}{"row", t.repetition, at.Milliseconds(), r})
}

func (t *timeline) check(c check) {
	t.text(c.format())
	t.object(struct {
		Kind       string `json:"kind"`
		Repetition int    `json:"repetition"`
		check
	}{"check", t.repetition, c})
}

func (t *timeline) result(r result) {
	t.object(struct {
		Kind       string `json:"kind"`
		Repetition int    `json:"repetition"`
		result
	}{"result", t.repetition, r})
}

// text writes lines for people.
func (t *timeline) text(lines ...string) {
	if t.json {
		return
	}
	t.write(strings.Join(lines, "\n") + "\n")
}

// object writes a line for scripts.
func (t *timeline) object(v any) {
	if !t.json {
		return
	}
	line, err := json.Marshal(v)
	if err != nil { // plain structs always encode
		line = fmt.Appendf(nil, "%q", err.Error())
	}
	t.write(string(line) + "\n")
}

func (t *timeline) write(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = io.WriteString(t.out, s) // a reader that is gone ends the process by SIGPIPE
}
