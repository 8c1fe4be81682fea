package main

// rebalanceGoals is all that has to be reached in `make bench-rebalance`. Every goal is at most so much.
var rebalanceGoals = []goal{
	{workload: oneJoins, figure: beyond, bound: 6},
	{workload: oneJoins, figure: moving, bound: .3},
	{workload: oneJoins, figure: moving, peer: ks, bound: .3},
	{workload: oneJoins, figure: stayingAbove, bound: .1},
	{workload: oneJoins, figure: roundsBeyond, bound: 2},
	{workload: oneJoins, figure: pauses},
	{workload: oneJoins, figure: coldRestores},

	{workload: threeJoin, figure: beyond, bound: 6},
	{workload: threeJoin, figure: moving, bound: .3},
	{workload: threeJoin, figure: moving, peer: ks, bound: .3},
	{workload: threeJoin, figure: stayingAbove, bound: .1},
	{workload: threeJoin, figure: roundsBeyond, bound: 2},
	{workload: threeJoin, figure: pauses},
	{workload: threeJoin, figure: coldRestores},

	{workload: drainOne, figure: moving, bound: .3},
	{workload: drainOne, figure: moving, peer: ks, bound: .3},
	{workload: drainOne, figure: stayingAbove, bound: .1},
	{workload: drainOne, figure: pauses},
	{workload: drainOne, figure: coldRestores},

	{workload: rolling, figure: moving, bound: 1}, // the process ends first: what it had has to be taken over, not handed over
	{workload: rolling, figure: stayingAbove, bound: .1},
	{workload: rolling, figure: pauses},
	{workload: rolling, figure: coldRestores},

	{workload: killOne, figure: dead, bound: 6.4},
	{workload: killOne, figure: survivor, bound: .1},

	{workload: assigning, figure: assignTime, bound: 200},
	{workload: assigning, figure: assignMemory, bound: 50},
	{workload: assigning, figure: metadataBytes, bound: 500},
}

// rebalanceRows are the rows of the table for a scenario, in order. A figure that nobody has is left out.
var rebalanceRows = []figure{
	firstTask, learnt, beyond, balance, moving, dead, survivor, staying, steady, stayingAbove, pausedMoving, pausedDead, pausedStaying, roundsTaken,
	roundsBeyond, pauses, pausedForNothing, lost, coldRestores, assignTime, assignMemory, metadataBytes,
}

// rebalanceTitles are the rows' names, and how the figures are printed.
var rebalanceTitles = map[figure]struct {
	title string
	print func(float64) string
}{
	firstTask:    {"first task at its new owner after, s", decimals},
	learnt:       {"… of which the restore there took, s", decimals},
	beyond:       {"… and all else took, s", decimals},
	balance:      {"every task at its final owner after, s", decimals},
	moving:       {"longest silence of a partition that moves or is restarted, s", thousandths},
	dead:         {"longest silence of the dead one's partitions, s", thousandths},
	survivor:     {"longest silence of the survivors' partitions, s", thousandths},
	staying:      {"longest silence of a partition that stays, s", thousandths},
	steady:       {"longest silence before, undisturbed, s", thousandths},
	stayingAbove: {"… of one that stays, above that, s", thousandths},
	roundsTaken:  {"rounds", thousands},
	roundsBeyond: {"… not begun because learners were ready", thousands},
	pauses:       {"needless pauses (a task comes back to its owner)", thousands},

	pausedMoving:     {"task-seconds of silence above the usual, of what moves or is restarted", thousandths},
	pausedDead:       {"task-seconds of silence above the usual, of what the dead one had", thousandths},
	pausedStaying:    {"task-seconds of silence above the usual, of what stays", thousandths},
	pausedForNothing: {"… which took, task-seconds", thousandths},
	lost:             {"memberships lost (a lease that ended)", thousands},

	coldRestores:  {"cold restores of active tasks", thousands},
	assignTime:    {"assign time, slowest case, ms", decimals},
	assignMemory:  {"assign memory, largest case, MB", decimals},
	metadataBytes: {"metadata and assignments together, 2,000 tasks, 100 members, kB", decimals},
}
