package engine

import (
	"strings"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEOF     tokenKind = iota
	tokWord              // identifier or keyword, in lower case
	tokQuoted            // "identifier"
	tokString            // 'text' or $$text$$
	tokInteger           // digits, perhaps with a sign that the parser adds
	tokFloat
	tokUUID
	tokHex      // 0x…
	tokDuration // 1h30m, P1D
	tokSymbol   // one of the symbols below
)

// lexeme is one token of a text.
type lexeme struct {
	kind tokenKind
	text string // without quotes
	pos  int    // in bytes
}

// maxText bounds what is parsed: a frame may be larger, but no statement is.
const maxText = 16 << 20

// lex cuts a text into tokens. It looks at every byte a bounded number of times.
func lex(text string) ([]lexeme, error) {
	if len(text) > maxText {
		return nil, syntax("the statement has %d bytes, more than the %d that are parsed", len(text), maxText)
	}
	if !utf8.ValidString(text) {
		return nil, syntax("the statement is not valid UTF-8")
	}
	var list []lexeme
	for i := 0; i < len(text); {
		n, kind, tok, err := lexOne(text, i)
		if err != nil {
			return nil, err
		}
		if kind != tokEOF {
			list = append(list, lexeme{kind: kind, text: tok, pos: i})
		}
		i += n
	}
	return append(list, lexeme{kind: tokEOF, pos: len(text)}), nil
}

// lexOne reads the token at i, and returns its length. Kind tokEOF: nothing but
// space or a comment.
func lexOne(text string, i int) (n int, kind tokenKind, tok string, err error) {
	rest := text[i:]
	c := rest[0]
	switch {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		return 1, tokEOF, "", nil
	case strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "//"):
		if end := strings.IndexAny(rest, "\n\r"); end >= 0 {
			return end, tokEOF, "", nil
		}
		// The server's own peculiarity: a comment at the very end needs its line end.
		return 0, 0, "", syntax("line 1:%d mismatched character '<EOF>': a comment must end with its line", len(text))
	case strings.HasPrefix(rest, "/*"):
		end := strings.Index(rest[2:], "*/")
		if end < 0 {
			return 0, 0, "", syntax("position %d: the comment has no end", i)
		}
		return end + 4, tokEOF, "", nil
	case strings.HasPrefix(rest, "$$"):
		end := strings.Index(rest[2:], "$$")
		if end < 0 {
			return 0, 0, "", syntax("position %d: the $$ string has no end", i)
		}
		return end + 4, tokString, rest[2 : 2+end], nil
	case c == '\'' || c == '"':
		n, tok, ok := lexQuoted(rest, c)
		if !ok {
			return 0, 0, "", syntax("position %d: the %c has no end", i, c)
		}
		if c == '"' {
			if tok == "" {
				return 0, 0, "", syntax("position %d: an identifier must not be empty", i)
			}
			return n, tokQuoted, tok, nil
		}
		return n, tokString, tok, nil
	case isLetter(c) || isDigit(c):
		return lexWord(rest, i)
	}
	for _, s := range []string{"<=", ">=", "!=", "+=", "-=", ".."} {
		if strings.HasPrefix(rest, s) {
			return 2, tokSymbol, s, nil
		}
	}
	if strings.IndexByte("()[]{}<>,;.:=+-*/%?", c) >= 0 {
		return 1, tokSymbol, rest[:1], nil
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return 0, 0, "", syntax("line 1:%d no viable alternative at character '%c'", i, r)
}

func lexQuoted(s string, quote byte) (n int, tok string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != quote {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == quote {
			b.WriteByte(quote)
			i++
			continue
		}
		return i + 1, b.String(), true
	}
	return 0, "", false
}

// lexWord reads what begins with a letter or a digit.
func lexWord(s string, pos int) (n int, kind tokenKind, tok string, err error) {
	if isUUID(s) && (len(s) == 36 || !isWordByte(s[36])) {
		return 36, tokUUID, strings.ToLower(s[:36]), nil
	}
	if len(s) > 1 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') {
		n = 2
		for n < len(s) && isHex(s[n]) {
			n++
		}
		if n == len(s) || !isWordByte(s[n]) {
			return n, tokHex, s[2:n], nil
		}
	}
	n = 0
	if isLetter(s[0]) {
		for n < len(s) && isWordByte(s[n]) {
			n++
		}
		return n, tokWord, strings.ToLower(s[:n]), nil
	}
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	kind = tokInteger
	if n+1 < len(s) && s[n] == '.' && s[n+1] != '.' {
		kind = tokFloat
		for n++; n < len(s) && isDigit(s[n]); n++ {
		}
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		m := n + 1
		if m < len(s) && (s[m] == '+' || s[m] == '-') {
			m++
		}
		if m < len(s) && isDigit(s[m]) {
			kind = tokFloat
			for n = m; n < len(s) && isDigit(s[n]); n++ {
			}
		}
	}
	if n < len(s) && isWordByte(s[n]) || n < len(s) && s[n] >= 0x80 {
		end := n
		for end < len(s) && (isWordByte(s[end]) || s[end] == 0xc2 || s[end] == 0xb5) {
			end++
		}
		if _, ok := parseDuration(s[:end]); kind == tokInteger && ok {
			return end, tokDuration, s[:end], nil
		}
		return 0, 0, "", syntax("line 1:%d no viable alternative at input '%.40s'", pos, s[:end])
	}
	return n, kind, s[:n], nil
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isHex(c byte) bool    { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

func isWordByte(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' }

// isUUID: s begins with 8-4-4-4-12 hexadecimal digits.
func isUUID(s string) bool {
	if len(s) < 36 {
		return false
	}
	for i := range 36 {
		switch i {
		case 8, 13, 18, 23:
			if s[i] != '-' {
				return false
			}
		default:
			if !isHex(s[i]) {
				return false
			}
		}
	}
	return true
}
