module github.com/tenure-go/tenure/integration

go 1.26.0

replace github.com/tenure-go/tenure => ../

require (
	github.com/gocql/gocql v1.7.0
	github.com/scylladb/gocqlx/v2 v2.8.0
	github.com/tenure-go/tenure v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/golang/snappy v0.0.4 // indirect
	github.com/hailocab/go-hostpool v0.0.0-20160125115350-e80d13ce29ed // indirect
	github.com/scylladb/go-reflectx v1.0.1 // indirect
	golang.org/x/sys v0.50.0 // indirect
	gopkg.in/inf.v0 v0.9.1 // indirect
)
