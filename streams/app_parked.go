package streams

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/task"
)

// leftovers looks, once in a run and before the group is joined, for records that are put aside and that nothing would ever run. The context may
// last for long: a retry topic that is no more used may be large, and is read as a whole.
func (t *topics) leftovers(ctx context.Context) error {
	if t.looked {
		return nil
	}
	md, err := t.client.Metadata(ctx, nil)
	if err != nil {
		return temporary{err}
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(md.Topics)) {
		if md.Topics[name].Err != kcode.None || !t.unused(name) {
			continue
		}
		left, err := t.unusedRecords(ctx, name)
		switch {
		case err != nil:
			return temporary{err}
		case left != nil:
			faults = append(faults, left)
		}
	}
	strays, err := t.strays(ctx, md)
	if err != nil {
		return temporary{err}
	}
	if err := errors.Join(append(faults, strays...)...); err != nil {
		return err
	}
	t.looked = true
	return nil
}

// unused says that a topic has the name of a retry topic of the application, and that the topology does not have it.
func (t *topics) unused(name string) bool {
	top := t.app.Topology()
	rest, ok := strings.CutPrefix(name, top.applicationID+"-")
	source, is := strings.CutSuffix(rest, retrySuffix)
	return ok && is && source != "" && !top.owns(name) && !slices.Contains(top.Sources, name) && !slices.Contains(top.Sinks, name)
}

// unusedRecords is about the records that lie in a retry topic which the topology does not have; nil where there are none, or the topic is not
// the application's.
func (t *topics) unusedRecords(ctx context.Context, name string) (error, error) {
	records, origins, err := t.lying(ctx, name)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	top := t.app.Topology()
	app := top.applicationID
	r := outside.Reader{Client: t.client}
	owner, err := r.Owner(ctx, app, name, origins)
	if err != nil {
		return nil, err
	}
	if owner != app {
		t.app.cfg.Log.Info("a retry topic whose name may be this application's is another one's", zap.String("topic", name), zap.String("application", owner))
		return nil, nil
	}
	source := strings.TrimSuffix(strings.TrimPrefix(name, app+"-"), retrySuffix)
	return &ParkedError{Topic: name, Application: app, Source: source, Read: top.names(source), Records: records}, nil
}

// names reports whether a source, by its name within the application, names the retry topic of its subtopology.
func (t *Topology) names(source string) bool {
	return slices.ContainsFunc(t.subs, func(sub *subtopology) bool { return sub.retryStore() == source+retrySuffix })
}

// strays are about records in the retry topics of the topology that were read from topics which it does not read any more. Such topics are known
// by the offsets that the group has committed of them, so that at most starts no retry topic is read; what that does not show the task finds.
func (t *topics) strays(ctx context.Context, md *kafka.Metadata) (faults []error, err error) {
	top := t.app.Topology()
	if !slices.ContainsFunc(top.Internal, func(in InternalTopic) bool { return in.Kind == RetryTopic && md.Topics[in.Name] != nil }) {
		return nil, nil
	}
	group := outside.GroupOffsets{Client: t.client, Group: top.applicationID}
	defer group.Close()
	committed, err := group.All(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(committed, func(o kafka.FetchedOffset) bool { return o.Offset >= 0 && !top.reads(o.Topic) && !top.matches(o.Topic) }) {
		return nil, nil
	}
	for _, in := range top.Internal {
		if in.Kind != RetryTopic || md.Topics[in.Name] == nil {
			continue
		}
		records, _, err := t.lying(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		for _, input := range top.Subtopologies[in.Subtopology].Inputs {
			delete(records, input.Topic)
		}
		maps.DeleteFunc(records, func(topic string, _ int) bool { return top.matches(topic) })
		delete(records, "") // the task sees to what cannot be read
		if len(records) > 0 {
			faults = append(faults, &ParkedError{Topic: in.Name, Application: top.applicationID, Runs: true, Records: records})
		}
	}
	return faults, nil
}

// reads reports whether some subtopology reads a topic.
func (t *Topology) reads(topic string) bool {
	return slices.ContainsFunc(t.Subtopologies, func(s *task.Spec) bool {
		return slices.ContainsFunc(s.Inputs, func(in task.Input) bool { return in.Topic == topic })
	})
}

// lying counts what lies in a retry topic by the topics that it was read from, and says from which partitions.
func (t *topics) lying(ctx context.Context, name string) (records map[string]int, origins []task.TopicPartition, err error) {
	spans, err := outside.Spans(ctx, t.client, name)
	if err != nil {
		return nil, nil, err
	}
	r := outside.Reader{Client: t.client}
	records = map[string]int{}
	from := map[task.TopicPartition]bool{}
	for _, s := range spans {
		rows, err := r.Parked(ctx, s, false)
		if err != nil {
			return nil, nil, err
		}
		for _, row := range rows {
			o := row.Entry.Origin
			records[o.Topic]++
			if o.Topic != "" {
				from[task.TopicPartition{Topic: o.Topic, Partition: o.Partition}] = true
			}
		}
	}
	return records, slices.SortedFunc(maps.Keys(from), task.TopicPartition.Compare), nil
}
