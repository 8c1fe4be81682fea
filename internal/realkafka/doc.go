// Package realkafka starts real Kafka brokers for tests: KRaft, on loopback, from the jars that Maven resolves.
//
// Start gives a cluster to one test, Shared one broker to all tests of a package (with StopShared in its TestMain). Where Java or the jars are
// missing the tests are skipped, unless the environment has REQUIRE_KAFKA=1: then they fail. The brokers die with the test process. kafka.sh in
// this folder does the work and can be used by hand.
package realkafka
