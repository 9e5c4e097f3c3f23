module github.com/tenure-go/tenure

go 1.26.0

require (
	github.com/gocql/gocql v1.7.0
	github.com/scylladb/gocqlx/v2 v2.8.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.50.0
)
