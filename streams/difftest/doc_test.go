// Package difftest_test holds the DSL against a reference: random topologies, records, commits, restarts and failures, run by the test
// driver and by a naive interpreter of plain values beside it. A case that differs is made small and printed with its seed.
package difftest_test
