package kafka

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

var errCut = errors.New("cut")

func cutOnce(kmsg.Request) (kmsg.Response, error, bool) { return nil, errCut, true }

const canary = "c4n4ry-p4ssw0rd"

// certificate makes a self-signed one for localhost.
func certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12},
		&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// useAll goes once through every kind of connection.
func useAll(t *testing.T, k cluster, c *Client) {
	t.Helper()
	tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
	mustSend(t, producer(t, c, tp), tp, strange()...)
	requireSame(t, strange(), fetchTo(t, fetcher(t, c, tp), tp, 0, int64(len(strange())), -1, false))
	group, addr := k.group(t, c)
	require.Equal(t, kcode.None, join(dialGroup(t, c, addr), group, "", []byte("m")).res.Code)
}

func TestTLSAndSASL(t *testing.T) {
	server, client := certificate(t)
	for _, withTLS := range []bool{false, true} {
		for _, m := range []Mechanism{Plain, ScramSHA256, ScramSHA512, ""} {
			t.Run(fmt.Sprintf("%s tls=%t", m, withTLS), func(t *testing.T) {
				o, cfg := broker.Options{}, Config{}
				if m != "" {
					o.Users = []broker.User{{Mechanism: string(m), Name: "user", Password: canary}}
					cfg.SASL = SASL{Mechanism: m, User: "user", Password: canary}
				}
				if withTLS {
					o.TLS, cfg.TLS = server, client
				}
				k := embedded(t, o)
				cfg.Brokers = k.addrs
				useAll(t, k, open(t, cfg))
			})
		}
	}
}

func TestAWrongPasswordIsSaidAndNotShown(t *testing.T) {
	for _, m := range []Mechanism{Plain, ScramSHA256, ScramSHA512} {
		t.Run(string(m), func(t *testing.T) {
			k := embedded(t, broker.Options{Users: []broker.User{{Mechanism: string(m), Name: "user", Password: "right"}}})
			core, logs := observer.New(zap.DebugLevel)
			spoken := listenToSarama(t)
			cfg := Config{Brokers: k.addrs, SASL: SASL{Mechanism: m, User: "user", Password: canary}, Log: zap.New(core)}
			c := open(t, cfg)
			_, err := c.Metadata(within(t), nil)
			require.Error(t, err)
			require.ErrorContains(t, err, k.addrs[0])
			everything := fmt.Sprintf("%v %+v %#v %s", err, err, err, err.Error())
			for _, e := range logs.All() {
				everything += fmt.Sprint(e.Message, e.ContextMap())
			}
			everything += spoken()
			require.NotContains(t, everything, canary)
			require.Contains(t, everything, "SASL", "or the test looks in the wrong place")
			require.NotContains(t, fmt.Sprintf("%v %+v %#v", cfg, cfg, cfg), canary)
			require.NotContains(t, fmt.Sprintf("%v %+v %#v", cfg.SASL, cfg.SASL, &cfg.SASL), canary)
			require.NotContains(t, fmt.Sprintf("%v %+v %#v", c, c, c), canary)
			require.NotContains(t, fmt.Sprintf("%v %+v %#v", &cfg, &cfg, &cfg), canary)
		})
	}
}

// listenToSarama records what sarama would print if the program had switched its loggers on.
func listenToSarama(t *testing.T) (spoken func() string) {
	t.Helper()
	var mu sync.Mutex
	var b strings.Builder
	l := log.New(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return b.Write(p)
	}), "", 0)
	old, oldDebug := sarama.Logger, sarama.DebugLogger
	sarama.Logger, sarama.DebugLogger = l, l
	t.Cleanup(func() { sarama.Logger, sarama.DebugLogger = old, oldDebug })
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return b.String()
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestAnUntrustedCertificateIsRefused(t *testing.T) {
	server, _ := certificate(t)
	k := embedded(t, broker.Options{TLS: server})
	c := open(t, Config{Brokers: k.addrs, TLS: &tls.Config{MinVersion: tls.VersionTLS12}})
	_, err := c.Metadata(within(t), nil)
	var unknown x509.UnknownAuthorityError
	require.True(t, errors.As(err, &unknown), "%v", err)
}

func TestATokenIsAskedForWithinTheDialAndLater(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	p := &tokenProvider{dial: ended, timeout: time.Minute, token: func(ctx context.Context) (string, error) { return canary, ctx.Err() }}
	_, err := p.Token()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "SASL.Token")
	p.up.Store(true)
	token, err := p.Token()
	require.NoError(t, err, "the end of the dial is not the end of the connection")
	require.Equal(t, canary, token.Token)
}

func TestOAuthBearer(t *testing.T) {
	k := embedded(t, broker.Options{Users: []broker.User{{Mechanism: "PLAIN", Name: "u", Password: "p"}}})
	sasl := SASL{Mechanism: OAuthBearer, Token: func(context.Context) (string, error) { return canary, nil }}
	_, err := open(t, Config{Brokers: k.addrs, SASL: sasl}).Metadata(within(t), nil)
	require.Error(t, err, "the embedded broker has no OAUTHBEARER")
	require.NotContains(t, err.Error(), canary)
}

func TestTheHatchChangesSettingsButNotWhatTheRuntimeReliesOn(t *testing.T) {
	dials := 0
	cfg := Config{Brokers: []string{"h:1"}, Sarama: func(c *sarama.Config) {
		c.Net.KeepAlive = 7 * time.Second
		c.Version = sarama.V0_10_0_0
		c.Metadata.AllowAutoTopicCreation = true
		c.Producer.RequiredAcks = sarama.NoResponse
		c.Net.TLS.Enable = true
		c.Net.Proxy.Enable = true
		c.Net.Proxy.Dialer = dialerFunc(func(network, addr string) (net.Conn, error) { dials++; return nil, errCut })
	}}
	s, err := newSettings(cfg.withDefaults())
	require.NoError(t, err)
	require.Equal(t, 7*time.Second, s.conf.Net.KeepAlive)
	require.Equal(t, sarama.V3_6_0_0, s.conf.Version)
	require.False(t, s.conf.Metadata.AllowAutoTopicCreation)
	require.Equal(t, sarama.WaitForAll, s.conf.Producer.RequiredAcks)
	require.NotNil(t, s.tls, "TLS is ours to do")
	require.False(t, s.conf.Net.TLS.Enable)

	_, err = open(t, cfg).Metadata(within(t), nil)
	require.ErrorIs(t, err, errCut)
	require.Equal(t, 1, dials, "the user's dialer is used")

	cfg.Sarama = func(c *sarama.Config) { c.Net.MaxOpenRequests = -1 }
	_, err = Open(cfg)
	require.ErrorContains(t, err, "refused by sarama")
}

type dialerFunc func(network, addr string) (net.Conn, error)

func (f dialerFunc) Dial(network, addr string) (net.Conn, error) { return f(network, addr) }

func TestConfigurationFaultsNameFieldAndRemedy(t *testing.T) {
	good := []string{"localhost:9092"}
	for _, v := range []struct {
		name string
		cfg  Config
		want []string
	}{
		{name: "nothing", cfg: Config{}, want: []string{"Brokers is empty", "host:port"}},
		{name: "no port", cfg: Config{Brokers: []string{"localhost", "a:1"}}, want: []string{`Brokers has "localhost"`, "host:port"}},
		{name: "a port that is none", cfg: Config{Brokers: []string{"a:b", "c:0", "d:70000", ":1", "[::1]:9092"}}, want: []string{`has "a:b"`, `has "c:0"`, `has "d:70000"`, `has ":1"`}},
		{name: "times", cfg: Config{Brokers: good, DialTimeout: -1, RequestTimeout: -1}, want: []string{"DialTimeout is -1ns", "RequestTimeout is -1ns"}},
		{name: "no mechanism", cfg: Config{Brokers: good, SASL: SASL{User: "u"}}, want: []string{"no Mechanism", "SCRAM-SHA-512"}},
		{name: "no user", cfg: Config{Brokers: good, SASL: SASL{Mechanism: Plain}}, want: []string{"SASL.User is empty", "SASL.Password is empty"}},
		{name: "no token", cfg: Config{Brokers: good, SASL: SASL{Mechanism: OAuthBearer}}, want: []string{"SASL.Token is nil"}},
		{name: "unknown", cfg: Config{Brokers: good, SASL: SASL{Mechanism: "DIGEST"}}, want: []string{`"DIGEST" is unknown`, "PLAIN, SCRAM-SHA-256"}},
	} {
		t.Run(v.name, func(t *testing.T) {
			_, err := Open(v.cfg)
			for _, w := range v.want {
				require.ErrorContains(t, err, w)
			}
		})
	}
}
