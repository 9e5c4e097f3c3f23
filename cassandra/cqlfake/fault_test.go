package cqlfake_test

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra/cqlfake"
)

func isA[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// What gocql makes of each fault, and whether the row is there afterwards.
func TestFaults(t *testing.T) {
	each(t, 1, func(t *testing.T, c *cqlfake.Cluster) {
		schema(t, c)
		cfg := c.ClusterConfig()
		cfg.Timeout = 300 * time.Millisecond
		s := open(t, cfg)
		key := 0
		for _, f := range []struct {
			name    string
			fault   cqlfake.Fault
			is      func(error) bool
			applied bool
		}{
			{"drop", cqlfake.Fault{Answer: cqlfake.NoAnswer}, func(err error) bool { return errors.Is(err, gocql.ErrTimeoutNoResponse) }, false},
			{"drop the answer", cqlfake.Fault{Answer: cqlfake.NoAnswer, Apply: true}, func(err error) bool { return errors.Is(err, gocql.ErrTimeoutNoResponse) }, true},
			{"timeout before", cqlfake.Fault{Answer: cqlfake.Timeout}, isCASTimeout, false},
			{"timeout after", cqlfake.Fault{Answer: cqlfake.Timeout, Apply: true}, isCASTimeout, true},
			{"failure", cqlfake.Fault{Answer: cqlfake.Failure}, isA[*gocql.RequestErrWriteFailure], false},
			{"unavailable", cqlfake.Fault{Answer: cqlfake.Unavailable}, func(err error) bool {
				var e *gocql.RequestErrUnavailable
				return errors.As(err, &e) && e.Consistency == gocql.Consistency(gocql.Serial)
			}, false},
			{"overloaded", cqlfake.Fault{Answer: cqlfake.Overloaded}, hasCode(gocql.ErrCodeOverloaded), false},
			{"unauthorized", cqlfake.Fault{Err: &cqlfake.Error{Code: cqlfake.CodeUnauthorized, Message: "no"}}, hasCode(gocql.ErrCodeUnauthorized), false},
			{"close", cqlfake.Fault{Answer: cqlfake.CloseConnection}, isAny, false},
			{"close after", cqlfake.Fault{Answer: cqlfake.CloseConnection, Apply: true}, isAny, true},
			{"delay", cqlfake.Fault{Delay: time.Millisecond}, isNil, true},
			{"delay the answer", cqlfake.Fault{AnswerDelay: time.Millisecond}, isNil, true},
		} {
			key++
			f.fault.If = cqlfake.Request.Conditional
			i := c.Inject(f.fault)
			retry(t, func() error {
				_, err := s.Query("INSERT INTO k.t (p, c) VALUES (?, 1) IF NOT EXISTS", key).SerialConsistency(gocql.Serial).ScanCAS()
				if i.Hits() == 0 { // a connection that was closed before
					return err
				}
				if !f.is(err) {
					t.Errorf("%s: %v (%T)", f.name, err, err)
				}
				return nil
			})
			i.Remove()
			var n int
			retry(t, func() error { return s.Query("SELECT count(*) FROM k.t WHERE p = ?", key).Scan(&n) })
			if i.Hits() != 1 || n == 1 != f.applied {
				t.Errorf("%s: %d hits, %d rows", f.name, i.Hits(), n)
			}
		}
	})
}

// retry repeats what fails while gocql connects again.
func retry(t *testing.T, f func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func isAny(err error) bool { return err != nil }
func isNil(err error) bool { return err == nil }

func isCASTimeout(err error) bool {
	var e *gocql.RequestErrWriteTimeout
	return errors.As(err, &e) && e.WriteType == "CAS" && e.BlockFor == 1
}

func hasCode(code int) func(error) bool {
	return func(err error) bool {
		var e gocql.RequestError
		return errors.As(err, &e) && e.Code() == code
	}
}

func TestTimeoutsByKind(t *testing.T) {
	c := cqlfake.Start(t, cqlfake.Options{})
	s := schema(t, c)
	c.Inject(cqlfake.Fault{Times: -1, Answer: cqlfake.Timeout})
	if err := s.Query("SELECT v FROM k.t").Exec(); !isA[*gocql.RequestErrReadTimeout](err) {
		t.Errorf("read: %v", err)
	}
	writeType := func(err error) string {
		var e *gocql.RequestErrWriteTimeout
		if !errors.As(err, &e) {
			t.Errorf("no write timeout: %v", err)
			return ""
		}
		return e.WriteType
	}
	const insert = "INSERT INTO k.t (p, c) VALUES (1, 1)"
	if w := writeType(s.Query(insert).Exec()); w != "SIMPLE" {
		t.Errorf("write type %s", w)
	}
	for kind, want := range map[gocql.BatchType]string{gocql.LoggedBatch: "BATCH", gocql.UnloggedBatch: "UNLOGGED_BATCH"} {
		b := s.NewBatch(kind)
		b.Query(insert)
		if w := writeType(s.ExecuteBatch(b)); w != want {
			t.Errorf("write type %s, want %s", w, want)
		}
	}
}

func TestWhichRequestsAreHit(t *testing.T) {
	c := cqlfake.Start(t, cqlfake.Options{Nodes: 2})
	s := schema(t, c)
	exec(t, s, "CREATE TABLE k.other (p int PRIMARY KEY)")
	cfg := c.ClusterConfig()
	c.Node(1).Configure(cfg)
	second := open(t, cfg)

	byText := c.Inject(cqlfake.Fault{Statement: regexp.MustCompile("^INSERT"), Times: -1})
	byTable := c.Inject(cqlfake.Fault{Table: "k.other", Times: -1})
	byNode := c.Inject(cqlfake.Fault{Node: c.Node(1), Table: "t", Times: -1})
	nth := c.Inject(cqlfake.Fault{Table: "t", Nth: 2, Times: 2, Answer: cqlfake.Overloaded})
	var failed []int
	for i := range 5 {
		if err := second.Query("INSERT INTO k.t (p, c) VALUES (1, 1)").Exec(); err != nil {
			failed = append(failed, i)
		}
	}
	exec(t, s, "INSERT INTO k.other (p) VALUES (1)")
	b := s.NewBatch(gocql.LoggedBatch)
	b.Query("UPDATE k.t SET v = 'x' WHERE p = 1 AND c = 1")
	b.Query("DELETE FROM k.other WHERE p = 1")
	if err := s.ExecuteBatch(b); err != nil {
		t.Fatal(err)
	}
	// Of several faults that hit one request the first one counts.
	if byText.Hits() != 6 || byTable.Hits() != 1 || len(failed) != 0 {
		t.Errorf("by text %d, by table %d, by node %d, nth %d; failed: %v", byText.Hits(), byTable.Hits(), byNode.Hits(), nth.Hits(), failed)
	}
	byText.Remove()
	byNode.Remove()
	again := c.Inject(cqlfake.Fault{Node: c.Node(1), Kind: cqlfake.KindExecute | cqlfake.KindQuery, Nth: 2, Times: 2, Answer: cqlfake.Overloaded})
	failed = nil
	for i := range 5 {
		if err := second.Query("INSERT INTO k.t (p, c) VALUES (1, 1)").Exec(); err != nil {
			failed = append(failed, i)
		}
	}
	if again.Hits() != 2 || len(failed) != 2 || failed[0] != 1 || failed[1] != 2 {
		t.Errorf("%d hits; failed: %v", again.Hits(), failed)
	}
	c.Heal()
	exec(t, second, "INSERT INTO k.t (p, c) VALUES (1, 1)")
}

// A request that a node looks at late is carried out, though nobody waits for it.
func TestLateRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := cqlfake.Start(t, cqlfake.Options{})
		s := schema(t, c)
		c.Inject(cqlfake.Fault{Statement: regexp.MustCompile("INSERT"), Delay: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Query("INSERT INTO k.t (p, c) VALUES (1, 1)").WithContext(ctx).Exec(); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		rows := func() (n int) {
			if err := s.Query("SELECT count(*) FROM k.t").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := rows()
		time.Sleep(2 * time.Minute)
		if after := rows(); before != 0 || after != 1 {
			t.Errorf("%d rows before, %d after", before, after)
		}
	})
}

// An observer sees requests and answers, and can hold one up without the others.
func TestObserve(t *testing.T) {
	c := cqlfake.Start(t, cqlfake.Options{})
	s := schema(t, c)
	gate, reached := make(chan struct{}), make(chan struct{}, 1)
	var mu sync.Mutex
	var seen []cqlfake.Request
	c.Observe(func(r cqlfake.Request) {
		if len(r.Statements) == 0 || r.Statements[0].Table != "t" {
			return
		}
		if r.Conditional() && !r.Answered {
			reached <- struct{}{}
			<-gate
		}
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r)
	})
	done := make(chan error, 1)
	go func() {
		_, err := s.Query("INSERT INTO k.t (p, c, v) VALUES (?, ?, ?) IF NOT EXISTS", 1, 2, nil).ScanCAS()
		done <- err
	}()
	// The preparing of it has a condition, too.
	<-reached
	gate <- struct{}{}
	<-reached
	exec(t, s, "INSERT INTO k.t (p, c) VALUES (?, ?)", 1, 1) // passes it by
	gate <- struct{}{}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	c.Observe(nil)
	mu.Lock()
	defer mu.Unlock()
	last := seen[len(seen)-1]
	if last.Kind != cqlfake.KindExecute || !last.Answered || !last.Applied || last.Err != nil || last.Node != c.Node(0) || last.Consistency != gocql.Quorum {
		t.Errorf("%+v", last)
	}
	values := last.Statements[0].Values
	if len(values) != 3 || values[0].Name != "p" || len(values[1].Bytes) != 4 || values[1].Bytes[3] != 2 || values[2].Bytes != nil {
		t.Errorf("%+v", values)
	}
}

// Close does not wait for what a fault holds back.
func TestCloseWithFaults(t *testing.T) {
	c := cqlfake.Start(t, cqlfake.Options{})
	s := schema(t, c)
	held := c.Inject(cqlfake.Fault{Times: -1, Delay: time.Hour})
	done := make(chan error, 1)
	go func() { done <- s.Query("SELECT v FROM k.t").Exec() }()
	for held.Hits() == 0 {
		time.Sleep(time.Millisecond)
	}
	c.Close()
	if err := <-done; err == nil {
		t.Error("answered")
	}
	c.Close() // again
}
