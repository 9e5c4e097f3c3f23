package cassandra

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/ownership"
)

func TestWords(t *testing.T) {
	for cql, want := range map[string]string{
		"": "[]",
		"INSERT INTO Ks.\"T\" (a, b) VALUES (?, :fence)":                 "[insert into ks T a b values]",
		"UPDATE t SET v = 'fence ''x'' y' -- fence\nWHERE a = 1":         "[update t set v where a]",
		"UPDATE t /* fence */ SET v = $$fence$$, w = 0xab // fence":      "[update t set v w]",
		"DELETE \"a\"\"b\" FROM t WHERE id = 5132b130-ae79-11e4-ab27-08": "[delete a\"b from t where id ae79 ab27]",
		"x = 'open":      "[x]",
		"x /* open":      "[x]",
		"x $$ open":      "[x]",
		"\"open":         "[open]",
		"\"":             "[]",
		"É = fence_seq2": "[fence_seq2]",
	} {
		var got []string
		list, _ := words(cql)
		for _, w := range list {
			got = append(got, w.text)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%q: %v, want %v", cql, got, want)
		}
	}
}

func FuzzWords(f *testing.F) {
	for _, s := range []string{"", "'", "\"", "$$", "--", "/*", ":", "a.b = 'c'", "\"\"\"", "x\xff'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_ = checkStatement(s, fencedTable{keyspace: "k", name: "t", clustering: []string{"c"}}) // must not panic or hang
	})
}

// What the server takes in a conditional batch, and would get past the fence, is
// refused here. Each was tried on a real one.
func TestCheckStatement(t *testing.T) {
	table := fencedTable{keyspace: "ks", name: "shard", clustering: []string{"k", "L"}}
	for _, cql := range []string{
		"INSERT INTO shard (a, k, v) VALUES (?, ?, ?)",
		"insert into ks.shard (a, k, v) values (1, 2, 'USING TIMESTAMP fence')  IF NOT EXISTS USING TTL 60",
		"UPDATE shard USING TTL ? SET v = v + {'fence'} WHERE a = 1 AND k = 2 IF v = 'x'",
		"DELETE FROM shard WHERE a = 1 AND k = 2",
		"DELETE FROM shard WHERE a = 1 AND K > 2 IF EXISTS",
		"DELETE FROM shard WHERE a = 1 AND (k, \"L\") > (1, 2)",
		"DELETE v FROM shard WHERE a = 1 AND k = 2",
		"DELETE total FROM shard WHERE a = 1",
		"UPDATE shard SET timestamp = 1, json = 'x' WHERE a = 1 AND k = 2",
		"UPDATE shard USING TTL 5 SET timestamp = 1 WHERE a = 1 AND k = 2",
		"UPDATE shard SET v = :fence WHERE a = 1 AND k = 2",
		"UPDATE KS . \"shard\" SET v = 1.5 WHERE a = 1 AND k = 2",
		"DELETE shard FROM ks.shard WHERE a = 1 AND k = 2",
	} {
		if err := checkStatement(cql, table); err != nil {
			t.Errorf("%s\n  %v", cql, err)
		}
	}
	for cql, want := range map[string]string{
		"INSERT INTO app.other (a, k) VALUES (1, 2)":     "table is app.other: it must be ks.shard",
		"INSERT INTO other (a, k) VALUES (1, 2)":         "table is other: it must be ks.shard",
		"UPDATE app . shard SET v = 1 WHERE a = 1":       "table is app.shard: it must be ks.shard",
		"UPDATE \"Shard\" SET v = 1 WHERE a = 1":         "table is Shard: it must be ks.shard",
		"DELETE shard FROM ks.other WHERE a = 1":         "table is ks.other: it must be ks.shard",
		"INSERT INTO shard . \"fence\" (a) VALUES (1.5)": "table is shard.fence",
		"UPDATE shard SET v = ks.fence WHERE a = 1":      "name fence;",
		"":                            "INSERT, UPDATE or DELETE",
		"SELECT * FROM shard":         "INSERT, UPDATE or DELETE",
		"TRUNCATE shard":              "INSERT, UPDATE or DELETE",
		"BEGIN BATCH":                 "INSERT, UPDATE or DELETE",
		"INSERT INTO shard JSON '{}'": "JSON",
		"INSERT INTO shard (a, k) VALUES (1, 2) USING TIMESTAMP 5":                 "TIMESTAMP",
		"UPDATE shard USING TTL 5 AND TIMESTAMP ? SET v = 1 WHERE a = 1 AND k = 2": "TIMESTAMP",
		"DELETE FROM shard USING TIMESTAMP 5 WHERE a = 1 AND k = 2":                "TIMESTAMP",
		"UPDATE shard SET fence = 9 WHERE a = 1":                                   "name fence;",
		"UPDATE shard SET \"fence_seq\" = 9 WHERE a = 1":                           "fence_seq",
		"INSERT INTO shard (a, FENCE_BATCH) VALUES (1, ?)":                         "fence_batch",
		"DELETE fence FROM shard WHERE a = 1":                                      "name fence;",
		"DELETE FROM shard WHERE a = 1":                                            "whole partition",
		"DELETE FROM ks.shard WHERE a = 1 AND \"K\" = 2":                           "whole partition",
		"DELETE FROM shard WHERE a = 'k' /* k */":                                  "comment",
		"/* audit */ INSERT INTO shard (a, k) VALUES (1, 2)":                       "comment",
		"-- audit\nINSERT INTO shard (a, k) VALUES (1, 2)":                         "comment",
		"INSERT/**/INTO shard (a, k) VALUES (1, 2)":                                "comment",
		"UPDATE shard SET total = 1 --\r, fence = 1 \n WHERE a = 1":                "comment",
		"UPDATE shard SET total = 1 //\r, fence_seq = 1 \n WHERE a = 1":            "comment",
		"INSERT INTO shard --\r JSON '{}'":                                         "comment",
		"DELETE --\rFROM shard WHERE a = 1":                                        "comment",
		"DELETE FROM shard WHERE a = : k":                                          "whole partition",
		"DELETE FROM shard WHERE a = :\"k\"":                                       "whole partition",
		"INSERT INTO shard (a, k) VALUES (1, 2) USING TTL : x AND TIMESTAMP : y":   "TIMESTAMP",
		"INSERT INTO shard (a, k) VALUES (1, 2) USING TTL :\"x\" AND TIMESTAMP 9":  "TIMESTAMP",
		"DELETE FROM shard WHERE a = 1 IF k = 2":                                   "whole partition",
	} {
		err := checkStatement(cql, table)
		if !errors.Is(err, ownership.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n  %v\nwant it to mention %q", cql, err, want)
		}
	}
	// A table may have a name of the fence's words.
	if err := checkStatement("INSERT INTO fence.fence_seq (a, k) VALUES (1, 2)", fencedTable{keyspace: "fence", name: "fence_seq", clustering: []string{"k"}}); err != nil {
		t.Error(err)
	}
	if err := checkStatement("UPDATE fence SET fence = 1 WHERE a = 1", fencedTable{keyspace: "ks", name: "fence", clustering: []string{"k"}}); err == nil {
		t.Error("the column of a table of the same name is not noticed")
	}
}
