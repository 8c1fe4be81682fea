package kafka

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/IBM/sarama"
	"go.uber.org/zap"
	"golang.org/x/net/proxy"
)

// maxDecompressed bounds what one batch may decompress to, so that a small batch cannot take the process down.
const maxDecompressed = 64 << 20

// settings is what Open makes of a Config: the sarama configuration that each connection copies, and the parts of it that connections do
// themselves because they keep the net.Conn.
type settings struct {
	conf  *sarama.Config
	tls   *tls.Config
	inner proxy.Dialer // the user's own dialer, or nil
	token func(ctx context.Context) (string, error)
	log   *zap.Logger
}

// newSettings builds the sarama configuration: ours, then the user's changes, then again what the runtime relies on.
func newSettings(c Config) (*settings, error) {
	conf := sarama.NewConfig()
	conf.ClientID = c.ClientID
	conf.Net.DialTimeout = c.DialTimeout
	conf.Net.ReadTimeout = c.RequestTimeout
	conf.Net.WriteTimeout = c.RequestTimeout
	if c.TLS != nil {
		conf.Net.TLS.Enable = true
		conf.Net.TLS.Config = c.TLS
	}
	c.SASL.apply(conf)
	if c.Sarama != nil {
		c.Sarama(conf)
	}
	reassert(conf)
	s := &settings{conf: conf, log: c.Log.Named("kafka")}
	if c.SASL.Mechanism == OAuthBearer {
		s.token = c.SASL.Token
	}
	if conf.Net.TLS.Enable {
		s.tls = conf.Net.TLS.Config
		if s.tls == nil {
			s.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	if conf.Net.Proxy.Enable {
		s.inner = conf.Net.Proxy.Dialer
	}
	// The handshake is done by our dialer, which keeps the connection.
	conf.Net.TLS.Enable, conf.Net.TLS.Config = false, nil
	if err := conf.Validate(); err != nil {
		return nil, fmt.Errorf("kafka: configuration refused by sarama, check Sarama and SASL: %w", err)
	}
	return s, nil
}

// reassert sets what no user setting may change. Most of it guards sarama features that are not used here, so that nobody who finds
// a way to use one meets its default.
func reassert(conf *sarama.Config) {
	if !conf.Version.IsAtLeast(sarama.V3_6_0_0) {
		conf.Version = sarama.V3_6_0_0 // an upper bound: each connection negotiates downwards
	}
	conf.ApiVersionsRequest = true
	conf.MetricRegistry = noMetrics{}
	conf.Metadata.AllowAutoTopicCreation = false
	conf.Consumer.Group.ResetInvalidOffsets = false
	conf.Consumer.Offsets.Initial = sarama.OffsetOldest
	conf.Consumer.Offsets.AutoCommit.Enable = false
	conf.Consumer.Return.Errors = true
	conf.Producer.RequiredAcks = sarama.WaitForAll
	conf.Producer.Retry.Max = 0
	conf.Net.SASL.Handshake = true
	conf.Net.SASL.Version = sarama.SASLHandshakeV1
}

func (s SASL) apply(conf *sarama.Config) {
	if s.Mechanism == "" {
		return
	}
	conf.Net.SASL.Enable = true
	conf.Net.SASL.Mechanism = sarama.SASLMechanism(s.Mechanism)
	conf.Net.SASL.User = s.User
	conf.Net.SASL.Password = s.Password
	switch s.Mechanism {
	case ScramSHA256, ScramSHA512:
		mechanism := s.Mechanism
		conf.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{mechanism: mechanism} }
	case OAuthBearer:
		conf.Net.SASL.TokenProvider = &tokenProvider{dial: context.Background(), token: s.Token} // each connection gets its own
	}
}
