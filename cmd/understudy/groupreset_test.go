package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

func TestGoals(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 500_600_700, time.UTC)
	at := time.Date(2026, 2, 28, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		to    string
		by    time.Duration
		want  goal
		flag  string // that asks for the same later
		fault string
	}{
		{to: "earliest", want: goal{kind: toEarliest}, flag: "earliest"},
		{to: "latest", want: goal{kind: toLatest}, flag: "latest"},
		{to: "0", want: goal{kind: toOffset}, flag: "0"},
		{to: "1200", want: goal{kind: toOffset, offset: 1200}, flag: "1200"},
		{to: "2026-02-28T12:00:00Z", want: goal{kind: toTime, at: at}, flag: "2026-02-28T12:00:00Z"},
		{by: 24 * time.Hour, want: goal{kind: toTime, at: at.Add(500 * time.Millisecond)}, flag: "2026-02-28T12:00:00.5Z"},
		{to: "latest", by: time.Hour, fault: "-to and -by exclude each other"},
		{by: -time.Hour, fault: "-by is -1h0m0s"},
		{fault: "-to or -by is missing"},
		{to: "-5", fault: `-to "-5" is neither`},
		{to: "yesterday", fault: `-to "yesterday" is neither`},
		{to: "2026-02-28", fault: `-to "2026-02-28" is neither`},
		{to: "99999999999999999999", fault: "is neither"},
	} {
		g, fault := goalOf(c.to, c.by, now)
		if c.fault != "" {
			require.Contains(t, fault, c.fault)
			continue
		}
		require.Empty(t, fault)
		require.Equal(t, c.flag, g.flag())
		require.Equal(t, c.want.kind, g.kind)
		require.Equal(t, c.want.offset, g.offset)
		require.True(t, c.want.at.Equal(g.at), g.at)
	}
}

func TestTargets(t *testing.T) {
	log := bounds{first: 10, end: 50, since: kafka.ListedOffset{Offset: 30}}
	for _, c := range []struct {
		name string
		goal goal
		log  bounds
		want int64
		note string
	}{
		{"earliest", goal{kind: toEarliest}, log, 10, ""},
		{"latest", goal{kind: toLatest}, log, 50, ""},
		{"an offset", goal{kind: toOffset, offset: 11}, log, 11, ""},
		{"the end", goal{kind: toOffset, offset: 50}, log, 50, ""},
		{"deleted", goal{kind: toOffset, offset: 9}, log, 10, "the log begins here"},
		{"not written yet", goal{kind: toOffset, offset: 51}, log, 50, "the log ends here"},
		{"a time", goal{kind: toTime}, log, 30, ""},
		{"a time after all records", goal{kind: toTime}, bounds{first: 10, end: 50, since: kafka.ListedOffset{Offset: -1}}, 50, "no record is as late: the end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			offset, note := c.goal.target(c.log)
			require.Equal(t, c.want, offset)
			require.Equal(t, c.note, note)
		})
	}
}

// shop is an application with state, beside another one whose name begins with its own.
func shop() (facts, world) {
	committed := func(topic string, partition int32, offset int64, metadata string) kafka.FetchedOffset {
		return kafka.FetchedOffset{TopicPartition: partOf(topic, partition), Offset: offset, Metadata: metadata}
	}
	f := facts{
		GroupDescription: kafka.GroupDescription{Group: "shop", State: "Empty", ProtocolType: "consumer"}, kind: outside.Understudy,
		offsets: []kafka.FetchedOffset{
			committed("orders", 0, 40, ""), committed("gone", 0, 4, ""), committed("prices", 1, 7, ""),
			committed("shop-by-item-repartition", 0, 9, ""), committed("shop-totals-changelog", 1, 100, outside.BoardPrefix+"1 5 m"),
		},
	}
	w := world{
		topics: map[string]int32{
			"orders": 2, "prices": 2, "unrelated": 1, "shop": 1, "shop-notes": 1, "other-totals-changelog": 1,
			"shop-totals-changelog": 2, "shop-by-item-repartition": 2, "shop-orders-retry": 2, "shop-orders-redrive": 2, "shop-orders-dlq": 2,
		},
		groups: []string{"other", "shop", "shop-redrive"},
	}
	return f, w
}

func TestScopeOfAReset(t *testing.T) {
	reset := func(o resetOrder, change ...func(*facts, *world)) (*resetPlan, error) {
		f, w := shop()
		for _, c := range change {
			c(&f, &w)
		}
		o.app = "shop"
		return o.scope(&f, &w)
	}
	own := []topicRow{
		{Name: "shop-by-item-repartition", Purpose: "repartition"}, {Name: "shop-orders-redrive", Purpose: "redrive"},
		{Name: "shop-orders-retry", Purpose: "retry"}, {Name: "shop-totals-changelog", Purpose: "changelog"},
	}
	letters := topicRow{Name: "shop-orders-dlq", Purpose: "dlq"}

	p, err := reset(resetOrder{})
	require.NoError(t, err)
	require.Equal(t, []task.TopicPartition{partOf("orders", 0), partOf("orders", 1), partOf("prices", 0), partOf("prices", 1)}, p.inputs, "also what it has not committed")
	require.Equal(t, []string{"gone-0"}, p.Gone)
	require.Equal(t, own, p.Delete)
	require.Equal(t, []topicRow{letters}, p.Keep)
	require.Equal(t, []task.TopicPartition{partOf("shop-by-item-repartition", 0), partOf("shop-totals-changelog", 1)}, p.drop, "what is made anew begins at 0")
	require.Empty(t, p.Doubt)

	p, err = reset(resetOrder{cleanup: cleanup{letters: true}})
	require.NoError(t, err)
	require.Contains(t, p.Delete, letters)
	require.Empty(t, p.Keep)

	p, err = reset(resetOrder{offsetsOnly: true, topics: []string{"orders"}, partitions: []int32{1}})
	require.NoError(t, err)
	require.Equal(t, []task.TopicPartition{partOf("orders", 1)}, p.inputs)
	require.Equal(t, own, p.Left)
	require.Empty(t, p.Delete)
	require.Empty(t, p.drop)
	require.False(t, p.more())

	p, err = reset(resetOrder{cleanup: cleanup{leave: []string{"shop-by-*", "shop-orders-*"}}})
	require.NoError(t, err)
	require.Equal(t, own[3:], p.Delete)
	require.Contains(t, p.inputs, partOf("shop-by-item-repartition", 1), "what is not the application's own is an input")

	for says, o := range map[string]resetOrder{
		"made of all its input":            {topics: []string{"orders"}},
		`there is no topic "missing"`:      {topics: []string{"missing"}},
		"there is no partition 2":          {topics: []string{"orders"}, partitions: []int32{2}, offsetsOnly: true},
		"is the application's own topic":   {topics: []string{"shop-by-item-repartition"}, offsetsOnly: true},
		"-state-dir), which are made of a": {topics: []string{"orders"}, cleanup: cleanup{stateDir: "x", leave: []string{"*"}}},
	} {
		_, err := reset(o)
		require.ErrorContains(t, err, says)
	}
	_, err = reset(resetOrder{}, func(f *facts, _ *world) { f.offsets = f.offsets[3:] })
	require.ErrorContains(t, err, "name what it reads with -topic")
}

// Names alone do not say whose a topic is: where another group may have it, somebody has to.
func TestTopicsInDoubt(t *testing.T) {
	f, w := shop()
	w.topics["shop-v2-totals-changelog"] = 2
	w.groups = append(w.groups, "shop-v2", "shop-v2-totals")
	o := resetOrder{target: target{app: "shop"}}
	p, err := o.scope(&f, &w)
	require.NoError(t, err)
	require.Equal(t, []topicRow{{Name: "shop-v2-totals-changelog", Purpose: "changelog", Why: `it may be of group "shop-v2", which exists`}}, p.Doubt)
	require.Len(t, p.Delete, 4)
	err = (&owned{Doubt: p.Doubt}).doubtful()
	require.ErrorContains(t, err, "shop-v2-totals-changelog")
	require.ErrorContains(t, err, "-take")

	o.leave = []string{"shop-v2-*"}
	p, err = o.scope(&f, &w)
	require.NoError(t, err)
	require.Empty(t, p.Doubt)
	require.Len(t, p.Delete, 4)
	o.take = []string{"shop-v2-totals-changelog"}
	p, err = o.scope(&f, &w)
	require.NoError(t, err)
	require.Empty(t, p.Doubt)
	require.Len(t, p.Delete, 5)

	// A consumer's group may have the name that the topics of others begin with.
	o = resetOrder{target: target{app: "shop"}}
	f.kind = outside.Consumer
	p, err = o.scope(&f, &w)
	require.NoError(t, err)
	require.Empty(t, p.Delete)
	require.Len(t, p.Doubt, 5)
	require.Contains(t, p.Doubt[0].Why, "nothing shows")
	require.Equal(t, []task.TopicPartition{partOf("orders", 0), partOf("prices", 1)}, p.inputs, "a consumer may read some partitions only")
	o.offsetsOnly = true
	p, err = o.scope(&f, &w)
	require.NoError(t, err)
	require.Contains(t, p.inputs, partOf("shop-by-item-repartition", 0))
	require.Empty(t, p.Left)
}

func TestKinds(t *testing.T) {
	said := func(metadata ...string) (out []kafka.FetchedOffset) {
		for _, m := range metadata {
			out = append(out, kafka.FetchedOffset{Offset: 5, Metadata: m})
		}
		return out
	}
	running, _ := (&retry.Metadata{StreamTime: 9, Main: 9, Running: true, Suspect: -1}).Encode(5)
	ended, _ := (&retry.Metadata{StreamTime: 9, Main: 5, Suspect: -1}).Encode(5)
	for _, c := range []struct {
		protocolType, protocol string
		said                   []kafka.FetchedOffset
		want                   outside.Kind
	}{
		{"consumer", "learner-v1", nil, outside.Understudy},
		{"consumer", "stream", nil, outside.KafkaStreams},
		{"streams", "", nil, outside.KafkaStreams},
		{"consumer", "range", said(running), outside.Consumer},
		{"connect", "sessioned", nil, "connect"},
		{"consumer", "", nil, outside.Consumer},
		{"", "", said("", ""), outside.Consumer},
		{"consumer", "", said("", "somebody's own"), outside.Consumer},
		{"consumer", "", said("", ended), outside.Streams},
		{"consumer", "", said(ended, running), outside.Understudy},
		{"consumer", "", said(outside.BoardPrefix + "1 5 m"), outside.Understudy},
		{"consumer", "", said(retry.HalfReset), outside.Understudy},
	} {
		require.Equal(t, c.want, outside.KindOf(c.protocolType, c.protocol, c.said), c)
	}
}

func TestResetViews(t *testing.T) {
	f, w := shop()
	w.topics["shop-v2-totals-changelog"] = 2
	w.groups = append(w.groups, "shop-v2")
	o := resetOrder{target: target{app: "shop"}, goal: goal{kind: toOffset, offset: 20}}
	p, err := o.scope(&f, &w)
	require.NoError(t, err)
	p.Delete[2].Records = 3
	logs := map[task.TopicPartition]bounds{}
	for _, tp := range p.inputs {
		logs[tp] = bounds{first: 5, end: 40}
	}
	logs[partOf("prices", 0)] = bounds{first: 2, end: 9}
	p.aim(o.goal, &f, logs)
	p.warn(&o)
	golden(t, "group_reset_dry.txt", p.text())
	p.Applied, p.Doubt, p.Files = true, nil, []string{"/var/lib/shop/db"}
	golden(t, "group_reset.txt", p.text())

	o.offsetsOnly = true
	p, err = o.scope(&f, &w)
	require.NoError(t, err)
	p.aim(o.goal, &f, logs)
	p.warn(&o)
	golden(t, "group_reset_offsets.txt", p.text())

	d := deleteOrder{target: target{app: "shop"}}
	golden(t, "group_delete_dry.txt", d.scope(&f, &w).text())
	d.internal, d.leave = true, []string{"shop-v2-*"}
	gone := d.scope(&f, &w)
	gone.Applied = true
	golden(t, "group_delete.txt", gone.text())
}

func TestWhoIsInTheWay(t *testing.T) {
	in := func(state string, hidden bool, members ...kafka.DescribedMember) error {
		return (&facts{GroupDescription: kafka.GroupDescription{Group: "g", State: state, Members: members}, hidden: hidden}).alone()
	}
	require.NoError(t, in("Empty", false))
	require.NoError(t, in("Dead", false))
	require.NoError(t, in("Empty", true))
	require.ErrorContains(t, in("Stable", false, kafka.DescribedMember{ID: "m-1", ClientID: "c", Host: "/10.0.0.1"}), "m-1 (client c, host 10.0.0.1)")
	require.ErrorContains(t, in("Stable", true), "kafka-consumer-groups")
	require.ErrorContains(t, in("PreparingRebalance", false), "somebody joins or leaves")
}

func TestWhatAUserLacks(t *testing.T) {
	require.ErrorContains(t, allowed(kcode.GroupAuthorizationFailed, "Delete", "g"), `operation Delete on group "g"`)
	require.ErrorIs(t, allowed(kcode.TopicAuthorizationFailed, "Delete", "t"), kcode.TopicAuthorizationFailed)
	require.ErrorContains(t, allowed(kcode.ClusterAuthorization, "Describe", "*"), "on the cluster")
	require.Equal(t, kcode.NotCoordinator, allowed(kcode.NotCoordinator, "Read", "g"))
	require.NoError(t, allowed(nil, "Read", "g"))
}

// parts runs group reset and gives what it says of partitions.
func parts(t *testing.T, addrs []string, args ...string) (out []resetPart) {
	t.Helper()
	text, diagnostics, err := command(t, append([]string{"group", "reset", "-brokers", addrs[0], "-json"}, args...)...)
	require.NoError(t, err, diagnostics)
	var p resetPlan
	require.NoError(t, json.Unmarshal([]byte(text), &p))
	return p.Parts
}

func TestResetOfAConsumersOffsets(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, addrs []string) {
		g := uniqueName()
		topic := topicOf(t, addrs, g+"-in", 2)
		produce(t, addrs, partOf(topic, 0), since(3*time.Hour, "0", "1", "2")...)
		produce(t, addrs, partOf(topic, 0), since(time.Hour, "3", "4")...)
		produce(t, addrs, partOf(topic, 1), since(3*time.Hour, "0", "1")...)
		commits(t, addrs, g, at(partOf(topic, 0), 4, nil))
		commit := func(want int64) {
			t.Helper()
			offsets := outside.GroupOffsets{Client: openClient(t, addrs), Group: g}
			defer offsets.Close()
			got, err := offsets.Fetch(t.Context(), []task.TopicPartition{partOf(topic, 0)})
			require.NoError(t, err)
			require.Equal(t, want, got[0].Offset)
		}
		zero := func(committed, to int64, note string) []resetPart {
			return []resetPart{{Topic: topic, Committed: committed, To: to, Note: note}}
		}
		require.Equal(t, zero(4, 0, ""), parts(t, addrs, "-group", g, "-to", "earliest"))
		commit(4)
		require.Equal(t, zero(4, 0, ""), parts(t, addrs, "-group", g, "-to", "earliest", "-execute"))
		commit(0)
		require.Equal(t, zero(0, 3, ""), parts(t, addrs, "-group", g, "-by", "2h", "-execute"))
		commit(3)
		require.Equal(t, zero(3, 5, ""), parts(t, addrs, "-group", g, "-to", "latest", "-apply"))
		commit(5)
		require.Equal(t, zero(5, 3, ""), parts(t, addrs, "-group", g, "-to", time.Now().Add(-90*time.Minute).Format(time.RFC3339), "-execute"))
		require.Equal(t, zero(3, 5, "no record is as late: the end"), parts(t, addrs, "-group", g, "-by", "1m", "-execute"))
		require.Equal(t, zero(5, 5, "the log ends here"), parts(t, addrs, "-group", g, "-to", "77", "-execute"))
		require.Equal(t, []resetPart{{Topic: topic, Partition: 1, Committed: -1, To: 1}}, parts(t, addrs, "-group", g, "-to", "1", "-topic", topic, "-partition", "1", "-execute"))
		commit(5)

		_, _, err := command(t, "group", "reset", "-brokers", addrs[0], "-group", g+"-none", "-to", "earliest")
		require.ErrorContains(t, err, `there is none named "`+g+`-none"`)
		require.Len(t, parts(t, addrs, "-group", g+"-new", "-topic", topic, "-to", "1", "-execute"), 2, "a group that nobody has been in may be given a beginning")
	})
}

func TestNothingIsResetOrDeletedWhileMembersAreAlive(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, addrs []string) {
		app := uniqueName()
		joins(t, addrs, app, 1)
		isStable(t, addrs, app)
		text, _, err := command(t, "group", "reset", "-brokers", addrs[0], "-app", app, "-to", "earliest", "-topic", "in")
		require.NoError(t, err, "to look at what would be done is allowed")
		require.Contains(t, text, "-execute would be refused now: group \""+app+"\" has members")
		text, _, err = command(t, "group", "delete", "-brokers", addrs[0], "-app", app, "-json")
		require.NoError(t, err)
		var p deletePlan
		require.NoError(t, json.Unmarshal([]byte(text), &p))
		require.Contains(t, p.Refused, "has members")
		_, _, err = command(t, "group", "reset", "-brokers", addrs[0], "-app", app, "-to", "earliest", "-topic", "in", "-execute")
		require.ErrorContains(t, err, "has members")
		require.ErrorContains(t, err, "(client understudy, host ")
		_, _, err = command(t, "group", "delete", "-brokers", addrs[0], "-app", app, "-execute")
		require.ErrorContains(t, err, "has members")
	})
}

func TestGroupDelete(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, addrs []string) {
		app := uniqueName()
		topic, changelog := topicOf(t, addrs, app+"-in", 1), topicOf(t, addrs, app+"-counts-changelog", 1)
		letters := topicOf(t, addrs, app+"-in-dlq", 1)
		state := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(state, app, "db"), 0o700))
		commits(t, addrs, app, at(partOf(topic, 0), 0, &retry.Metadata{StreamTime: 9, Running: true, Suspect: -1}))
		run := func(args ...string) (p deletePlan) {
			text, diagnostics, err := command(t, append([]string{"group", "delete", "-brokers", addrs[0], "-app", app, "-json", "-internal-topics", "-state-dir", state}, args...)...)
			require.NoError(t, err, diagnostics)
			require.NoError(t, json.Unmarshal([]byte(text), &p))
			return p
		}
		p := run()
		require.Equal(t, []topicRow{{Name: changelog, Purpose: "changelog"}}, p.Delete)
		require.Equal(t, []topicRow{{Name: letters, Purpose: "dlq"}}, p.Keep)
		require.Equal(t, []string{filepath.Join(state, app, "db")}, p.Files)
		require.False(t, p.Applied)
		require.DirExists(t, filepath.Join(state, app, "db"))
		require.True(t, run("-execute").Applied)
		require.NoDirExists(t, filepath.Join(state, app))
		client := openClient(t, addrs)
		_, err := outside.Spans(t.Context(), client, changelog)
		require.ErrorContains(t, err, "there is no topic")
		_, err = outside.Spans(t.Context(), client, letters)
		require.NoError(t, err)
		_, _, err = command(t, "group", "delete", "-brokers", addrs[0], "-app", app)
		require.ErrorContains(t, err, "no such group")
	})
}
