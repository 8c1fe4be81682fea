package task

import "github.com/understudy-streams/understudy/retry"

// A row that is sent at the commit and fails again and again would hold a release up for as long: the commit cannot be made without it. After a
// short while the task forgoes that commit: what it has done since the last one is dropped, and done again by whoever has the task next.

// releasePatience is how long the rows of a commit are tried again in a task that is being released, in milliseconds.
const releasePatience = 200

// heldUp says that an emission keeps a task from being released whose next try comes too late for that.
func (o *Owner) heldUp() bool {
	f := &o.t.failure
	return o.state == StateReleasing && f.emitting && !o.t.Outstanding() && f.until > o.patience
}

// forgo gives up what is not committed. What is returned is the last commit once more, and says that the task does not run any more, so that
// this is no crash; nil where there was none.
func (t *Task) forgo() *Sealed {
	t.abandon(ErrReleased, ErrReleased)
	c := &t.commit
	s := &c.buffer
	for i := range s.Offsets {
		o := &s.Offsets[i]
		if o.Topic == "" {
			return nil
		}
		o.Metadata = ended(o.Metadata, o.Offset)
	}
	s.Stores, s.Records = s.Stores[:0], 0
	c.outstanding = s
	return s
}

// ended is what a commit says of an input, without that the task runs.
func ended(metadata string, offset int64) string {
	m, err := retry.ParseMetadata(metadata, offset, -1)
	if err != nil || !m.Running {
		return metadata
	}
	m.Running = false
	if text, ok := m.Encode(offset); ok {
		return text
	}
	return metadata
}
