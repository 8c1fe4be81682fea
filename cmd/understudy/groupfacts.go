package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/task"
)

// facts are what the brokers say of one group.
type facts struct {
	kafka.GroupDescription
	kind    outside.Kind
	offsets []kafka.FetchedOffset // all that are committed
	// hidden: somebody may be in the group whom only Kafka's own tools name, as it has the newer protocol of consumers or of Kafka Streams.
	hidden bool
}

// groupFlags begins the flags of a command about one group, which may be a plain consumer's.
func (t *target) groupFlags(set *flag.FlagSet) {
	set.StringVar(&t.app, "group", "", "the same as -app")
}

// errNoGroup is in the chain where there is no such group.
var errNoGroup = errors.New("no such group")

// look asks about a group. Where there is none the error says so, and errNoGroup is in its chain.
func look(ctx context.Context, client *kafka.Client, name string) (facts, error) {
	d, err := settled(ctx, client, name)
	if err != nil {
		return facts{}, allowed(err, "Describe", name)
	}
	f := facts{GroupDescription: d}
	if d.State == "Dead" { // or of a kind that this request does not know
		listed, err := client.ListGroups(ctx)
		i := slices.IndexFunc(listed, func(g kafka.ListedGroup) bool { return g.Group == name })
		switch {
		case i >= 0:
			f.hidden, f.State, f.ProtocolType = true, listed[i].State, listed[i].ProtocolType
		case err != nil:
			return facts{}, fmt.Errorf("list the groups: %w", err)
		default:
			return facts{}, fmt.Errorf("%w: there is none named %q on these brokers: understudy group list names those that are there; "+
				"a group is forgotten when its offsets expire (offsets.retention.minutes)", errNoGroup, name)
		}
	}
	offsets := outside.GroupOffsets{Client: client, Group: name}
	defer offsets.Close()
	if f.offsets, err = offsets.All(ctx); err != nil {
		return facts{}, allowed(err, "Describe", name)
	}
	f.kind = outside.KindOf(f.ProtocolType, f.Protocol, f.offsets)
	return f, nil
}

// alone is an error while somebody is, or may be, in the group: whoever runs would commit over what is done here.
func (f *facts) alone() error {
	switch {
	case f.State == "Empty" || f.State == "Dead":
		return nil
	case len(f.Members) > 0:
		names := make([]string, 0, len(f.Members))
		for _, m := range f.Members {
			names = append(names, fmt.Sprintf("%s (client %s, host %s)", plain(m.ID, 100), plain(m.ClientID, 60), plain(strings.TrimPrefix(m.Host, "/"), 60)))
		}
		return fmt.Errorf("group %q has members: %s: stop them all first; one that was killed is a member until its session has timed out", f.Group, strings.Join(names, ", "))
	case f.hidden:
		return fmt.Errorf("group %q is in state %s, so it has members, which kafka-consumer-groups --describe --members names: stop them all first", f.Group, f.State)
	default:
		return fmt.Errorf("group %q is in state %s: somebody joins or leaves; try again when all members have stopped", f.Group, f.State)
	}
}

// inputOffsets are the committed offsets of what the group reads: without the positions that learners note.
func (f *facts) inputOffsets() []kafka.FetchedOffset {
	return slices.DeleteFunc(slices.Clone(f.offsets), func(o kafka.FetchedOffset) bool { return f.noted(o) })
}

// noted says that a committed offset is a position in a changelog that a learner has noted.
func (f *facts) noted(o kafka.FetchedOffset) bool {
	return strings.HasPrefix(o.Metadata, outside.BoardPrefix) ||
		f.kind.Application() && strings.HasPrefix(o.Topic, f.Group+"-") && strings.HasSuffix(o.Topic, outside.ChangelogSuffix)
}

// of gives the committed offset of a partition.
func (f *facts) of(tp task.TopicPartition) (kafka.FetchedOffset, bool) {
	i := slices.IndexFunc(f.offsets, func(o kafka.FetchedOffset) bool { return o.TopicPartition == tp })
	if i < 0 {
		return kafka.FetchedOffset{TopicPartition: tp, Offset: -1}, false
	}
	return f.offsets[i], true
}

// allowed says what a user lacks, where the brokers say that it lacks something.
func allowed(err error, operation, name string) error {
	switch {
	case errors.Is(err, kcode.GroupAuthorizationFailed):
		return fmt.Errorf("%w: the user needs the operation %s on group %q: kafka-acls --add --operation %s --group %s, or another user (-user)", err, operation, name, operation, name)
	case errors.Is(err, kcode.TopicAuthorizationFailed):
		return fmt.Errorf("%w: the user needs the operation %s on that topic: kafka-acls --add --operation %s --topic ..., or another user (-user)", err, operation, operation)
	case errors.Is(err, kcode.ClusterAuthorization):
		return fmt.Errorf("%w: the user needs the operation %s on the cluster, or another user (-user)", err, operation)
	}
	return err
}
