package retry

// CarefulStarts is how many starts without progress, after ends that were none, make a record suspected of them. From then on records are taken
// one by one, and nothing is begun beside them.
const CarefulStarts = 2

// Split is how a partition is gone on with on two paths at once: the main one from Main on, and beside it, in any order, what is open below.
type Split struct {
	Low  int64 // everything below is done
	Gap  []Run // what is open between Low and Main, in order; never empty
	Main int64
}

// Split says how to go on after a commit of offset, of which m is the metadata, in a partition whose log ends at end. After an end that was none
// and more than above records, the main path goes on at the log's end, and what it leaves is added to what is open already: there is one gap,
// whoever dies how often. Where a gap is open and the log's end is that far away it goes on, whatever the end was. It is false where one path
// goes on from offset: nothing is far enough to be worth a second one, above is not positive, or a record is suspected to kill processes.
func (m *Metadata) Split(offset, end, above int64) (Split, bool) {
	if above <= 0 || end-offset <= above || m.Suspicious(offset) {
		return Split{}, false
	}
	main := max(m.Main, offset)
	s := Split{Low: offset, Gap: clipRuns(m.Holes, offset, main), Main: main}
	if m.Running && end-main > above {
		s.Gap, s.Main = joinRun(s.Gap, 0, Run{From: main, To: end}), end
	}
	return s, len(s.Gap) > 0
}

// Suspicious says that the commit of an offset tells of a record that may have ended processes, with the start that is being made.
func (m *Metadata) Suspicious(offset int64) bool {
	starts := m.Starts
	if m.Running {
		starts++
	}
	careful := len(m.Holes) == 0 && m.Main > offset // how far somebody who suspected one has gone at a time
	return starts >= CarefulStarts || m.Suspect >= offset || careful
}
