package streamstest

import (
	"time"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/task"
)

// nextTry is when the next record is to be tried again, after now and up to end.
func (d *Driver) nextTry(end time.Time) (next time.Time, found bool) {
	for _, r := range d.runners {
		at := time.UnixMilli(r.nextTry())
		if !r.failed && at.After(d.now) && !at.After(end) && (!found || at.Before(next)) {
			next, found = at, true
		}
	}
	return next.In(d.now.Location()), found
}

func (r *runner) nextTry() int64 {
	f := r.owner.Stats().Failures
	if f.Waits > 0 {
		return f.Waits
	}
	return min(f.OldestDue, mostMillis)
}

// mostMillis is the last time that time.UnixMilli is sure to know.
const mostMillis = 1 << 50

// Failures counts the records that have failed in a task since it was started, and says how it is with those that are put aside.
func (d *Driver) Failures(id task.ID) streams.Failures {
	d.t.Helper()
	return d.runner(id).owner.Stats().Failures
}

// Failures counts the records that have failed in a task since the member that runs it began to, and says how it is with those that are put aside.
// A task that nobody runs fails the test.
func (c *Cluster) Failures(id task.ID) streams.Failures {
	c.t.Helper()
	t, _ := c.running(id)
	if t == nil {
		c.fail("nobody runs task %v", id)
		return streams.Failures{}
	}
	return t.Owner.Stats().Failures
}

// Explain says where a record of a source is: not come to, waiting to be tried again, behind one of its key, done.
func (d *Driver) Explain(topic string, partition int32, offset int64) streams.Explanation {
	d.t.Helper()
	for _, r := range d.runners {
		for i, in := range r.spec.Inputs {
			if in.Topic == topic && r.id.Partition == partition {
				return r.owner.Explain(i, offset)
			}
		}
	}
	d.t.Fatalf("streamstest: no task reads partition %d of topic %q", partition, topic)
	return streams.Explanation{}
}

// Explain says where a record of a source is, as the member sees it that runs its task. A task that nobody runs fails the test.
func (c *Cluster) Explain(topic string, partition int32, offset int64) streams.Explanation {
	c.t.Helper()
	for _, spec := range c.topology.Subtopologies {
		for _, in := range spec.Inputs {
			if in.Topic != topic {
				continue
			}
			id := task.ID{Subtopology: spec.Subtopology, Partition: partition}
			t, _ := c.running(id)
			if t == nil {
				c.fail("nobody runs task %v", id)
				return streams.Explanation{}
			}
			if i, reads := t.Owner.Input(topic); reads {
				return t.Owner.Explain(i, offset)
			}
		}
	}
	c.fail("no task reads partition %d of topic %q", partition, topic)
	return streams.Explanation{}
}

func (d *Driver) runner(id task.ID) *runner {
	d.t.Helper()
	for _, r := range d.runners {
		if r.id == id {
			return r
		}
	}
	d.t.Fatalf("streamstest: there is no task %v", id)
	return nil
}

// DeadLetter is a record that has failed for good, with what is said of its failure.
type DeadLetter struct {
	retry.Letter
	Key, Value []byte
	Time       time.Time
	Headers    []streams.Header // that the record was read with

	to  string // the topic from which it can come back
	raw task.Record
}

// DeadLetters returns the dead letters of a source topic so far, in the order in which they were written, with those of rows that belong to no
// record: see [retry.Rows].
func (d *Driver) DeadLetters(source string) []DeadLetter {
	d.t.Helper()
	return deadLetters(d, source)
}

// DeadLetters returns the dead letters of a source topic so far, in the order in which they were written. Besides those of records that fail there are
// those of records under which members were killed again and again: see [retry.Crashes].
func (c *Cluster) DeadLetters(source string) []DeadLetter {
	c.t.Helper()
	return deadLetters(c, source)
}

func deadLetters(b Bench, source string) (letters []DeadLetter) {
	b.tb().Helper()
	topic, redrive := lettersOf(b, source)
	l := b.log(topic)
	for _, w := range l.all {
		rec := l.partitions[w.partition][w.index]
		says, original, ok := retry.ParseLetter(headersTo[retry.Header](rec.Headers))
		if !ok || says.Topic != source && says.Row == "" { // several sources may share a topic
			continue
		}
		letters = append(letters, DeadLetter{
			Letter: says, Key: rec.Key, Value: rec.Value, Time: time.UnixMilli(rec.Timestamp).UTC(), Headers: headersTo[streams.Header](original),
			to: redrive, raw: rec,
		})
	}
	return letters
}

// lettersOf names the topics that take the dead letters of a source and bring them back.
func lettersOf(b Bench, source string) (letters, redrive string) {
	b.tb().Helper()
	for _, spec := range b.specs() {
		for _, in := range spec.Inputs {
			if in.Redrives > 0 && redrives(spec, in.Redrives-1, source) {
				return spec.Dests[in.DeadLetters-1].Topic, in.Topic
			}
		}
	}
	b.tb().Fatalf("streamstest: topic %q has no dead letters: its policy says ThenDeadLetter nowhere", source)
	return "", ""
}

// redrives says whether the dead letters of a source come back at an input: its own, or that of the topic that stands for all of a pattern.
func redrives(spec *task.Spec, input int, source string) bool {
	if spec.Inputs[input].Topic == source || spec.StandsIn == nil {
		return spec.Inputs[input].Topic == source
	}
	i, _ := spec.StandsIn(source)
	return i == input
}

// Redrive lets a dead letter run once more, as understudy dlq redrive does.
func (d *Driver) Redrive(l DeadLetter) error {
	d.t.Helper()
	return redrive(d, l)
}

// Redrive lets a dead letter run once more, as understudy dlq redrive does, when time goes on.
func (c *Cluster) Redrive(l DeadLetter) error {
	c.t.Helper()
	return redrive(c, l)
}

func redrive(b Bench, l DeadLetter) error {
	b.tb().Helper()
	headers, err := retry.Redrive(headersTo[retry.Header](l.raw.Headers))
	if err != nil {
		return err
	}
	opts := []PipeOption{AtMillis(l.raw.Timestamp), Headers(headersTo[streams.Header](headers)...), ToPartition(l.Partition)}
	return b.pipe(l.to, l.raw.Key, l.raw.Value, opts)
}

// headersTo converts headers.
func headersTo[To, From retry.Header | streams.Header](from []From) []To {
	to := make([]To, len(from))
	for i := range from {
		to[i] = To(from[i])
	}
	return to
}
