package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// shuffle is a rebalance scenario: a group of instances under a steady load, and what happens to it.
type shuffle struct {
	begin    int           // instances at the beginning: a, b, c ...
	standbys int           // copies of each task
	brokers  int           // of its own; 0: the one that all have
	session  time.Duration // 0: what most have
	script   func(context.Context, *reshuffle) error
}

const (
	// stateKeys is the number of keys, and of rows in the state.
	stateKeys = 1_000_000
	leastKeys = 50_000
	// morePartitions is the number of partitions where more than two instances share them.
	morePartitions = 12
)

// The scenarios, by the names of their rows.
const (
	oneJoins      = "one joins, cold"
	threeJoin     = "three join, cold"
	killOne       = "kill -9 of one of two, one standby"
	rolling       = "rolling restart of three, one standby"
	drainOne      = "one of three drains"
	staggeredJoin = "three join, one after the other"
	killLeader    = "kill -9 of the leader of three, one standby"
	killLearner   = "kill -9 of an instance while it learns"
	killBroker    = "kill -9 of the coordinator's broker, of three"
)

func scenario(name string, partitions int32, s shuffle) workload {
	return workload{
		name: name, does: "tally", each: true, stamps: true, input: input{kind: "tally", records: stateKeys, keys: stateKeys, partitions: partitions},
		programs: []string{ours, ks}, shuffle: &s,
	}
}

// reshuffles are the scenarios with goals.
func reshuffles() []workload {
	return []workload{
		scenario(oneJoins, partitions, shuffle{begin: 1, script: func(ctx context.Context, r *reshuffle) error {
			return r.join(ctx, 0, 'b')
		}}),
		scenario(killOne, partitions, shuffle{begin: 2, standbys: 1, script: func(ctx context.Context, r *reshuffle) error {
			return r.kill(ctx, 'b')
		}}),
		scenario(rolling, morePartitions, shuffle{begin: 3, standbys: 1, script: func(ctx context.Context, r *reshuffle) error {
			names := "abc"
			if r.quick {
				names = "b"
			}
			for _, name := range []byte(names) {
				if err := r.restart(ctx, name); err != nil {
					return err
				}
			}
			return nil
		}}),
		scenario(drainOne, morePartitions, shuffle{begin: 3, script: func(ctx context.Context, r *reshuffle) error {
			return r.drain(ctx, 'c')
		}}),
		scenario(threeJoin, morePartitions, shuffle{begin: 1, script: func(ctx context.Context, r *reshuffle) error {
			return r.join(ctx, 0, 'b', 'c', 'd')
		}}),
	}
}

// moreReshuffles are those without goals of their own.
func moreReshuffles() []workload {
	return []workload{
		scenario(staggeredJoin, morePartitions, shuffle{begin: 1, script: func(ctx context.Context, r *reshuffle) error {
			return r.join(ctx, 10*time.Second, 'b', 'c', 'd')
		}}),
		scenario(killLeader, morePartitions, shuffle{begin: 3, standbys: 1, script: func(ctx context.Context, r *reshuffle) error {
			name, err := r.leader()
			if err != nil {
				return err
			}
			return r.kill(ctx, name)
		}}),
		scenario(killLearner, morePartitions, shuffle{begin: 2, script: func(ctx context.Context, r *reshuffle) error {
			return r.joinAndDie(ctx, 'c')
		}}),
		scenario(killBroker, morePartitions, shuffle{begin: 3, brokers: 3, session: longSession, script: func(ctx context.Context, r *reshuffle) error {
			return r.killCoordinator(ctx)
		}}),
	}
}

// join starts instances, one after the other with a pause between them.
func (r *reshuffle) join(ctx context.Context, between time.Duration, names ...byte) error {
	h := r.event("+" + string(names))
	for i, name := range names {
		if i > 0 {
			if err := pause(ctx, between); err != nil {
				return err
			}
		}
		if err := r.launch(h, name); err != nil {
			return err
		}
		h.newcomers = append(h.newcomers, name)
	}
	return r.settle(ctx, h)
}

// kill ends an instance without a word.
func (r *reshuffle) kill(ctx context.Context, name byte) error {
	h := r.event(fmt.Sprintf("kill -9 %c", name))
	h.dead = name
	if _, err := r.remove(name).end(syscall.SIGKILL, leaving); err != nil {
		return err
	}
	return r.settle(ctx, h)
}

// killCoordinator ends the broker that coordinates the group, without a word. It leads a third of all partitions besides, so each of the others is
// silent until there is another leader, which takes the brokers 9 s to see by default; nothing is to move, and no instance is to lose what it has.
func (r *reshuffle) killCoordinator(ctx context.Context) error {
	node, err := r.bench.cluster.coordinator(ctx, r.app)
	if err != nil {
		return err
	}
	h := r.event(fmt.Sprintf("kill -9 broker %d", node))
	h.broker = true
	if err := r.bench.nodes.kill(node); err != nil {
		return err
	}
	return r.settle(ctx, h)
}

// restart ends an instance cleanly and starts it again at once, with its state.
func (r *reshuffle) restart(ctx context.Context, name byte) error {
	h := r.event(fmt.Sprintf("restart %c", name))
	h.restarted = name
	if _, err := r.remove(name).stop(); err != nil {
		return fault(fmt.Sprintf("instance %c: %v", name, err))
	}
	if err := r.launch(h, name); err != nil {
		return err
	}
	return r.settle(ctx, h)
}

// draining is how long an instance may take to give everything away.
const draining = 2 * time.Minute

// drain ends an instance after it has given away what it has. Kafka Streams has no such thing: it leaves.
func (r *reshuffle) drain(ctx context.Context, name byte) error {
	how := syscall.SIGUSR1
	if r.program.name == ks {
		how = syscall.SIGTERM
	}
	h := r.event(fmt.Sprintf("drain %c", name))
	if _, err := r.remove(name).end(how, draining); err != nil {
		return fault(fmt.Sprintf("instance %c: %v", name, err))
	}
	return r.settle(ctx, h)
}

// joinAndDie starts an instance and kills it before it can have learned much.
func (r *reshuffle) joinAndDie(ctx context.Context, name byte) error {
	h := r.event(fmt.Sprintf("+%c, which dies", name))
	if err := r.launch(h, name); err != nil {
		return err
	}
	if err := r.await(ctx, "the member "+string(name), joining, func() (bool, error) {
		_, members, err := r.bench.cluster.group(ctx, r.app)
		return members >= r.members(), err
	}); err != nil {
		return err
	}
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	if _, err := r.remove(name).end(syscall.SIGKILL, leaving); err != nil {
		return err
	}
	h.dead = name
	if err := pause(ctx, r.session()); err != nil {
		return err
	}
	return r.settle(ctx, h)
}

// leader is the instance that made the last plan.
func (r *reshuffle) leader() (byte, error) {
	log := r.log()
	text, err := log.between(make([]int64, len(log.files)), log.size())
	if err != nil {
		return 0, err
	}
	member := leader(text, r.app)
	for name := range r.instances {
		if strings.HasPrefix(member, r.clientID(name)) {
			return name, nil
		}
	}
	return 0, fmt.Errorf("no instance is known by the leader's name %q", member)
}
