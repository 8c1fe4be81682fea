package streams_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/streams"
)

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

// guarded is a bed on an embedded broker with TLS and a user.
func guarded(t *testing.T, mechanism string, login sasl.Mechanism) (b *bed, trust *tls.Config) {
	server, trust := certificate(t)
	started, err := broker.Start(broker.Options{TLS: server, Users: []broker.User{{Mechanism: mechanism, Name: "user", Password: canary}}})
	require.NoError(t, err)
	t.Cleanup(started.Close)
	return newBed(t, started.Addrs(), started, kgo.DialTLSConfig(trust), kgo.SASL(login)), trust
}

// recorded are logs of everything, and a function that gives them as text.
func recorded() (*zap.Logger, func() string) {
	core, logs := observer.New(zap.DebugLevel)
	return zap.New(core), func() (all string) {
		for _, e := range logs.All() {
			all += fmt.Sprintln(e.LoggerName, e.Message, e.ContextMap())
		}
		return all
	}
}

func TestAppTLSAndSASL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mechanism string
		kind      kafka.Mechanism
		login     sasl.Mechanism
	}{
		{"PLAIN", streams.SASLPlain, plain.Auth{User: "user", Pass: canary}.AsMechanism()},
		{"SCRAM-SHA-256", streams.SASLScramSHA256, scram.Auth{User: "user", Pass: canary}.AsSha256Mechanism()},
		{"SCRAM-SHA-512", streams.SASLScramSHA512, scram.Auth{User: "user", Pass: canary}.AsSha512Mechanism()},
	} {
		t.Run(c.mechanism, func(t *testing.T) {
			t.Parallel()
			b, trust := guarded(t, c.mechanism, c.login)
			in, to := b.topic("in", 1), b.topic("out", 1)
			log, said := recorded()
			config := b.config("guarded")
			config.Log, config.TLS = log, trust
			config.SASL = streams.SASL{Mechanism: c.kind, User: "user", Password: canary}
			r := b.run(countWords(in, to), config)
			b.values(in, 0, "a b a")
			r.until("the counts", func() bool { return b.counts(to)["a"] == 2 })
			require.NoError(t, r.end())
			require.NotContains(t, said(), canary)
		})
	}
}

// Whoever has the wrong password, or trusts nobody, is told so in the log and goes on trying; the password is never shown.
func TestAppSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	b, trust := guarded(t, "SCRAM-SHA-512", scram.Auth{User: "user", Pass: canary}.AsSha512Mechanism())
	const secret = "wrong-" + canary
	for name, c := range map[string]struct {
		tls  *tls.Config
		says string
	}{"password": {trust, "SASL"}, "trust": {&tls.Config{MinVersion: tls.VersionTLS12}, "certificate"}} {
		log, said := recorded()
		config := b.config(name)
		config.Log, config.TLS = log, c.tls
		config.SASL = streams.SASL{Mechanism: streams.SASLScramSHA512, User: "user", Password: secret}
		app, err := streams.New(copyTopic("in", "out"), config)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- app.Run(context.Background()) }()
		require.Eventually(t, func() bool { return strings.Contains(said(), c.says) || len(done) > 0 }, 5*time.Second, 10*time.Millisecond, "%s", name)
		require.False(t, app.Ready())
		require.NoError(t, app.Close(t.Context()))
		err = <-done
		everything := said() + fmt.Sprintf("%v %+v %#v", err, err, err) + fmt.Sprintf("%v %+v %#v %v %+v %#v", config, config, config, &config, &config, &config) +
			fmt.Sprintf("%v %+v %#v", app, app, app)
		require.Contains(t, everything, c.says)
		require.NotContains(t, everything, canary)
	}
}

func TestAppConfigErrorsShowNoSecrets(t *testing.T) {
	_, err := streams.New(copyTopic("in", "out"), streams.Config{SASL: streams.SASL{Mechanism: "GUESS", User: "user", Password: canary}, Memory: 1})
	var ce *streams.ConfigError
	require.ErrorAs(t, err, &ce)
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), canary)
	require.ErrorContains(t, err, "GUESS")
}
