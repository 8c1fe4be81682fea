package streams

// RecoveryMode is what a task does after a crash with the records that came while nobody ran it. [RecoverSerial] and [RecoverParallel] are
// options too: of a source, for the records of its topic, of a step that makes a repartition topic, for those of that topic, and of
// [Builder.Build]. The sources of a subtopology share one mode. A repartition topic that says nothing is recovered in parallel if some topic
// is from whose records its own are made. Where nobody says anything it is [Config].Recovery.
type RecoveryMode uint8

const (
	// RecoverSerial processes what was left behind first, in order, and then what is new. It is the default.
	RecoverSerial RecoveryMode = iota
	// RecoverParallel processes what is new at once, and beside it, in any order, what was left behind: after an end that was not clean, and
	// where more than [Config].RecoverAbove records were left. Each record is processed at least once, as ever. It needs [retry.Parallel],
	// and steps that come to the same whatever the order of records: those that keep no state, Count, an Aggregate that is [Commutative],
	// processors without stores or with stores that are [Unordered]. So must be all that is behind them, repartition topics included. [New] fails with
	// a [*RecoveryError] for each step that is not so: a source whose records need their order says RecoverSerial.
	RecoverParallel
)

func (m RecoveryMode) String() string {
	switch m {
	case RecoverSerial:
		return "serial"
	case RecoverParallel:
		return "parallel"
	default:
		return "unknown"
	}
}

func (m RecoveryMode) valid() bool { return m <= RecoverParallel }

func (m RecoveryMode) applySource(o *options)      { o.recovery = &m }
func (m RecoveryMode) applyTableSource(o *options) { o.recovery = &m }
func (m RecoveryMode) applyRepartition(o *options) { o.recovery = &m }
func (m RecoveryMode) applyBuild(o *buildOptions)  { o.recovery = m }

// Commutative says that the function of an Aggregate comes to the same result in whatever order it takes the values of a key, such as a sum
// or a maximum, and makes no use of Context or of what it has seen before. [RecoverParallel] takes no other Aggregate.
func Commutative() CommutativeOption { return CommutativeOption{} }

// CommutativeOption is what [Commutative] returns.
type CommutativeOption struct{}

func (CommutativeOption) applyTable(o *options) { o.commutative = true }

// Unordered says that processors which use a store, or read that of a table, do not count on the order of records: whichever of two comes
// first, and whether older ones are still to come, what they make of them is right. [RecoverParallel] takes processors with no other stores.
func Unordered() UnorderedOption { return UnorderedOption{} }

// UnorderedOption is what [Unordered] returns.
type UnorderedOption struct{}

func (UnorderedOption) applyStore(o *options) { o.unordered = true }
func (UnorderedOption) applyTable(o *options) { o.unordered = true }
