package streams

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// step is one node of the topology as the builder knows it: untyped, for validation, subtopologies and descriptions. What is typed about it
// is inside build, which makes its node for one task.
type step struct {
	id       int // index into the builder's steps; parents come before children
	kind     stepKind
	name     string
	parents  []*step
	topic    topicRef // what a source reads and a sink writes; the zero value for a sink whose topic is computed
	choose   string   // how a sink computes its topic, for descriptions
	stores   []*storeDef
	table    *tableDef
	negative task.NegativeTimestamp
	failure  *retry.Policy // of a source that names one
	recovery *RecoveryMode // of a source that names one
	order    order         // what its state makes of records that come in another order
	// fallible says that the step calls a function that can fail, processor that it is one written by hand, concurrent that it is marked so.
	fallible, processor, concurrent bool
	// keyed says that the step relies on equal keys being in one partition, so all topics that reach it must be co-partitioned.
	keyed bool
	// resolve finds the serdes that nobody named. It is called by Build, before any build.
	resolve func()
	build   func(in *instance)
}

type stepKind uint8

const (
	sourceStep stepKind = iota
	processorStep
	sinkStep
)

// topicRef is a topic of the user, or an internal one whose full name is known once there is an application id.
type topicRef struct {
	name        string
	pattern     *topicPattern // of a source that reads what matches
	repartition *repartition
}

func (t topicRef) full(app string) string {
	if t.repartition != nil {
		return app + "-" + t.repartition.name + "-repartition"
	}
	if t.pattern != nil {
		return t.pattern.topics.String() // for people: no topic has that name
	}
	return t.name
}

// repartition is a topic between two subtopologies.
type repartition struct {
	name       string
	partitions int32 // 0: as many as the widest source upstream has
}

// add appends a step and gives it a name that nobody has.
func (b *Builder) add(s *step, prefix, named string, function any) *step {
	s.id = len(b.steps)
	s.name = b.nodeName(prefix, named, function)
	b.steps = append(b.steps, s)
	return s
}

// nodeName is the user's name, or one made from what the step does and the name of its function: stable as long as the code is.
func (b *Builder) nodeName(prefix, named string, function any) string {
	if named != "" {
		if b.names[named] {
			b.faultf("step name %q is used twice: give each step its own", named)
		}
		b.names[named] = true
		return named
	}
	base := prefix
	if f := functionName(function); f != "" {
		base += "-" + f
	}
	name := base
	for n := 2; b.names[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	b.names[name] = true
	return name
}

// functionName is the name of a declared function or method without its path, empty for a function literal, whose name depends on its
// neighbours.
func functionName(function any) string {
	v := reflect.ValueOf(function)
	if v.Kind() != reflect.Func || v.IsNil() {
		return ""
	}
	name := runtime.FuncForPC(v.Pointer()).Name()
	name = name[strings.LastIndexByte(name, '/')+1:]
	name = strings.TrimSuffix(name, "-fm")
	if strings.Contains(name, ".func") || strings.Contains(name, "-range") {
		return ""
	}
	return strings.NewReplacer("(*", "", ")", "", "[...]", "").Replace(name)
}

// function reports a step without a function.
func (b *Builder) function(s *step, f any) {
	if v := reflect.ValueOf(f); !v.IsValid() || v.Kind() == reflect.Func && v.IsNil() {
		b.faultf("step %q has a nil function", s.name)
	}
}
