package kafka

import (
	"context"
	"encoding/base64"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/understudy-streams/understudy/internal/realkafka"
	"github.com/understudy-streams/understudy/task"
)

// jwt makes a token without a signature, which a broker takes when nothing better is set up.
func jwt() string {
	part := base64.RawURLEncoding.EncodeToString
	now := time.Now().Unix()
	return part([]byte(`{"alg":"none"}`)) + "." + part(fmt.Appendf(nil, `{"sub":"user","iat":%d,"exp":%d}`, now-10, now+600)) + "."
}

func TestSASLOnARealBroker(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real broker")
	}
	const login = "listener.name.plaintext.%s.sasl.jaas.config=org.apache.kafka.common.security.%s required %s;"
	brokers := realkafka.Start(t, 1,
		"listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
		"sasl.mechanism.inter.broker.protocol=PLAIN",
		fmt.Sprintf(login, "plain", "plain.PlainLoginModule", `username="broker" password="b" user_broker="b" user_user="`+canary+`"`),
		fmt.Sprintf(login, "scram-sha-256", "scram.ScramLoginModule", ""),
		fmt.Sprintf(login, "scram-sha-512", "scram.ScramLoginModule", ""),
		fmt.Sprintf(login, "oauthbearer", "oauthbearer.OAuthBearerLoginModule", `unsecuredLoginStringClaim_sub="broker"`),
		"listener.name.plaintext.oauthbearer.connections.max.reauth.ms=2000",
	)
	k := cluster{addrs: brokers.Addrs(), real: true}
	addScramUser(t, k.addrs)

	for _, m := range []Mechanism{Plain, ScramSHA256, ScramSHA512} {
		t.Run(string(m), func(t *testing.T) {
			cfg := Config{Brokers: k.addrs, SASL: SASL{Mechanism: m, User: "user", Password: canary}}
			useAll(t, k, open(t, cfg))
			cfg.SASL.Password = "wrong"
			_, err := open(t, cfg).Metadata(within(t), nil)
			require.ErrorIs(t, err, ErrNoBroker)
			require.ErrorContains(t, err, "uthentication")
		})
	}
	t.Run("OAUTHBEARER, with sessions of two seconds", func(t *testing.T) {
		var asked atomic.Int64
		c := open(t, Config{Brokers: k.addrs, SASL: SASL{Mechanism: OAuthBearer, Token: func(context.Context) (string, error) {
			asked.Add(1)
			return jwt(), nil
		}}})
		useAll(t, k, c)
		tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
		f := fetcher(t, c, tp)
		dials := asked.Load()
		_, addr := k.group(t, c)
		g := dialGroup(t, c, addr)
		ends := time.Now().Add(2500 * time.Millisecond)
		require.Eventually(t, func() bool {
			_, err := g.FetchOffsets(FetchOffsetsRequest{Group: "g", Parts: []task.TopicPartition{tp}})
			require.NoError(t, err, "sarama authenticates again by itself")
			_, err = c.Metadata(within(t), nil)
			require.NoError(t, err)
			return time.Now().After(ends)
		}, 20*time.Second, 50*time.Millisecond)
		require.Greater(t, asked.Load(), dials)
		_, err := f.Fetch(FetchRequest{Parts: []FetchPart{{TopicPartition: tp, LeaderEpoch: -1, MaxBytes: 1000}}})
		var transport *TransportError
		require.ErrorAs(t, err, &transport, "the broker ends the session of a connection that is ours; another is dialed")
		fetchOnce(t, fetcher(t, c, tp), FetchPart{TopicPartition: tp, LeaderEpoch: -1}, false)
	})
}

func addScramUser(t *testing.T, addrs []string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.SASL(plain.Auth{User: "broker", Pass: "b"}.AsMechanism()))
	require.NoError(t, err)
	defer client.Close()
	var users []kadm.UpsertSCRAM
	for _, m := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		users = append(users, kadm.UpsertSCRAM{User: "user", Mechanism: m, Iterations: 4096, Password: canary})
	}
	for _, u := range users { // one user may be changed once per request
		res, err := kadm.NewClient(client).AlterUserSCRAMs(within(t), nil, []kadm.UpsertSCRAM{u})
		require.NoError(t, err)
		require.NoError(t, res.Error())
	}
}
