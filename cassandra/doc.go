// Package cassandra keeps ownership in Apache Cassandra, on lightweight
// transactions, and fences the tables that the owners write to.
package cassandra
