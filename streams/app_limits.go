package streams

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/task"
)

// batchOverhead is what a batch of one record takes beside it, at the most: its header, and the lengths.
const batchOverhead = 128

// limits learns what a broker takes in a topic, so that what it would refuse, and with it the whole batch, fails in the unit that makes it.
// Topics of the application itself are made with bounds that nothing reaches. What cannot be learnt is no limit: the broker has the last
// word.
func (t *topics) limits(ctx context.Context, topic string) task.Limits {
	if slices.ContainsFunc(t.app.Topology().Internal, func(in InternalTopic) bool { return in.Name == topic }) {
		return task.Limits{}
	}
	t.mu.Lock()
	l, ok := t.learnt[topic]
	t.mu.Unlock()
	if ok {
		return l
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	configs, err := t.client.TopicConfigs(ctx, []string{topic})
	if err != nil {
		t.app.cfg.Log.Warn("the limits of a topic cannot be read, the broker checks what is written", zap.String("topic", topic), zap.Error(err))
	}
	l = limitsOf(configs[topic])
	t.mu.Lock()
	t.learnt[topic] = l
	t.mu.Unlock()
	return l
}

// doubt forgets the limits of topics in which a broker has refused a record: they may have been lowered.
func (t *topics) doubt(refused []task.Refusal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range refused {
		delete(t.learnt, refused[i].Topic)
	}
}

func limitsOf(configs map[string]string) task.Limits {
	l := task.Limits{Compacted: strings.Contains(configs["cleanup.policy"], "compact")}
	if n, err := strconv.Atoi(configs["max.message.bytes"]); err == nil && n > batchOverhead {
		l.RecordBytes = n - batchOverhead
	}
	if configs["message.timestamp.type"] != "LogAppendTime" {
		l.Before, l.After = bound(configs["message.timestamp.before.max.ms"]), bound(configs["message.timestamp.after.max.ms"])
	}
	return l
}

// bound reads a number of milliseconds; those that no clock reaches are no bound.
func bound(ms string) time.Duration {
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || n > math.MaxInt64/int64(time.Millisecond) {
		return 0
	}
	return time.Duration(n) * time.Millisecond
}
