package streams

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams/serde"
)

// Builder collects the steps of a topology. It is not safe for concurrent use. Its methods and those of the Streams and Tables made with
// it never fail; [Builder.Build] reports every fault found.
type Builder struct {
	steps    []*step
	stores   []*storeDef
	names    map[string]bool
	serdes   map[reflect.Type]any
	emission Emission
	faults   []error // found while steps were added
	missing  []error // found by the running Build
}

// BuilderOption is an option of [NewBuilder].
type BuilderOption interface{ applyBuilder(b *Builder) }

// NewBuilder returns an empty Builder. The one option is how tables emit unless they say otherwise: [EmitAtCommit], the default, or
// [EmitPerUpdate].
func NewBuilder(opts ...BuilderOption) *Builder {
	b := &Builder{names: make(map[string]bool), serdes: make(map[reflect.Type]any)}
	register(b, serde.String)
	register(b, serde.Bytes)
	register(b, serde.Int32)
	register(b, serde.Int64)
	register(b, serde.Float64)
	register(b, serde.UUID)
	for _, o := range opts {
		o.applyBuilder(b)
	}
	return b
}

// Register makes s the serde of its type, for all steps that need one and were not given another.
func (b *Builder) Register[T any](s serde.Serde[T]) {
	if isNil(s) {
		b.faultf("the serde registered for %v is nil", reflect.TypeFor[T]())
		return
	}
	register(b, s)
}

func register[T any](b *Builder, s serde.Serde[T]) { b.serdes[reflect.TypeFor[T]()] = s }

// resolve is the serde a step uses for a T: the one it has, or the one that is registered. what is "key" or "value".
func resolve[T any](b *Builder, s *step, what string, has serde.Serde[T]) serde.Serde[T] {
	if has != nil {
		return has
	}
	if d, ok := b.serdes[reflect.TypeFor[T]()]; ok {
		return d.(serde.Serde[T])
	}
	b.missing = append(b.missing, fmt.Errorf("step %q needs a serde for its %s of type %v: register one with Builder.Register, or name it at the step with WithSerdes",
		s.name, what, reflect.TypeFor[T]()))
	return nil
}

func (b *Builder) faultf(format string, args ...any) {
	b.faults = append(b.faults, fmt.Errorf(format, args...))
}

// Build checks the topology and computes its subtopologies for an application id, which is the prefix of internal topics. All faults come
// in one [*TopologyError]. A Builder can be built more than once. The options are for sources that say nothing of their own: [OnFailure],
// without which they stop at the first failure, whereas [New] has [Config].OnFailure, and [RecoverParallel].
func (b *Builder) Build(applicationID string, opts ...BuildOption) (*Topology, error) {
	o := buildOptions{failure: retry.Stop()}
	for _, opt := range opts {
		opt.applyBuild(&o)
	}
	var faults []error
	if len(opts) > 0 {
		if err := checkPolicy("Build", o.failure); err != nil {
			faults = append(faults, err)
		}
	}
	t, err := b.build(applicationID, o.failure, faults...)
	if err != nil {
		return nil, err
	}
	if faults := t.recover(o.recovery); len(faults) > 0 {
		return nil, newTopologyError(faults)
	}
	return t, nil
}

// build is Build with a policy for sources that name none.
func (b *Builder) build(applicationID string, fallback retry.Policy, faults ...error) (*Topology, error) {
	b.missing = faults
	if err := checkName("application id", applicationID); err != nil {
		b.missing = append(b.missing, err)
	}
	if len(b.steps) == 0 {
		b.missing = append(b.missing, errors.New("the topology is empty: begin with Builder.Stream or Builder.Table"))
	}
	for _, s := range b.steps {
		if s.resolve != nil {
			s.resolve()
		}
	}
	b.checkStores()
	if faults := append(append([]error(nil), b.faults...), b.missing...); len(faults) > 0 {
		return nil, newTopologyError(faults)
	}
	return newTopology(slices.Clone(b.steps), applicationID, fallback, matches{})
}

// checkStores reports two stores with one name.
func (b *Builder) checkStores() {
	seen := make(map[string]bool)
	for _, d := range b.stores {
		if seen[d.name] {
			b.missing = append(b.missing, fmt.Errorf("store name %q is used twice: names of stores are their identity, give each its own", d.name))
		}
		seen[d.name] = true
	}
}

// mostTopic is how many bytes the name of a topic can have.
const mostTopic = 249

// checkName reports what cannot be part of a Kafka topic's name.
func checkName(what, name string) error {
	if name == "" {
		return fmt.Errorf("the %s is missing: it must be given and must survive a change of the code", what)
	}
	if len(name) > mostTopic {
		return fmt.Errorf("the %s %.20q… is longer than %d bytes", what, name, mostTopic)
	}
	if name == "." || name == ".." {
		return fmt.Errorf("the %s %q is none: Kafka takes no topic of that name", what, name)
	}
	for _, r := range name {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
			continue
		}
		return fmt.Errorf("the %s %q has a %q in it: Kafka takes letters, digits, '.', '_' and '-'", what, name, r)
	}
	return nil
}

// name reports a missing or impossible name of something that owns a topic or state.
func (b *Builder) name(what, name string) {
	if err := checkName(what, name); err != nil {
		b.faults = append(b.faults, err)
	}
}

func isNil(v any) bool {
	if v == nil {
		return true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice, reflect.Interface:
		return r.IsNil()
	default:
		return false
	}
}
