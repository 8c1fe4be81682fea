package main

import (
	"fmt"
	"slices"
)

// happening is one event of a scenario and what was seen of it.
type happening struct {
	name      string
	window    window
	processes []int  // the programs that it started, by number
	newcomers []byte // and their instances, where they had not been there before
	dead      byte   // the instance that it killed, or 0
	restarted byte   // the instance that it ended and started again: what that had stands still, whether or not it comes back
	broker    bool   // a broker was killed: what was written meanwhile may have to be done again, where nobody could be heard of for too long
	balanced  int64  // when every partition was at its final owner, or 0
	rounds    int
	reasons   []string   // of the rounds
	log       [2][]int64 // the part of the brokers' logs
}

// outage is what an event did to the partitions.
type outage struct {
	moving, staying, dead gap // the longest silence of a partition that had to stop, that did not, that a killed instance had
	moved                 int
	first                 int64 // when the first partition was put out by a newcomer, or 0
	returned              int   // partitions that went to another instance and came back
	notes                 []string

	// How long the partitions of each sort were silent in all: partition-seconds of all their silences that are longer than usual.
	movingFor, stayingFor, deadFor float64
}

// outageOf looks at each partition around the event. Silences of up to so many milliseconds are usual.
func outageOf(h happening, lines []timeline, usual int64) outage {
	var o outage
	for p, t := range lines {
		owners, worst := t.owners(h.window), t.longest(h.window)
		into, all := &o.staying, &o.stayingFor
		switch {
		case h.dead != 0 && len(owners) > 0 && owners[0] == h.dead:
			into, all = &o.dead, &o.deadFor
		case len(owners) > 1, h.restarted != 0 && len(owners) > 0 && owners[0] == h.restarted:
			into, all = &o.moving, &o.movingFor
		}
		*all += t.silent(h.window, usual)
		if len(owners) > 1 {
			o.moved++
			if len(owners) > 2 && slices.Contains(owners[1:], owners[0]) {
				o.returned++
			}
		}
		if worst.seconds() > into.seconds() {
			*into = worst
		}
		if at, ok := t.arrival(h.window, h.newcomers); ok && (o.first == 0 || at < o.first) {
			o.first = at
		}
		o.notes = append(o.notes, fmt.Sprintf("%s: partition %d %s, silent for %.3f s at %+.1f s", h.name, p, path(owners), worst.seconds(), float64(worst.from-h.window.from)/1000))
	}
	return o
}

// path is the owners as the notes have them.
func path(owners []byte) string {
	text := ""
	for i, by := range owners {
		if i > 0 {
			text += "→"
		}
		text += string(by)
	}
	return text
}

// The figures of a rebalance run. Times are seconds.
const (
	firstTask    figure = "first_task_s" // from the event to the first output of a newcomer
	learnt       figure = "restore_s"    // of the newcomer, before that
	beyond       figure = "first_task_beyond_restore_s"
	every        figure = "usual_gap_p50_ms" // between two outputs of a partition before the event
	everyP99     figure = "usual_gap_p99_ms"
	balance      figure = "balanced_s"   // from the event until every partition is at its final owner
	steady       figure = "steady_max_s" // the longest silence before the event
	moving       figure = "silence_moving_s"
	staying      figure = "silence_staying_s"
	stayingAbove figure = "silence_staying_above_steady_s"
	dead         figure = "silence_dead_s"
	survivor     figure = "silence_survivor_s"
	roundsTaken  figure = "rounds"
	readyBatches figure = "ready_batches"
	roundsBeyond figure = "rounds_beyond_batches"
	pauses       figure = "needless_pauses"

	pausedMoving     figure = "task_seconds_moving"
	pausedStaying    figure = "task_seconds_staying"
	pausedDead       figure = "task_seconds_dead"
	pausedForNothing figure = "task_seconds_needless"
	lost             figure = "memberships_lost"

	coldRestores  figure = "cold_restores"
	partsMoved    figure = "partitions_moved"
	wentBack      figure = "went_there_and_back"
	overcounted   figure = "records_counted_twice"
	repeats       figure = "outputs_repeated"
	loadSilence   figure = "silence_of_the_load_s"
	assignTime    figure = "assign_ms"
	assignMemory  figure = "assign_mb"
	metadataBytes figure = "metadata_kb"
)

// figuresFrom adds up what was seen of all events of a run: the worst of the silences and times, the sums of the counts.
func figuresFrom(hs []happening, lines []timeline, before window, said []word, coldFrom int64) (map[figure]float64, []string) {
	f := map[figure]float64{}
	worst := func(name figure, v float64) { f[name] = max(f[name], v) }
	for _, t := range lines {
		worst(steady, t.within(before).seconds())
	}
	f[every], f[everyP99] = usual(lines, before)
	var notes []string
	for _, h := range hs {
		o := outageOf(h, lines, int64(3*f[everyP99]))
		notes = append(notes, o.notes...)
		f[pausedStaying] += o.stayingFor
		stays := staying
		if h.dead != 0 {
			worst(dead, o.dead.seconds())
			f[pausedDead] += o.deadFor
			stays = survivor
		}
		worst(stays, o.staying.seconds())
		if o.moving.to > 0 {
			worst(moving, o.moving.seconds())
			f[pausedMoving] += o.movingFor
		}
		f[partsMoved] += float64(o.moved)
		f[wentBack] += float64(o.returned)
		if h.balanced > 0 {
			worst(balance, float64(h.balanced-h.window.from)/1000)
		}
		f[roundsTaken] += float64(h.rounds)
		f[readyBatches] += float64(batches(h.reasons))
		found := restoresIn(said, h.window)
		f[coldRestores] += float64(cold(found, coldFrom))
		if o.first > 0 {
			worst(firstTask, float64(o.first-h.window.from)/1000)
			took, _ := learning(found, h.processes, o.first) // without a word about it, all of the time counts
			worst(learnt, took)
		}
		for _, why := range h.reasons {
			notes = append(notes, fmt.Sprintf("%s: a rebalance, because %s", h.name, why))
		}
		if h.balanced == 0 {
			notes = append(notes, h.name+": not balanced in time")
		}
	}
	if v, ok := f[staying]; ok {
		f[stayingAbove] = max(0, v-f[steady])
	}
	f[roundsBeyond] = f[roundsTaken] - f[readyBatches]
	if v, ok := f[firstTask]; ok {
		f[beyond] = v - f[learnt]
	}
	return f, notes
}
