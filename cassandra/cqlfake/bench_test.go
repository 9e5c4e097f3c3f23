package cqlfake_test

import (
	"sync/atomic"
	"testing"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra/cqlfake"
)

// BenchmarkConditional counts conditional statements through gocql; run it with
// -cpu 1 for the figure of one core. Clients and server share the core.
func BenchmarkConditional(b *testing.B) {
	for _, transport := range []struct {
		name string
		opts cqlfake.Options
	}{{"memory", cqlfake.Options{}}, {"TCP", cqlfake.Options{Listen: "127.0.0.1:0"}}} {
		for _, statement := range []struct {
			name string
			run  func(s *gocql.Session, i int64) error
		}{
			{"inserted", func(s *gocql.Session, i int64) error {
				_, err := s.Query("INSERT INTO k.t (p, c, v) VALUES (?, ?, 'x') IF NOT EXISTS", i, 1).MapScanCAS(map[string]any{})
				return err
			}},
			{"updated", func(s *gocql.Session, i int64) error {
				_, err := s.Query("UPDATE k.t SET v = 'y' WHERE p = ? AND c = ? IF v != 'z'", i%1000, 1).MapScanCAS(map[string]any{})
				return err
			}},
			{"refused", func(s *gocql.Session, _ int64) error {
				_, err := s.Query("UPDATE k.t SET v = 'y' WHERE p = ? AND c = ? IF v = 'z'", 1, 1).MapScanCAS(map[string]any{})
				return err
			}},
		} {
			b.Run(transport.name+"/"+statement.name, func(b *testing.B) {
				s := schema(b, cqlfake.Start(b, transport.opts))
				var next atomic.Int64
				b.SetParallelism(16)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := statement.run(s, next.Add(1)); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "statements/s")
			})
		}
	}
}
