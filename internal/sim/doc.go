// Package sim runs whole applications on one goroutine: several processes with the real machines, carried by package virtual against the broker
// model, under virtual time, with faults. One seed decides everything: how long messages take, what is lost, who dies when. The same seed
// gives the same run, to the last event.
//
//	world     the virtual.World, and what a seed makes of it
//	host      a machine with its disk; process, what runs on it between two crashes; watch, what they do is seen
//	scale     how the group keeps copies and learns; plans, how it changes: in every third run one plan is carried out and nothing else goes
//	          wrong, and then what the protocol promises is held strictly: no task stops for nothing, none is restored where a copy was
//	faults    what goes wrong; kinds, what of it had an effect, so that a test can say that all of it was tried
//	failing   which records fail, how, and what the application does about them; failed, what must hold of them
//	oracle    what must hold at every moment; changes, of changelogs and stores; end, what must hold when the faults are over;
//	          roles, of copies and moves; board, of what joins and the readiness board say; rounds, of generations
//	trace     what is said of a seed that failed: the partitions concerned first; ──▶ is a request, ◀── an answer, ──╳ one of them that is lost
//
// What it does not do: partitions are never added, brokers never lose what they have acknowledged, no topic is deleted, generations do not
// get so high that the ids of writers change (see engine.tenure), tasks have no timers.
//
// The application counts words: input, repartition by word, a logged store, an output. In most runs counting fails for some records, and by the
// policy of the run they are tried again in their place, put aside, dead-lettered or left out. A row of the store holds, beside the count, the set of
// the input records in it, so that a lost record is noticed even where another one was counted twice.
package sim
