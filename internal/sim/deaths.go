package sim

import (
	"errors"
	"slices"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// suspect is a record that a commit names.
type suspect struct {
	task.TopicPartition
	offset int64
}

// names follows which record a commit names.
func (o *oracle) names(p *process, tp task.TopicPartition, said retry.Metadata) {
	for s, by := range o.named {
		if s.TopicPartition == tp {
			o.named[s] = slices.DeleteFunc(by, func(q *process) bool { return q == p })
		}
	}
	if s := (suspect{tp, said.Suspect}); said.Running && said.Suspect >= 0 {
		o.named[s] = append(o.named[s], p)
	}
}

// diedOver says that an application ended over a record in the middle of which as many processes died as it says.
func (o *oracle) diedOver(err error) bool {
	e, is := errors.AsType[*task.Error](err)
	return is && e.Kind == task.KindCrash && len(o.named[suspect{task.TopicPartition{Topic: e.Topic, Partition: e.Partition}, e.Offset}]) >= e.Attempts
}
