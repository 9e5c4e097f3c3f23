package cassandra

import (
	"slices"
	"strings"

	"github.com/tenure-go/tenure/ownership"
)

// word is an identifier or keyword of a CQL text as the server reads it: in lower
// case, or as it is if it was quoted.
type word struct {
	text   string
	quoted bool
	dotted bool // it follows a dot
}

func (w word) is(keyword string) bool { return !w.quoted && w.text == keyword }

// words returns the identifiers and keywords of a CQL text, in order, without
// comments, literals and symbols.
func words(cql string) (list []word, comments bool) {
	value := false // the next name is that of a marker, no column
	dot := false   // the next name follows a dot
	add := func(w word) {
		w.dotted = dot
		if !value {
			list = append(list, w)
		}
		value, dot = false, false
	}
	for i := 0; i < len(cql); {
		rest := cql[i:]
		c := rest[0]
		switch {
		case strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "//"):
			comments = true
			if n := strings.IndexAny(rest, "\r\n"); n >= 0 {
				i += n + 1
			} else {
				i = len(cql)
			}
		case strings.HasPrefix(rest, "/*"):
			comments = true
			i += 2 + upTo(rest[2:], "*/")
		case strings.HasPrefix(rest, "$$"):
			i += 2 + upTo(rest[2:], "$$")
		case c == '\'' || c == '"':
			n := closing(rest, c)
			if c == '"' {
				text := strings.TrimSuffix(rest[1:n], `"`)
				add(word{text: strings.ReplaceAll(text, `""`, `"`), quoted: true})
			}
			i += n
		case c == ':': // a named marker is no column
			i++
			value, dot = true, false
		case letter(c) || digit(c):
			n := 1
			for n < len(rest) && (letter(rest[n]) || digit(rest[n]) || rest[n] == '_') {
				n++
			}
			if letter(c) { // else a number, or a part of a uuid
				add(word{text: strings.ToLower(rest[:n])})
			}
			value, dot = false, false
			i += n
		default:
			blank := c == ' ' || c == '\t' || c == '\n' || c == '\r'
			value, dot = value && blank, c == '.' || dot && blank
			i++
		}
	}
	return list, comments
}

// upTo returns the length of s up to and including end, or of all of it.
func upTo(s, end string) int {
	if i := strings.Index(s, end); i >= 0 {
		return i + len(end)
	}
	return len(s)
}

// closing returns the length of a quoted text at the head of s, where a doubled
// quote stands for itself.
func closing(s string, quote byte) int {
	for i := 1; i < len(s); i++ {
		if s[i] != quote {
			continue
		}
		if i+1 < len(s) && s[i+1] == quote {
			i++
			continue
		}
		return i + 1
	}
	return len(s)
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

// Columns of a fenced table, all static: the highest token that the partition
// has accepted, the number of its last write, and that write's id.
const (
	FenceColumn      = "fence"       // bigint: the highest token
	FenceSeqColumn   = "fence_seq"   // bigint: the number of the last write
	FenceBatchColumn = "fence_batch" // uuid: the id of the last write
)

// fencedTable is what the check of a statement needs to know.
type fencedTable struct {
	keyspace, name string
	clustering     []string
}

// target returns the name of the table that a statement is on, and the other
// words: a table may be called like a column of the fence. The keyspace is empty
// where the statement names none.
func target(list []word) (keyspace, table string, others []word) {
	i := slices.IndexFunc(list, func(w word) bool { return w.is("into") || w.is("from") || w.is("update") }) + 1
	if i == 0 || i == len(list) {
		return "", "", list
	}
	end := i + 1
	if end < len(list) && list[end].dotted {
		keyspace = list[i].text
		end++
	}
	table = list[end-1].text
	return keyspace, table, slices.Delete(list, i, end)
}

// notFenced refuses a statement on another table.
func notFenced(name, fenced string) error {
	return ownership.Invalid("table", name, "must be "+fenced+", the fenced one", "one write is one atomic step in one partition")
}

// checkStatement refuses what would get past the fence, or take it down, although
// the server accepts it in a conditional batch:
//
//   - USING TIMESTAMP on one statement: its cells could lose against older ones,
//     or win against all that follow
//   - INSERT JSON, which sets every column that it does not name to null, those
//     of the fence among them
//   - DELETE of the whole partition, the fence included
//   - any word that names a column of the fence
//   - another table, which the server may not even have
//   - comments: where one ends is the server's to say, and a text that is read
//     otherwise here than there can hide any of the above
//
// That all statements are of the writer's own partition, the server sees to.
func checkStatement(cql string, t fencedTable) error {
	all, comments := words(cql)
	keyspace, table, list := target(all)
	index := func(keyword string) int { return slices.IndexFunc(list, func(w word) bool { return w.is(keyword) }) }
	refuse := func(rule, remedy string) error {
		shown := cql
		if len(shown) > 80 {
			shown = shown[:80] + "…"
		}
		return ownership.Invalid("statement", strings.Join(strings.Fields(shown), " "), rule, remedy)
	}
	if len(list) == 0 || !list[0].is("insert") && !list[0].is("update") && !list[0].is("delete") {
		return refuse("must be an INSERT, UPDATE or DELETE", "read with Query")
	}
	if comments {
		return refuse("must have no comment", "put it into the program")
	}
	if table != "" && (table != t.name || keyspace != "" && keyspace != t.keyspace) {
		name := table
		if keyspace != "" {
			name = keyspace + "." + table
		}
		return notFenced(name, t.keyspace+"."+t.name)
	}
	for i := index("using") + 1; i > 0 && i < len(list) && (list[i].is("ttl") || list[i].is("and") || list[i].is("timestamp")); i++ {
		if !list[i].is("timestamp") {
			continue
		}
		return refuse("must not set a TIMESTAMP", "the order of writes is the fence's business: leave it out")
	}
	if list[0].is("insert") && slices.ContainsFunc(list, func(w word) bool { return w.is("json") }) {
		return refuse("must not be INSERT JSON, which sets the fence to null", "name the columns")
	}
	for _, w := range list {
		if w.text == FenceColumn || w.text == FenceSeqColumn || w.text == FenceBatchColumn {
			return refuse("must not name "+w.text, "that column is the fence's own")
		}
	}
	if where := index("where"); list[0].is("delete") && where >= 0 && list[1].is("from") {
		end := len(list)
		if i := index("if"); i > where {
			end = i
		}
		if !slices.ContainsFunc(list[where:end], func(w word) bool { return slices.Contains(t.clustering, w.text) }) {
			return refuse("must not delete the whole partition, for the fence is a part of it",
				"delete by a range of "+strings.Join(t.clustering, ", "))
		}
	}
	return nil
}
