package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Options says what to start. The zero value is one broker without topics on a free port, in memory.
type Options struct {
	// Topics are created with that many partitions each, unless they exist (DataDir).
	Topics map[string]int32
	// Brokers defaults to 1.
	Brokers int
	// Port is the first broker's, the others follow. Defaults to free ones.
	Port int
	// DataDir keeps topics, records and groups over a restart. Empty: in memory.
	DataDir string
	// TLS makes the listeners speak TLS.
	TLS *tls.Config
	// Users switches SASL on.
	Users []User
	// Configs are broker configurations, by Kafka's names.
	Configs map[string]string
	// MinSession is the shortest session timeout that groups may have. Defaults to 100 ms, where Kafka's default is 6 s.
	MinSession time.Duration
	// Faults are installed before Start returns; Cluster().Fault installs more.
	Faults []kfake.Fault
	// Late holds requests back, without TLS.
	Late Late
}

// User may log in by SASL.
type User struct {
	Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	Name      string
	Password  string
}

// Broker is a running embedded cluster. It is safe for concurrent use.
type Broker struct {
	cluster *kfake.Cluster
	opts    Options
}

// Start starts the brokers and creates the topics.
func Start(o Options) (*Broker, error) {
	if o.Brokers == 0 {
		o.Brokers = 1
	}
	if o.MinSession == 0 {
		o.MinSession = 100 * time.Millisecond
	}
	if o.TLS != nil && len(o.Late) > 0 {
		return nil, errors.New("broker: Late looks into requests, which TLS hides: use one of the two")
	}
	fresh, err := emptyDir(o.DataDir)
	if err != nil {
		return nil, err
	}
	c, err := kfake.NewCluster(o.kfake()...)
	if err != nil {
		return nil, fmt.Errorf("broker: start: %w", err)
	}
	b := &Broker{cluster: c, opts: o}
	if fresh {
		answerUnknownGroups(c)
	} else if err := b.createMissing(); err != nil {
		c.Close()
		return nil, err
	}
	c.Fault(o.Faults...)
	return b, nil
}

func (o Options) kfake() []kfake.Opt {
	opts := []kfake.Opt{kfake.NumBrokers(o.Brokers), kfake.GroupMinSessionTimeout(o.MinSession)}
	if o.Port != 0 {
		ports := make([]int, o.Brokers)
		for i := range ports {
			ports[i] = o.Port + i
		}
		opts = append(opts, kfake.Ports(ports...))
	}
	if o.DataDir != "" {
		opts = append(opts, kfake.DataDir(o.DataDir))
	}
	if o.TLS != nil {
		opts = append(opts, kfake.TLS(o.TLS))
	}
	if len(o.Late) > 0 {
		opts = append(opts, kfake.ListenFn(o.Late.listen))
	}
	if len(o.Users) > 0 {
		opts = append(opts, kfake.EnableSASL())
	}
	for _, u := range o.Users {
		opts = append(opts, kfake.Superuser(u.Mechanism, u.Name, u.Password))
	}
	if len(o.Configs) > 0 {
		opts = append(opts, kfake.BrokerConfigs(o.Configs))
	}
	for topic, partitions := range o.Topics {
		opts = append(opts, kfake.SeedTopics(partitions, topic))
	}
	return opts
}

// createMissing creates the topics that a data directory does not have; kfake seeds only an empty one.
func (b *Broker) createMissing() error {
	if len(b.opts.Topics) == 0 {
		return nil
	}
	if b.opts.TLS != nil || len(b.opts.Users) > 0 {
		return errors.New("broker: Topics cannot be added to an old DataDir with TLS or Users: create them with a client")
	}
	c, err := NewClient(b.Addrs())
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for topic, partitions := range b.opts.Topics {
		if err := c.CreateTopic(ctx, topic, partitions, nil); err != nil && !errors.Is(err, ErrTopicExists) {
			return err
		}
	}
	return nil
}

// Addrs are the brokers' addresses.
func (b *Broker) Addrs() []string { return b.cluster.ListenAddrs() }

// Cluster gives the cluster itself, for faults (ControlKey, Fault), moves of leaders and coordinators, compaction.
func (b *Broker) Cluster() *kfake.Cluster { return b.cluster }

// Close stops the brokers.
func (b *Broker) Close() { b.cluster.Close() }
