package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// progress says which letters of a topic have been redriven. It is kept in the committed offsets of a group: the offset is the first letter
// that has not been, and the metadata says which of those above have, in the form of the runtime's own commits. So a redrive of some letters
// takes nothing away from a later one of the others.
type progress struct {
	offsets outside.GroupOffsets
	parts   []task.TopicPartition
	done    []runs // by partition
	noted   []task.InputOffset
}

// loadProgress reads the progress on the partitions of a topic; anew takes it that there is none.
func loadProgress(ctx context.Context, client *kafka.Client, app string, all []outside.Span, anew bool) (*progress, error) {
	p := &progress{offsets: outside.GroupOffsets{Client: client, Group: app + redrives}}
	for _, s := range all {
		p.parts = append(p.parts, s.TopicPartition)
	}
	found, err := p.fetch(ctx)
	if err != nil {
		p.close()
		return nil, err
	}
	p.noted, p.done = found, make([]runs, len(all))
	for i, s := range all {
		if anew {
			p.done[i].add(0, s.From)
		} else if p.done[i], err = doneBelow(found[i], s); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

func (p *progress) close() { p.offsets.Close() }

func (p *progress) fetch(ctx context.Context) ([]task.InputOffset, error) {
	found, err := p.offsets.Fetch(ctx, p.parts)
	if err != nil {
		return nil, err
	}
	out := make([]task.InputOffset, len(found))
	for i, o := range found {
		if o.Code != kcode.None {
			return nil, fmt.Errorf("the committed offset of %s in group %q: %w", o.TopicPartition, p.offsets.Group, o.Code)
		}
		out[i] = task.InputOffset{TopicPartition: o.TopicPartition, Offset: o.Offset, Metadata: o.Metadata}
	}
	return out, nil
}

// doneBelow is what a committed offset says of a partition. One beyond the end is of a topic of the same name that is gone.
func doneBelow(o task.InputOffset, s outside.Span) (runs, error) {
	var done runs
	done.add(0, s.From) // deleted by retention
	if o.Offset < 0 || o.Offset > s.To {
		return done, nil
	}
	done.add(0, o.Offset)
	m, err := retry.ParseMetadata(o.Metadata, o.Offset, s.To)
	if err != nil {
		return nil, fmt.Errorf("the progress of the redrive on %s: %w", o.TopicPartition, err)
	}
	at := o.Offset
	for _, hole := range m.Holes {
		done.add(at, hole.From)
		at = hole.To
	}
	if len(m.Holes) > 0 {
		done.add(at, m.Main)
	}
	return done, nil
}

// none says whether nothing is known of any partition.
func (p *progress) none() bool {
	for _, o := range p.noted {
		if o.Offset >= 0 {
			return false
		}
	}
	return true
}

// errManyHoles: what has been redriven above what has not does not fit into the metadata of a commit.
var errManyHoles = errors.New("too many letters have been left out between others to note which: redrive those first, or fewer at once (-from, -to)")

// fits says whether what is done, and these letters, can be noted.
func (p *progress) fits(i int, offsets []int64) error {
	more := append(runs(nil), p.done[i]...)
	for _, o := range offsets {
		more.add(o, o+1)
	}
	_, err := noted(p.parts[i], more)
	return err
}

func noted(tp task.TopicPartition, done runs) (task.InputOffset, error) {
	out := task.InputOffset{TopicPartition: tp, Offset: done.low()}
	if out.Offset == 0 && len(done) > 0 && done[0].From > 0 {
		done = append(runs{{}}, done...) // the gap at the beginning is one too
	}
	holes := done.gaps()
	if len(holes) == 0 {
		return out, nil
	}
	m := retry.Metadata{StreamTime: -1, Main: done[len(done)-1].To, Holes: holes, Suspect: -1}
	var ok bool
	if out.Metadata, ok = m.Encode(out.Offset); !ok {
		return out, fmt.Errorf("%s: %w", tp, errManyHoles)
	}
	return out, nil
}

// commit notes the progress, unless somebody else has noted another since.
func (p *progress) commit(ctx context.Context) error {
	found, err := p.fetch(ctx)
	if err != nil {
		return err
	}
	next := make([]task.InputOffset, len(p.parts))
	for i, tp := range p.parts {
		if found[i] != p.noted[i] {
			return fmt.Errorf("somebody else has changed the progress on %s in group %q: two redrives of one topic would send letters twice", tp, p.offsets.Group)
		}
		if next[i], err = noted(tp, p.done[i]); err != nil {
			return err
		}
	}
	if err := p.offsets.Commit(ctx, next); err != nil {
		if errors.Is(err, kcode.UnknownMemberID) || errors.Is(err, kcode.RebalanceInProgress) || errors.Is(err, kcode.IllegalGeneration) {
			return fmt.Errorf("%w: somebody is in the group, whose name is that of redrives of the application", err)
		}
		return err
	}
	p.noted = next
	return nil
}
