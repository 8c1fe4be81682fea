package streamstest

import (
	"github.com/understudy-streams/understudy/streams"
)

// Members sets how many members a cluster begins with, which is 3 otherwise.
func Members(n int) Option {
	return func(s *settings) { s.members, s.clusterOnly = n, append(s.clusterOnly, "Members") }
}

// Seed decides how long things take in a cluster and what comes first. It is 1 otherwise. Tests that loop over seeds see the same application
// under many circumstances.
func Seed(seed uint64) Option {
	return func(s *settings) { s.seed, s.clusterOnly = seed, append(s.clusterOnly, "Seed") }
}

// WithConfig sets what every member is configured by: Session, CommitInterval, Standbys, OnFailure, Listener and others. What it leaves out has the
// defaults that an application has. The options [ApplicationID] and [OnFailure] come before it.
func WithConfig(cfg streams.Config) Option {
	return func(s *settings) { s.config, s.clusterOnly = cfg, append(s.clusterOnly, "WithConfig") }
}

// WithMemberConfig changes the configuration of single members, by their number, each time that they start: Rack, Tags, Capacity, Listener.
func WithMemberConfig(change func(member int, cfg *streams.Config)) Option {
	return func(s *settings) { s.change, s.clusterOnly = change, append(s.clusterOnly, "WithMemberConfig") }
}

// config is that of a member.
func (c *Cluster) config(member int) streams.Config {
	cfg := c.o.config
	if cfg.ApplicationID == "" || c.o.named {
		cfg.ApplicationID = c.o.applicationID
	}
	if c.o.failure.Named() {
		cfg.OnFailure = c.o.failure
	}
	if c.o.change != nil {
		c.o.change(member, &cfg)
	}
	cfg.Brokers, cfg.StateDir = []string{"virtual:9092"}, "virtual" // there are none: New only wants them to be named
	return cfg
}
