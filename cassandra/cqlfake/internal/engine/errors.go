package engine

import "fmt"

// Codes of errors in the native protocol v4.
const (
	codeServer        = 0x0000
	codeSyntax        = 0x2000
	codeUnauthorized  = 0x2100
	codeInvalid       = 0x2200
	codeConfig        = 0x2300
	codeAlreadyExists = 0x2400
)

func invalid(format string, args ...any) *Error {
	return &Error{Code: codeInvalid, Message: fmt.Sprintf(format, args...)}
}

func syntax(format string, args ...any) *Error {
	return &Error{Code: codeSyntax, Message: fmt.Sprintf(format, args...)}
}

func configuration(format string, args ...any) *Error {
	return &Error{Code: codeConfig, Message: fmt.Sprintf(format, args...)}
}

// unsupported is the answer to what a server knows and this engine does not.
func unsupported(what string) *Error {
	return invalid("cqlfake does not support %s", what)
}
