// Report reads the JSON of go test and says what failed, was skipped and ran.
//
//	report NAME < JSON          the output of every failed test, then a count
//	report total FILE...        one closing line over several runs
//
// It exits 1 if a test failed, if a package did not build, if none ran, or if one
// was skipped for any other reason than a capability that an adapter declares not
// to have ("not applicable: …"): under CI nothing else may be skipped.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

type counts struct {
	passed, failed, skipped int
	missing                 int // of the skipped, those that should have run
	broken                  []string
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: report NAME < JSON, or report total FILE...")
		os.Exit(2)
	}
	var c counts
	if os.Args[1] == "total" {
		for _, name := range os.Args[2:] {
			f, err := os.Open(name)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(2)
			}
			c.read(f, false)
			f.Close()
		}
		fmt.Printf("%d passed, %d failed, %d skipped\n", c.passed, c.failed+len(c.broken), c.skipped)
	} else {
		c.read(os.Stdin, true)
		fmt.Printf("%s: %d passed, %d failed, %d skipped\n", os.Args[1], c.passed, c.failed+len(c.broken), c.skipped)
	}
	if c.failed > 0 || c.missing > 0 || len(c.broken) > 0 || c.passed == 0 {
		os.Exit(1)
	}
}

// read counts a stream of events; show prints the output of what failed or was
// skipped, and the log lines that tests mark as figures.
func (c *counts) read(r io.Reader, show bool) {
	output := map[string]*strings.Builder{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	failedTests := map[string]bool{}
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			if show {
				fmt.Println(lines.Text())
			}
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "output", "build-output":
			if output[key] == nil {
				output[key] = &strings.Builder{}
			}
			output[key].WriteString(e.Output)
			if show && strings.Contains(e.Output, "FIGURE ") {
				fmt.Println(strings.TrimSpace(e.Output))
			}
		case "pass":
			if e.Test != "" {
				c.passed++
			} else if show {
				fmt.Printf("ok   %s %v\n", e.Package, time.Duration(e.Elapsed*float64(time.Second)))
			}
		case "fail", "build-fail":
			if e.Test != "" {
				c.failed++
				failedTests[e.Package] = true
			} else if e.Package != "" && !failedTests[e.Package] {
				c.broken = append(c.broken, e.Package)
			}
			if show {
				fmt.Printf("FAIL %s\n%s", key, text(output[key]))
			}
		case "skip":
			if e.Test != "" {
				c.skipped++
				if strings.Contains(text(output[key]), "not applicable: ") {
					break
				}
				c.missing++
				if show {
					fmt.Printf("SKIP %s\n%s", key, text(output[key]))
				}
			}
		}
		if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
			delete(output, key)
		}
	}
}

func text(b *strings.Builder) string {
	if b == nil {
		return ""
	}
	return b.String()
}
