package streams_test

import (
	"context"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/task"
)

// A loop of one's own: poll, work, commit.
func ExampleConsumer() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	brokers, err := broker.Start(broker.Options{Topics: map[string]int32{"orders": 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer brokers.Close()
	client, err := broker.NewClient(brokers.Addrs())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	orders := streams.TopicPartition{Topic: "orders"}
	err = client.Produce(ctx, orders, task.OutRecord{Value: []byte("tea")}, task.OutRecord{Value: []byte("salt")})
	if err != nil {
		fmt.Println(err)
		return
	}

	c, err := streams.NewConsumer(streams.ConsumerConfig{Brokers: brokers.Addrs(), Group: "billing", Topics: []string{"orders"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for read := 0; read < 2; {
		records, err := c.Poll(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, r := range records {
			fmt.Printf("%s at %d: %s\n", r.TopicPartition(), r.Offset, r.Value)
		}
		read += len(records)
		if err := c.Commit(ctx); err != nil {
			fmt.Println(err)
		}
	}
	at, _ := c.Committed(orders)
	fmt.Println("committed", at)
	fmt.Println("closed:", c.Close(ctx))
	// Output:
	// orders-0 at 0: tea
	// orders-0 at 1: salt
	// committed 2
	// closed: <nil>
}
