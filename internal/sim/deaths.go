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

// names follows which record a commit names, by the membership of who makes it: one that comes to an end without another commit has, for whoever comes
// next, died there.
func (o *oracle) names(member string, tp task.TopicPartition, said retry.Metadata) {
	for s, by := range o.named {
		if s.TopicPartition == tp {
			o.named[s] = slices.DeleteFunc(by, func(m string) bool { return m == member })
		}
	}
	if s := (suspect{tp, said.Suspect}); said.Running && said.Suspect >= 0 {
		o.named[s] = append(o.named[s], member)
	}
}

// diedOver says that an application ended over a record in the middle of which as many others have died as it says, and as the policy wants.
func (o *oracle) diedOver(p *process, err error) bool {
	e, is := errors.AsType[*task.Error](err)
	if !is || e.Kind != task.KindCrash {
		return false
	}
	deaths := 0
	for _, m := range o.named[suspect{task.TopicPartition{Topic: e.Topic, Partition: e.Partition}, e.Offset}] {
		if m != p.memberID {
			deaths++
		}
	}
	return deaths >= e.Attempts && e.Attempts >= p.spec[e.Task.Subtopology].Failure.Settings().Crashes
}
