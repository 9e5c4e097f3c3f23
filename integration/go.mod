module github.com/tenure-go/tenure/integration

go 1.26
