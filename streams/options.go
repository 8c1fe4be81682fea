package streams

import (
	"math"
	"reflect"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// StepOption is an option of a step that makes no topic and no state: [As], [WithSerdes].
type StepOption interface{ applyStep(o *options) }

// RepartitionOption is an option of a step that may need a topic between two subtopologies: [As], [WithSerdes], [Partitions], [OnFailure],
// [RecoverParallel], [RecoverSerial].
type RepartitionOption interface{ applyRepartition(o *options) }

// TableOption is an option of a step that makes a table: [WithSerdes], [EmitPerUpdate], [EmitAtCommit], [WithoutChangelog], [Ordered],
// [Commutative], [Unordered].
type TableOption interface{ applyTable(o *options) }

// SourceOption is an option of [Builder.Stream]: [As], [OnNegativeTimestamp], [OnFailure], [RecoverParallel], [RecoverSerial].
type SourceOption interface{ applySource(o *options) }

// TableSourceOption is an option of [Builder.Table]: [As], [OnNegativeTimestamp], [OnFailure], [RecoverSerial], [EmitPerUpdate],
// [EmitAtCommit], [WithoutChangelog], [Ordered].
type TableSourceOption interface{ applyTableSource(o *options) }

// ProcessOption is an option of [Stream.Process]: [WithStores], [WithSerdes], [Concurrent].
type ProcessOption interface{ applyProcess(o *options) }

// options is what the options of one step come to.
type options struct {
	name          string
	keys          any // serde.Serde[K]
	values        any // serde.Serde[V]
	hasSerdes     bool
	partitions    int32
	hasPartitions bool
	emission      Emission
	noChangelog   bool
	ordered       bool
	negative      task.NegativeTimestamp
	stores        []*storeDef
	failure       *retry.Policy // nil: nothing was said
	recovery      *RecoveryMode // nil: nothing was said
	concurrent    bool
	commutative   bool
	unordered     bool
}

// As names a step. The name of a grouping names its repartition topic; the name of a table that reads a topic names its store, which
// otherwise has the topic's name. Names of steps are unique in a topology.
func As(name string) NameOption { return NameOption{name} }

// NameOption is what [As] returns.
type NameOption struct{ name string }

func (n NameOption) applyStep(o *options)        { o.name = n.name }
func (n NameOption) applyRepartition(o *options) { o.name = n.name }
func (n NameOption) applySource(o *options)      { o.name = n.name }
func (n NameOption) applyTableSource(o *options) { o.name = n.name }

// WithSerdes names the serdes of the keys and values that a step puts out or stores. Nil leaves one as it is.
func WithSerdes[K, V any](keys serde.Serde[K], values serde.Serde[V]) SerdeOption {
	o := SerdeOption{}
	if !isNil(keys) {
		o.keys = keys
	}
	if !isNil(values) {
		o.values = values
	}
	return o
}

// WithKeySerde is [WithSerdes] for the keys alone.
func WithKeySerde[K any](keys serde.Serde[K]) SerdeOption { return WithSerdes[K, K](keys, nil) }

// WithValueSerde is [WithSerdes] for the values alone.
func WithValueSerde[V any](values serde.Serde[V]) SerdeOption { return WithSerdes[V, V](nil, values) }

// SerdeOption is what [WithSerdes], [WithKeySerde] and [WithValueSerde] return.
type SerdeOption struct{ keys, values any }

func (s SerdeOption) applyStep(o *options) {
	o.hasSerdes = true
	if s.keys != nil {
		o.keys = s.keys
	}
	if s.values != nil {
		o.values = s.values
	}
}
func (s SerdeOption) applyRepartition(o *options) { s.applyStep(o) }
func (s SerdeOption) applyTable(o *options)       { s.applyStep(o) }
func (s SerdeOption) applyProcess(o *options)     { s.applyStep(o) }

// Partitions sets the number of partitions of a step's repartition topic. By default it has as many as the widest topic upstream. For a
// grouping that needs no such topic it is a fault.
func Partitions(n int) PartitionsOption { return PartitionsOption{n} }

// PartitionsOption is what [Partitions] returns.
type PartitionsOption struct{ n int }

func (p PartitionsOption) applyRepartition(o *options) {
	o.partitions, o.hasPartitions = int32(min(p.n, math.MaxInt32)), true
}

// Emission says when a table sends its changes downstream. It never touches the changelog, which gets one record for each changed key
// and commit.
type Emission uint8

const (
	// emitDefault is what a table has that says nothing.
	emitDefault Emission = iota
	// EmitAtCommit sends the last change of each key with the commit. It is the default.
	EmitAtCommit
	// EmitPerUpdate sends every change at once, within the unit of the record that caused it.
	EmitPerUpdate
)

func (e Emission) applyTable(o *options)       { o.emission = e }
func (e Emission) applyTableSource(o *options) { o.emission = e }
func (e Emission) applyBuilder(b *Builder)     { b.emission = e }

// WithoutChangelog makes a store that is not logged: it is empty in a task that moved.
func WithoutChangelog() ChangelogOption { return ChangelogOption{} }

// ChangelogOption is what [WithoutChangelog] returns.
type ChangelogOption struct{}

func (ChangelogOption) applyTable(o *options)       { o.noChangelog = true }
func (ChangelogOption) applyTableSource(o *options) { o.noChangelog = true }
func (ChangelogOption) applyStore(o *options)       { o.noChangelog = true }

// OnNegativeTimestamp says what becomes of records with a timestamp below zero: [FailRecord], the default, [DropRecord] or
// [UseStreamTime].
func OnNegativeTimestamp(n NegativeTimestamp) NegativeTimestampOption {
	return NegativeTimestampOption{n}
}

// NegativeTimestampOption is what [OnNegativeTimestamp] returns.
type NegativeTimestampOption struct{ n NegativeTimestamp }

func (n NegativeTimestampOption) applySource(o *options)      { o.negative = n.n }
func (n NegativeTimestampOption) applyTableSource(o *options) { o.negative = n.n }

// NegativeTimestamp is what a source does with a record whose timestamp is below zero.
type NegativeTimestamp = task.NegativeTimestamp

const (
	// FailRecord fails the record.
	FailRecord = task.Fail
	// DropRecord skips the record and counts it.
	DropRecord = task.Drop
	// UseStreamTime gives the record the task's stream time.
	UseStreamTime = task.UseStreamTime
)

// WithStores attaches stores to a processor, which opens them in its supplier. Processors that share a store are in one subtopology.
func WithStores(stores ...AnyStore) StoresOption { return StoresOption{stores} }

// StoresOption is what [WithStores] returns.
type StoresOption struct{ stores []AnyStore }

func (s StoresOption) applyProcess(o *options) {
	for _, store := range s.stores {
		o.stores = append(o.stores, defOf(store))
	}
}

// serdes are the serdes that the options name for a step with these types, or those it has anyway.
func serdes[K, V any](b *Builder, s *step, o options, keys serde.Serde[K], values serde.Serde[V]) (serde.Serde[K], serde.Serde[V]) {
	return serdeOption(b, s, "keys", o.keys, keys), serdeOption(b, s, "values", o.values, values)
}

func serdeOption[T any](b *Builder, s *step, what string, named any, has serde.Serde[T]) serde.Serde[T] {
	if named == nil {
		return has
	}
	typed, ok := named.(serde.Serde[T])
	if !ok {
		b.faultf("step %q: WithSerdes names a %T for its %s, which are of type %v", s.name, named, what, reflect.TypeFor[T]())
		return has
	}
	return typed
}
