package streams

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"go.uber.org/zap"
)

const (
	maxMessageBytes = "max.message.bytes"
	recordRoom      = 64 << 10 // for what the wire format and the runtime's headers add
	brokersDefault  = 1<<20 + 12
)

// configs are those that the internal topics are made with, by their names. Where larger records may be written than brokers take by default,
// they take them. What holds whole records of a source takes the largest one that its topic takes.
func (t *topics) configs(ctx context.Context) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	for _, in := range t.app.Topology().Internal {
		configs := maps.Clone(in.Configs)
		if t.app.cfg.MaxRecordBytes > defaultRecordBytes {
			configs[maxMessageBytes] = strconv.Itoa(t.app.cfg.MaxRecordBytes + recordRoom)
		}
		all[in.Name] = configs
	}
	return all, t.sized(ctx, all)
}

// sized gives the topics that hold whole records of sources their sizes.
func (t *topics) sized(ctx context.Context, all map[string]map[string]string) error {
	sources := t.app.Topology().heldWhole()
	if len(sources) == 0 {
		return nil
	}
	var ask []string
	for _, from := range sources {
		for _, topic := range from {
			if all[topic] == nil && !slices.Contains(ask, topic) {
				ask = append(ask, topic)
			}
		}
	}
	told, err := t.client.TopicConfigs(ctx, ask)
	if told == nil {
		return temporary{err}
	}
	if err != nil { // of some topics, for want of rights
		t.app.cfg.Log.Warn("the size of the records in the topics that are read cannot be asked for: it is taken to be the brokers' default", zap.Error(err))
	}
	for name, from := range sources {
		most := 0
		for _, topic := range from {
			size := told[topic][maxMessageBytes]
			if own := all[topic]; own != nil {
				size = own[maxMessageBytes]
			}
			n, err := strconv.Atoi(size)
			if err != nil {
				n = brokersDefault
			}
			most = max(most, n)
		}
		all[name][maxMessageBytes] = strconv.Itoa(most + recordRoom)
	}
	return nil
}

// heldWhole are the internal topics whose records hold whole records of sources, each with those sources.
func (t *Topology) heldWhole() map[string][]string {
	held := map[string][]string{}
	for _, in := range t.Internal {
		switch in.Kind {
		case RetryTopic:
			held[in.Name] = t.subs[in.Subtopology].topics()
		case DeadLetterTopic, RedriveTopic:
			held[in.Name] = t.topicsOf(in.Source)
		}
	}
	return held
}
