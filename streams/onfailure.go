package streams

import (
	"fmt"

	"github.com/understudy-streams/understudy/retry"
)

// OnFailure says what becomes of the records of a source that fail: [retry.Stop], [retry.Ordered], [retry.KeyOrdered] or [retry.Parallel]. At a
// step that makes a repartition topic it is for the records of that topic. The sources of a subtopology share one policy; one that says
// nothing has that of the others. A repartition topic that says nothing has the policy of the subtopologies that write it, if they agree.
// Where nobody says anything it is [Config].OnFailure.
func OnFailure(p retry.Policy) FailureOption { return FailureOption{p} }

// FailureOption is what [OnFailure] returns.
type FailureOption struct{ policy retry.Policy }

func (f FailureOption) applySource(o *options)      { o.failure = &f.policy }
func (f FailureOption) applyTableSource(o *options) { o.failure = &f.policy }
func (f FailureOption) applyRepartition(o *options) { o.failure = &f.policy }
func (f FailureOption) applyBuild(o *buildOptions)  { o.failure = f.policy }

// BuildOption is an option of [Builder.Build]: [OnFailure], [RecoverParallel].
type BuildOption interface{ applyBuild(o *buildOptions) }

type buildOptions struct {
	failure  retry.Policy
	recovery RecoveryMode
}

// Concurrent says that a processor may run for several records of one task at a time, each on an instance of its own: what it shares with
// others is safe for concurrent use, and it does not count on seeing the records one after the other. A policy with more than one worker
// takes no other processors.
func Concurrent() ConcurrentOption { return ConcurrentOption{} }

// ConcurrentOption is what [Concurrent] returns.
type ConcurrentOption struct{}

func (ConcurrentOption) applyProcess(o *options) { o.concurrent = true }

// checkPolicy reports what is wrong with a policy; where says who names it.
func checkPolicy(where string, p retry.Policy) error {
	if !p.Named() {
		return fmt.Errorf("%s: OnFailure has an empty policy: make one with retry.Stop, retry.Ordered, retry.KeyOrdered or retry.Parallel", where)
	}
	if err := p.Validate(); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}
