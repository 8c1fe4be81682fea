package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// session is the session timeout of every instance; longSession where a broker dies, which others notice after 9 s.
	session, longSession = 6 * time.Second, 15 * time.Second
	// loadRate is the steady load, in records a second over all partitions.
	loadRate, quickRate = 20_000, 5_000
	// undisturbed is how long the group is left alone before the first event: that is what silences are compared with.
	undisturbed, quickUndisturbed = 20 * time.Second, 4 * time.Second
	// tail is how long the group is looked at after it has come to rest.
	tail, quickTail = 6 * time.Second, time.Second
	// settling is how long the group may take to come to rest; Kafka Streams looks for tasks to move once a minute.
	settling, quickSettling = 2 * time.Minute, 25 * time.Second
	// filling is how long the state may take to be filled, and the last counts to come.
	filling = 4 * time.Minute
	// fresh is how old the last output of a partition may be while it counts as running.
	fresh = 500 * time.Millisecond
)

// fault is what a program, and not the harness, has done wrong.
type fault string

func (f fault) Error() string { return string(f) }

// reshuffle is a run of a rebalance scenario on its way.
type reshuffle struct {
	*run
	quick    bool
	out      string // the output topic; both are named for the application, and go with what it has made
	observer *observer
	load     *load

	instances  map[byte]*process // those that run
	launched   []*process        // all there ever were
	happenings []*happening
	before     window // undisturbed
	seen       others
	spent      float64 // CPU seconds of the instances up to then
}

// reshuffle runs a scenario with a program.
func (b *bench) reshuffle(ctx context.Context, p program, w workload, round int) (_ result, err error) {
	if p.name == ks {
		p.command = javaCommand(b.dir, 512, 1024) // up to four of them
	}
	if n := w.shuffle.brokers; n > 0 {
		var end func() error
		if b, end, err = b.withNodes(ctx, n); err != nil {
			return result{}, err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	one, err := b.newRun(ctx, p, w, round)
	if err != nil {
		return one.result, err
	}
	r := &reshuffle{run: one, quick: b.settings.scale < 1, instances: map[byte]*process{}}
	r.result.Records = r.in.keys
	r.in.name, r.out = r.app+"-in", r.app+"-out"
	defer func() { err = errors.Join(err, r.clear(ctx)) }()
	err = r.play(ctx)
	var blamed fault
	if errors.As(err, &blamed) {
		r.result.Why = string(blamed)
		return r.result, nil
	}
	return r.result, err
}

// session is how long the group waits for a sign of life of an instance.
func (r *reshuffle) session() time.Duration { return cmp.Or(r.w.shuffle.session, session) }

// clear removes what the run has left behind, whatever became of it.
func (r *reshuffle) clear(ctx context.Context) error {
	for _, p := range r.launched {
		p.signal(syscall.SIGTERM)
	}
	for _, p := range r.launched {
		_, _ = p.stop() // one that does not end is killed
	}
	return r.run.clear(ctx)
}

// play is the whole of a run: fill the state, leave the group alone, let things happen, and check what came out.
func (r *reshuffle) play(ctx context.Context) (err error) {
	ring := newKeyring(r.in.keys, r.in.partitions)
	for topic, stamps := range map[string]bool{r.in.topic(): false, r.out: true} {
		if err := r.bench.cluster.recreate(ctx, topic, r.in.partitions, stamps); err != nil {
			return err
		}
	}
	if r.load, err = r.bench.cluster.newLoad(r.in.topic(), ring); err != nil {
		return err
	}
	defer r.load.writer.client.Close()
	r.observer = newObserver(ring)
	following, cancel := context.WithCancel(ctx)
	wait, err := r.observer.follow(following, r.bench.cluster, r.out)
	if err != nil {
		cancel()
		return err
	}
	defer func() { cancel(); wait() }()
	if err := r.fill(ctx); err != nil {
		return err
	}
	stop, loaded := make(chan struct{}), make(chan error, 1)
	loading, cancelLoad := context.WithCancel(ctx)
	defer cancelLoad()
	go func() { loaded <- r.load.steady(loading, r.pick(loadRate, quickRate), stop) }()
	if err := r.happen(ctx); err != nil {
		return err
	}
	close(stop)
	if err := <-loaded; err != nil {
		return err
	}
	return r.conclude(ctx)
}

// pick is a setting of a whole run, or of a look.
func (r *reshuffle) pick(whole, look int) int {
	if r.quick {
		return look
	}
	return whole
}

func (r *reshuffle) during(whole, look time.Duration) time.Duration {
	return time.Duration(r.pick(int(whole), int(look)))
}

// fill starts the instances while there is nothing to do, so that all share the work before there is any state, and then sends each key once.
func (r *reshuffle) fill(ctx context.Context) error {
	if err := pause(ctx, 1500*time.Millisecond); err != nil { // the broker is still busy with deletions
		return err
	}
	ignored := new(happening)
	for i := range r.w.shuffle.begin {
		if err := r.launch(ignored, 'a'+byte(i)); err != nil {
			return err
		}
	}
	since := time.Now()
	if err := r.await(ctx, "the members of the group", joining, func() (bool, error) {
		stable, members, err := r.bench.cluster.group(ctx, r.app)
		if err != nil || !stable || members < r.members() {
			since = time.Now()
		}
		return time.Since(since) >= settled, err
	}); err != nil {
		return err
	}
	if err := r.load.every(ctx); err != nil {
		return err
	}
	return r.await(ctx, "all keys in the output", filling, func() (bool, error) {
		n, err := r.observer.seen()
		return n == r.in.keys, err
	})
}

// members is how many members the instances that run have in their group.
func (r *reshuffle) members() int {
	if r.program.name == ks { // each thread is one
		return len(r.instances) * r.bench.settings.threads
	}
	return len(r.instances)
}

// happen leaves the group alone for a while and then plays the script.
func (r *reshuffle) happen(ctx context.Context) error {
	started := new(happening)
	if err := r.await(ctx, "a balanced start", settling, func() (bool, error) { return r.balanced(started), nil }); err != nil {
		return err
	}
	if err := pause(ctx, settled); err != nil {
		return err
	}
	r.spent = r.used()
	var err error
	if r.seen, err = lookAround(r.ownPIDs()...); err != nil {
		return err
	}
	r.before.from = time.Now().UnixMilli()
	if err := pause(ctx, r.during(undisturbed, quickUndisturbed)); err != nil {
		return err
	}
	r.before.to = time.Now().UnixMilli()
	if err := r.w.shuffle.script(ctx, r); err != nil {
		return err
	}
	now, err := lookAround(r.ownPIDs()...)
	now.known += r.used() - r.spent // the instances come and go, so they are counted apart
	r.result.OtherCores = now.cores(r.seen)
	r.result.Disturbed = r.result.OtherCores > r.bench.settings.foreign
	return err
}

// ownPIDs are the processes of the benchmark that are there all the time.
func (r *reshuffle) ownPIDs() []int {
	pids := []int{os.Getpid()}
	if r.bench.nodes != nil {
		pids = append(pids, r.bench.nodes.pids()...)
	}
	if r.bench.settings.brokerPID > 0 {
		pids = append(pids, r.bench.settings.brokerPID)
	}
	return pids
}

// used is the CPU time of all instances there ever were, in seconds.
func (r *reshuffle) used() float64 {
	sum := 0.
	for _, p := range r.launched {
		sum += p.used()
	}
	return sum
}

// clientID is how the broker knows an instance.
func (r *reshuffle) clientID(name byte) string { return r.app + "-instance-" + string(name) }

// launch starts an instance, with the state that one of its name has left.
func (r *reshuffle) launch(h *happening, name byte) error {
	b := r.bench
	state := filepath.Join(r.state, string(name))
	if err := os.MkdirAll(state, 0o755); err != nil {
		return err
	}
	command := append(slices.Clone(r.program.command), b.settings.arguments(r.w, r.in, b.cluster.brokers, r.app, state)...)
	command = append(command, "--out", r.out, "--instance", string(name))
	standbys := strconv.Itoa(r.w.shuffle.standbys)
	if r.program.name == ks {
		lag := "10000"
		if r.quick {
			lag = "1000000000" // nothing waits for the minute after which it looks again
		}
		command = append(command, "--num.standby.replicas", standbys, "--acceptable.recovery.lag", lag, "--probing.rebalance.interval.ms", "60000",
			"--max.warmup.replicas", "8", "--consumer.session.timeout.ms", strconv.FormatInt(r.session().Milliseconds(), 10), "--consumer.heartbeat.interval.ms", "2000",
			"--client.id", r.clientID(name))
	} else {
		command = append(command, "--standbys", standbys, "--session-ms", strconv.FormatInt(r.session().Milliseconds(), 10), "--client-id", r.clientID(name))
	}
	p, err := start(command, filepath.Join(b.dir, "logs", fmt.Sprintf("%s-%c-%d.log", r.app, name, len(r.launched))))
	if err != nil {
		return err
	}
	if r.result.Command == "" {
		r.result.Command = strings.Join(command, " ")
	}
	h.processes = append(h.processes, len(r.launched))
	r.launched = append(r.launched, p)
	r.instances[name] = p
	return nil
}

// remove takes an instance off the list of those that have to run.
func (r *reshuffle) remove(name byte) *process {
	p := r.instances[name]
	delete(r.instances, name)
	return p
}

// event begins a happening.
func (r *reshuffle) event(name string) *happening {
	h := &happening{name: name}
	h.window.from, h.log[0] = time.Now().UnixMilli(), r.log().size()
	r.happenings = append(r.happenings, h)
	return h
}

func (r *reshuffle) log() brokerLog {
	switch {
	case r.bench.nodes != nil:
		return brokerLog{r.bench.nodes.logs()}
	case r.bench.settings.brokerLog != "":
		return brokerLog{[]string{r.bench.settings.brokerLog}}
	}
	return brokerLog{}
}

// settle waits until every partition is put out by its final owner, and a while longer, and ends the happening. A group that does not come to
// rest is no fault; it is noted.
func (r *reshuffle) settle(ctx context.Context, h *happening) error {
	err := r.await(ctx, "a balanced group", r.during(settling, quickSettling), func() (bool, error) {
		if !r.balanced(h) {
			return false, nil
		}
		h.balanced = time.Now().UnixMilli()
		return true, nil
	})
	if err != nil && !errors.As(err, new(late)) {
		return err
	}
	if err := pause(ctx, r.during(tail, quickTail)); err != nil {
		return err
	}
	h.window.to, h.log[1] = time.Now().UnixMilli(), r.log().size()
	h.rounds, h.reasons, err = r.log().counted(h.log[0], h.log[1], r.app)
	if len(r.log().files) == 0 {
		return nil
	}
	return err
}

// balanced says whether the instances that run share the partitions evenly, and all of these have been put out just now.
func (r *reshuffle) balanced(h *happening) bool {
	owners, last := r.observer.owners()
	now := time.Now().UnixMilli()
	for _, at := range last {
		if at <= h.window.from || now-at > fresh.Milliseconds() {
			return false
		}
	}
	return shared(owners, slices.Collect(maps.Keys(r.instances)))
}

// shared says whether these instances, and no others, own evenly many partitions each.
func shared(owners []byte, instances []byte) bool {
	owned := map[byte]int{}
	for _, by := range owners {
		owned[by]++
	}
	least, all := len(owners)/len(instances), 0
	most := least
	if len(owners)%len(instances) > 0 {
		most++
	}
	for _, name := range instances {
		if n := owned[name]; n < least || n > most {
			return false
		}
		all += owned[name]
	}
	return all == len(owners)
}

// late is said of what did not come in time.
type late string

func (l late) Error() string { return string(l) }

// await looks until it is so. A program that ends meanwhile, without having been asked to, is at fault.
func (r *reshuffle) await(ctx context.Context, what string, patience time.Duration, so func() (bool, error)) error {
	for deadline := time.Now().Add(patience); ; {
		ok, err := so()
		if err == nil && ok {
			return nil
		}
		for name, p := range r.instances {
			if p.ended() {
				return fault(fmt.Sprintf("instance %c ended by itself (%s): %s", name, p.cmd.ProcessState, p.lastWords()))
			}
		}
		if err != nil && !passes(err) || time.Now().After(deadline) {
			return errors.Join(late(fmt.Sprintf("after %s still not there: %s", patience, what)), err)
		}
		if err := pause(ctx, lookEvery/2); err != nil {
			return err
		}
	}
}

// conclude waits for the last counts, ends the programs, and works the figures out.
func (r *reshuffle) conclude(ctx context.Context) error {
	wanted := r.load.wanted()
	err := r.await(ctx, "the count of every record", filling, func() (bool, error) {
		n, err := r.observer.missing(wanted)
		return n == 0, err
	})
	if err != nil && !errors.As(err, new(late)) { // what is missing is told below
		return err
	}
	for _, p := range r.instances { // all at once, or each takes over from the one before
		p.signal(syscall.SIGTERM)
	}
	for name, p := range r.instances {
		if _, err := p.stop(); err != nil {
			return fault(fmt.Sprintf("instance %c: %v", name, err))
		}
	}
	if err := r.readToEnd(ctx); err != nil {
		return err
	}
	said, err := r.said()
	if err != nil {
		return err
	}
	r.tell(said)
	v := r.observer.verdict(wanted)
	r.result.Figures[overcounted], r.result.Figures[repeats] = float64(v.excess), float64(v.repeated)
	r.result.Why = v.judge(r.mayRepeat())
	r.result.Verified = r.result.Why == ""
	return nil
}

// mayRepeat is how many records may be counted twice at the most: what an instance that was killed had read since its last commit, or all had that
// gave their tasks up because they could not reach a killed coordinator's successor in time. Two commit intervals and a second, of all partitions,
// are a generous bound; where nobody is killed it is none.
func (r *reshuffle) mayRepeat() int64 {
	span := 2*r.bench.settings.commit + time.Second
	kills := 0
	for _, h := range r.happenings {
		if h.dead != 0 || h.broker {
			kills++
		}
	}
	return int64(float64(kills) * span.Seconds() * float64(r.pick(loadRate, quickRate)))
}

// readToEnd waits until the observer has read what all programs together have written.
func (r *reshuffle) readToEnd(ctx context.Context) error {
	listed, _, err := r.bench.cluster.ends(ctx, r.out)
	if err != nil {
		return err
	}
	ends := make([]int64, r.in.partitions)
	for p, end := range listed[r.out] {
		ends[p] = end.Offset
	}
	r.instances = nil // they have ended
	return r.await(ctx, "the end of the output", filling, func() (bool, error) { return r.observer.at(ends), nil })
}

// said is everything that the programs have printed about themselves.
func (r *reshuffle) said() ([]word, error) {
	var all []word
	for i, p := range r.launched {
		output, err := os.ReadFile(p.logFile)
		if err != nil {
			return nil, err
		}
		all = append(all, words(output, i)...)
	}
	return all, nil
}

// tell fills in the figures.
func (r *reshuffle) tell(said []word) {
	hs := make([]happening, len(r.happenings))
	needlessly, seconds, worst := 0, 0., gap{}
	for i, h := range r.happenings {
		hs[i] = *h
		n, took := needless(said, h.window)
		needlessly, seconds = needlessly+n, seconds+took
		if g := r.load.longest(h.window); g.seconds() > worst.seconds() {
			worst = g
		}
	}
	figures, notes := figuresFrom(hs, r.observer.lines, r.before, said, int64(r.in.keys)/int64(r.in.partitions)/2)
	if r.program.name == ours { // the other one does not tell
		figures[pauses], figures[pausedForNothing] = float64(needlessly), seconds
		for _, h := range hs {
			figures[lost] += float64(happened("LOST", said, h.window))
		}
	}
	if len(r.log().files) == 0 {
		delete(figures, roundsTaken)
		delete(figures, roundsBeyond)
		delete(figures, readyBatches)
	}
	figures[loadSilence] = worst.seconds()
	maps.Copy(r.result.Figures, figures)
	r.result.Notes = notes
}
