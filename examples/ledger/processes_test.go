package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/realkafka"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/task"
)

const session = 2 * time.Second

// childEnv makes the test binary a member of its own: brokers, group, database.
const childEnv = "LEDGER_TEST_CHILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		if err := child(strings.Split(spec, "|")); err != nil {
			fmt.Fprintln(os.Stderr, "ledger:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if err := realkafka.StopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// child books until SIGTERM, and says what happens. SIGUSR1 lets it stop itself with records in hand.
func child(spec []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	faint := make(chan os.Signal, 1)
	signal.Notify(faint, syscall.SIGUSR1)
	b, err := openBooks(spec[2], spec[1])
	if err != nil {
		return err
	}
	defer b.Close()
	log := zap.NewNop()
	if os.Getenv("LEDGER_TEST_LOG") != "" {
		log = zap.Must(zap.NewDevelopment()).Named(fmt.Sprint(os.Getpid()))
	}
	c, err := b.consumer(streams.ConsumerConfig{
		Brokers: strings.Split(spec[0], ","), Session: session, Heartbeat: 100 * time.Millisecond, MaxPollRecords: 50, Log: log,
		Listener: streams.ConsumerListener{State: func(c streams.MemberChange) { fmt.Println("member", c.To) }},
	})
	if err != nil {
		return err
	}
	err = b.follow(ctx, fainting{c, faint}, func(n int) { fmt.Println("booked", n) })
	closing, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	return errors.Join(err, c.Close(closing))
}

// fainting stops its process between a Poll and what is done with it: a long pause of the collector, a machine that was suspended.
type fainting struct {
	*streams.Consumer
	now chan os.Signal
}

func (f fainting) Poll(ctx context.Context) ([]streams.ConsumerRecord, error) {
	records, err := f.Consumer.Poll(ctx)
	if len(records) == 0 {
		return records, err
	}
	select {
	case <-f.now:
		fmt.Println("faints")
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(100 * time.Millisecond) // it stops a moment later, and must not with the database's lock
		fmt.Println("wakes")
	default:
	}
	return records, err
}

// member is a process that books.
type member struct {
	t      *testing.T
	cmd    *exec.Cmd
	booked atomic.Int64
	state  atomic.Value // the last line that began with "member"
	faints atomic.Bool
	wakes  atomic.Bool
	ended  chan struct{}
}

// bed is brokers, a topic that is being written, and a database.
type bed struct {
	t     *testing.T
	addrs []string
	group string
	db    string
	books *books
	want  map[string]int64 // balances
	total int
	done  chan struct{}
}

func (b *bed) start() *member {
	b.t.Helper()
	m := &member{t: b.t, cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	m.cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{strings.Join(b.addrs, ","), b.group, b.db}, "|"))
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	m.cmd.Stderr = os.Stderr
	out, err := m.cmd.StdoutPipe()
	require.NoError(b.t, err)
	require.NoError(b.t, m.cmd.Start())
	go m.listen(bufio.NewScanner(out))
	b.t.Cleanup(func() { m.kill() })
	return m
}

func (m *member) listen(s *bufio.Scanner) {
	defer close(m.ended)
	for s.Scan() {
		what, rest, _ := strings.Cut(s.Text(), " ")
		switch what {
		case "booked":
			n, _ := strconv.ParseInt(rest, 10, 64)
			m.booked.Add(n)
		case "member":
			m.state.Store(rest)
		case "faints":
			m.faints.Store(true)
		case "wakes":
			m.wakes.Store(true)
		}
	}
}

func (m *member) kill() {
	_ = m.cmd.Process.Kill() // it may have ended
	<-m.ended
	_ = m.cmd.Wait()
}

// books says whether it is at work.
func (m *member) books() bool {
	return m.booked.Load() > 0 && m.state.Load() == streams.MemberJoined.String()
}

func (m *member) signal(s syscall.Signal) { require.NoError(m.t, m.cmd.Process.Signal(s)) }

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 20*time.Second, 20*time.Millisecond, what)
}

// produce writes transfers to all partitions until stopped.
func (b *bed) produce(client *broker.Client, stop chan struct{}) {
	defer close(b.done)
	rng := rand.New(rand.NewPCG(3, 3))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		for p := range int32(partitions) {
			var rs []task.OutRecord
			for range 1 + rng.IntN(8) {
				tr := Transfer{From: fmt.Sprint("a", rng.IntN(20)), To: fmt.Sprint("b", rng.IntN(20)), Cents: rng.Int64N(1000)}
				b.want[tr.From] -= tr.Cents
				b.want[tr.To] += tr.Cents
				b.total++
				text, err := json.Marshal(tr)
				if err != nil {
					b.t.Error(err)
				}
				rs = append(rs, task.OutRecord{Value: text, Timestamp: time.Now().UnixMilli()})
			}
			if err := client.Produce(context.Background(), task.TopicPartition{Topic: topic, Partition: p}, rs...); err != nil {
				b.t.Error(err)
				return
			}
		}
	}
}

func (b *bed) bookedOf(part int) (n int64) {
	require.NoError(b.t, b.books.db.QueryRow(`SELECT coalesce(max(next), 0) FROM offsets WHERE part = ?`, part).Scan(&n))
	return n
}

// moves waits until every partition goes on.
func (b *bed) moves() {
	b.t.Helper()
	for p := range partitions {
		from := b.bookedOf(p)
		eventually(b.t, fmt.Sprintf("partition %d goes on", p), func() bool { return b.bookedOf(p) > from })
	}
}

func TestEachTransferIsBookedOnceWhateverDies(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		br, err := broker.Start(broker.Options{})
		require.NoError(t, err)
		t.Cleanup(br.Close)
		deaths(t, br.Addrs(), true)
	})
	t.Run("real", func(t *testing.T) {
		addrs := realkafka.Shared(t).Addrs()
		t.Parallel()
		deaths(t, addrs, false)
	})
}

// deaths kills two members again and again, and lets one of them faint for longer than its session. Settled: not while a member joins. The
// embedded broker never misses one that dies while it waits for the answer to its join, and leaves its partitions to it.
func deaths(t *testing.T, addrs []string, settled bool) {
	client, err := broker.NewClient(addrs)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	b := &bed{
		t: t, addrs: addrs, group: fmt.Sprint("ledger-", os.Getpid()), db: filepath.Join(t.TempDir(), "ledger.db"),
		want: map[string]int64{}, done: make(chan struct{}),
	}
	require.NoError(t, client.CreateTopic(t.Context(), topic, partitions, nil))
	b.books = open(t, b.db)
	quit := make(chan struct{})
	stop := sync.OnceFunc(func() { close(quit); <-b.done })
	go b.produce(client, quit)
	t.Cleanup(stop)

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	members := [2]*member{b.start(), b.start()}
	b.moves()
	for range 3 {
		if settled {
			eventually(t, "both book", func() bool { return members[0].books() && members[1].books() })
		}
		time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
		i := rng.IntN(2)
		members[i].kill()
		members[i] = b.start()
		if rng.IntN(2) == 0 {
			b.moves()
		}
	}
	eventually(t, "both book", func() bool { return members[0].books() && members[1].books() })
	zombie := members[rng.IntN(2)]
	zombie.signal(syscall.SIGUSR1)
	eventually(t, "it faints", zombie.faints.Load)
	b.moves() // the other one has taken all of them over
	zombie.signal(syscall.SIGCONT)
	eventually(t, "it wakes", zombie.wakes.Load)
	was := zombie.booked.Load()
	eventually(t, "it works again", func() bool { return zombie.booked.Load() > was })

	stop()
	eventually(t, "all is booked", func() bool {
		var n int
		require.NoError(t, b.books.db.QueryRow(`SELECT coalesce(sum(next), 0) FROM offsets`).Scan(&n))
		return n >= b.total
	})
	for _, m := range members {
		m.signal(syscall.SIGTERM)
	}
	for _, m := range members {
		<-m.ended
		require.NoError(t, m.cmd.Wait())
	}
	b.check()
}

// check holds the books against what was sent.
func (b *bed) check() {
	b.t.Helper()
	booked, err := b.books.Audit(b.t.Context())
	require.NoError(b.t, err)
	require.Equal(b.t, b.total, booked)
	require.Positive(b.t, booked)
	have := map[string]int64{}
	rows, err := b.books.db.Query(`SELECT account, cents FROM balances`)
	require.NoError(b.t, err)
	defer rows.Close()
	for rows.Next() {
		var account string
		var cents int64
		require.NoError(b.t, rows.Scan(&account, &cents))
		have[account] = cents
	}
	require.NoError(b.t, rows.Err())
	require.Equal(b.t, b.want, have)
	b.t.Logf("%d transfers, each once", booked)
}
