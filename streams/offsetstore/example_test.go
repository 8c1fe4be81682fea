package offsetstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/offsetstore"
	"github.com/understudy-streams/understudy/task"
)

// brokers is a broker with a topic of words, for the examples.
func brokers(topic string, words ...string) (addrs []string, end func()) {
	b, err := broker.Start(broker.Options{})
	must(err)
	client, err := broker.NewClient(b.Addrs())
	must(err)
	defer client.Close()
	must(client.CreateTopic(context.Background(), topic, 1, nil))
	for _, w := range words {
		must(client.Produce(context.Background(), task.TopicPartition{Topic: topic}, task.OutRecord{Value: []byte(w)}))
	}
	return b.Addrs(), b.Close
}

func must(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func temporary() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "offsets-")
	must(err)
	return dir, func() { must(os.RemoveAll(dir)) }
}

// silent is a logger of Pebble's that says nothing.
type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { log.Panicf(format, args...) }

// Each word counts exactly once, whatever dies when: the counts and the offset are written in one batch.
func ExamplePebble_SaveWith() {
	addrs, end := brokers("words", "to", "be", "or", "not", "to", "be")
	defer end()
	ctx := context.Background()

	db, err := pebble.Open("counts", &pebble.Options{FS: vfs.NewMem(), Logger: silent{}})
	must(err)
	defer db.Close()
	store := offsetstore.NewPebble(db, []byte("offsets/"))
	consumer, err := streams.NewConsumer(streams.ConsumerConfig{Brokers: addrs, Group: "counting", Topics: []string{"words"}, Offsets: store})
	must(err)
	defer func() { must(consumer.Close(ctx)) }()

	for seen := 0; seen < 6; {
		records, err := consumer.Poll(ctx)
		must(err)
		batch := db.NewIndexedBatch()
		for _, r := range records {
			key := append([]byte("count/"), r.Value...)
			n := byte(0)
			if v, closer, err := batch.Get(key); err == nil {
				n = v[0]
				must(closer.Close())
			} else if !errors.Is(err, pebble.ErrNotFound) {
				must(err)
			}
			must(batch.Set(key, []byte{n + 1}, nil))
		}
		if err := store.SaveWith(ctx, batch, "counting", records...); err != nil {
			for _, r := range records { // somebody else was first, or the disk failed: back to what is stored
				_ = consumer.SeekTo(r.TopicPartition(), streams.FromCommitted()) // an error says that it is not ours any more
			}
		} else {
			seen += len(records)
		}
		must(batch.Close())
	}

	counts, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte("count/"), UpperBound: []byte("count0")})
	must(err)
	for ok := counts.First(); ok; ok = counts.Next() {
		fmt.Printf("%s %d\n", counts.Key(), counts.Value()[0])
	}
	must(counts.Close())
	// Output:
	// count/be 2
	// count/not 1
	// count/or 1
	// count/to 2
}

// Offsets in a file, which a consumer saves when it commits.
func ExampleOpenFile() {
	addrs, end := brokers("words", "once", "upon", "a", "time")
	defer end()
	dir, clean := temporary()
	defer clean()
	ctx := context.Background()

	// read is one life of the program.
	read := func(n int) {
		offsets, err := offsetstore.OpenFile(dir + "/words.offsets")
		must(err)
		defer func() { must(offsets.Close()) }()
		consumer, err := streams.NewConsumer(streams.ConsumerConfig{
			Brokers: addrs, Group: "reading", Topics: []string{"words"}, Offsets: offsets, MaxPollRecords: 1,
		})
		must(err)
		defer func() { must(consumer.Close(ctx)) }()
		for range n {
			records, err := consumer.Poll(ctx)
			must(err)
			for _, r := range records {
				fmt.Printf("%s\n", r.Value)
			}
			must(consumer.Commit(ctx))
		}
	}
	read(2)
	read(2)
	// Output:
	// once
	// upon
	// a
	// time
}
