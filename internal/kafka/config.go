package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"go.uber.org/zap"
)

// Config says how to reach the brokers. It holds a password, so it is never printed: String and GoString redact it.
type Config struct {
	// Brokers are the addresses (host:port) asked first. Required.
	Brokers []string
	// ClientID is sent with every request. Defaults to "understudy". Kafka key: client.id.
	ClientID string
	// TLS switches TLS on. The server name defaults to the broker's host.
	TLS *tls.Config
	// SASL switches authentication on when its Mechanism is set.
	SASL SASL
	// Sarama changes the connection settings for what has no field here (Kerberos, proxies, local addresses). It runs once, in Open; what
	// the runtime relies on is set again after it.
	Sarama func(*sarama.Config)
	// DialTimeout bounds connecting, with TLS handshake and authentication. Defaults to 10 s.
	DialTimeout time.Duration
	// RequestTimeout bounds the wait for an answer, beyond what the request itself asks the broker to wait. Defaults to 30 s. Kafka key:
	// request.timeout.ms.
	RequestTimeout time.Duration
	// Log gets the rare events of connections. Nil: no logging.
	Log *zap.Logger
}

// Mechanism is a SASL mechanism.
type Mechanism string

// The mechanisms.
const (
	Plain       Mechanism = "PLAIN"
	ScramSHA256 Mechanism = "SCRAM-SHA-256"
	ScramSHA512 Mechanism = "SCRAM-SHA-512"
	OAuthBearer Mechanism = "OAUTHBEARER"
)

// SASL says how to authenticate. It is off while Mechanism is empty.
type SASL struct {
	Mechanism Mechanism
	// User and Password are for PLAIN and SCRAM.
	User, Password string
	// Token gives a token for OAUTHBEARER, once per connection. It keeps and renews the token itself.
	Token func(ctx context.Context) (string, error)
}

// String leaves the password out.
func (s SASL) String() string {
	if s.Mechanism == "" {
		return "none"
	}
	return fmt.Sprintf("%s user=%q", string(s.Mechanism), s.User)
}

// GoString leaves the password out.
func (s SASL) GoString() string { return "kafka.SASL{" + s.String() + "}" }

// String leaves the password out.
func (c Config) String() string {
	return fmt.Sprintf("brokers=%v client=%q tls=%t sasl=%v", c.Brokers, c.ClientID, c.TLS != nil, c.SASL)
}

// GoString leaves the password out.
func (c Config) GoString() string { return "kafka.Config{" + c.String() + "}" }

func (c Config) withDefaults() Config {
	if c.ClientID == "" {
		c.ClientID = "understudy"
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = 10 * time.Second
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 30 * time.Second
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// Validate returns every fault of the configuration, each with the field and the remedy.
func (c Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("kafka: "+format, args...)) }
	if len(c.Brokers) == 0 {
		fault("Brokers is empty: give at least one host:port")
	}
	for _, a := range c.Brokers {
		if !hostPort(a) {
			fault("Brokers has %q: write it as host:port, such as localhost:9092", a)
		}
	}
	if c.DialTimeout < 0 {
		fault("DialTimeout is %v: it must be positive, or 0 for the default of 10s", c.DialTimeout)
	}
	if c.RequestTimeout < 0 {
		fault("RequestTimeout is %v: it must be positive, or 0 for the default of 30s", c.RequestTimeout)
	}
	c.SASL.validate(fault)
	return errors.Join(errs...)
}

// hostPort reports whether an address has a host and a port that is a number.
func hostPort(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

func (s SASL) validate(fault func(string, ...any)) {
	switch s.Mechanism {
	case "":
		if s.User != "" || s.Password != "" || s.Token != nil {
			fault("SASL has credentials but no Mechanism: set SASL.Mechanism to PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")
		}
	case Plain, ScramSHA256, ScramSHA512:
		if s.User == "" {
			fault("SASL.User is empty: %s needs a user", s.Mechanism)
		}
		if s.Password == "" {
			fault("SASL.Password is empty: %s needs a password", s.Mechanism)
		}
	case OAuthBearer:
		if s.Token == nil {
			fault("SASL.Token is nil: OAUTHBEARER needs a function that gives a token")
		}
	default:
		all := []string{string(Plain), string(ScramSHA256), string(ScramSHA512), string(OAuthBearer)}
		fault("SASL.Mechanism %q is unknown: use one of %s", s.Mechanism, strings.Join(all, ", "))
	}
}
