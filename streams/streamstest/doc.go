// Package streamstest runs a topology in a test: without a broker, without a goroutine, with a clock that stands still until it is told to move.
//
//	d := streamstest.New(t, b)
//	lines := streamstest.In(d, "lines", serde.String, serde.String)
//	counts := streamstest.Out(d, "counts", serde.String, serde.Int64)
//	lines.Pipe("", "one two one")
//	for _, r := range counts.ReadAll() {
//		t.Log(r.Key, r.Value) // one 2, two 1
//	}
//
// # A driver
//
// A [Driver] runs the very tasks that an application runs, one for each subtopology and partition, and carries their records through
// repartition topics. Each piped record is processed and committed before Pipe returns, unless [HoldCommits] leaves commits to
// [Driver.Commit]: tables that emit at commit emit then. [Driver.Restart] starts anew from what was committed, with the stores or without.
// A source that reads a pattern takes in what matches when it is written to; [Driver.CreateTopic] and [Driver.DeleteTopic] let topics come and go.
// Where a policy has several workers, their records run one after the other, each on the nodes of the next worker.
//
// Values of type []byte and headers are lent to a function until it returns. The Driver overwrites them afterwards, so that a function that
// keeps them is found out.
//
// # A cluster
//
// A [Cluster] runs a whole group of members of the application, and lets them fail without a change to the code under test:
//
//	c := streamstest.NewCluster(t, b, streamstest.Members(3), streamstest.Partitions("lines", 6))
//	lines := streamstest.In(c, "lines", serde.String, serde.String)
//	lines.Pipe("", "one two one")
//	c.Member(0).Freeze(30 * time.Second) // a long garbage collection: longer than its session
//	c.Run(time.Minute)                   // somebody else has its tasks, and it has come back
//	c.Settle(time.Minute)
//
// [Member.Freeze] stops a process for a while, [Member.BlockIO] and [Member.SlowDisk] hinder its disk, [Member.Slow] its processor, [Member.CutOff]
// its network; [Member.Kill], [Member.Leave], [Member.Drain], [Member.Restart] and [Cluster.Add] end and start members. [Cluster.Run],
// [Cluster.RunUntil] and [Cluster.Settle] let time pass, ten minutes of three members in well under a second. [Cluster.Tasks], [Cluster.Owner],
// [Cluster.Committed], [Cluster.Rebalances] and [Store] say what has become of it.
//
// What is simulated: the machinery of each member is the real one, that joins groups, hands tasks over, fetches, processes, runs workers, commits,
// restores, keeps standbys and heeds its lease. Brokers answer as Kafka's do, to the error codes; messages take time, keep their order on a
// connection, and are late or unanswered where the network is cut. A disk loses at a kill what it has not flushed.
//
// What is not: brokers do not fail, and messages are not lost on the way. Functions of the topology take no time of the cluster by themselves, so
// Config.CallTimeout and the timeout of a policy never strike. Nothing runs at the same moment, so data races are not found: run the application
// with the race detector for that. Stores are in memory and not Pebble, records do not go through Kafka's wire format, and topics are neither
// grown nor deleted. For those there is [Broker], and a real one.
//
// A Driver and a Cluster belong to the goroutine of their test.
package streamstest
