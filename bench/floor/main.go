// Command floor is what the benchmark's map and count cost at least: one goroutine, two connections to one broker, and a codec of its own that
// walks what was fetched in place and encodes each output once. There is no runtime around it, and none of what makes one: no recovery, no retry, no
// rebalance, no compression, no headers, one broker. It ends at the first error. The command line is in ../README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("floor: ")
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	if len(args) == 0 || (args[0] != "map" && args[0] != "count") {
		return fmt.Errorf("usage: floor map|count --brokers B --app ID ...")
	}
	fs := flag.NewFlagSet("floor", flag.ExitOnError)
	brokers := fs.String("brokers", "127.0.0.1:9092", "bootstrap brokers, comma-separated; the first one leads everything")
	in := fs.String("in", "in", "input topic")
	app := fs.String("app", "bench-floor", "group, and prefix of the changelog topic")
	fs.String("state", "", "ignored: state is in memory")
	guarantee := fs.String("guarantee", "alos", "alos is all there is")
	threads := fs.Int("threads", 2, "GOMAXPROCS")
	commit := fs.Int("commit-ms", 1000, "commit interval")
	fs.Int64("cache", 0, "ignored: all state is in memory")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	if *guarantee != "alos" {
		return fmt.Errorf("--guarantee %s: there are no transactions here", *guarantee)
	}
	runtime.GOMAXPROCS(*threads)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	seeds := strings.Split(*brokers, ",")
	admin, err := newAdmin(seeds, *app)
	if err != nil {
		return err
	}
	defer admin.close()
	f, err := newFloor(ctx, admin, seeds[0], *in, args[0] == "count")
	if err != nil {
		return err
	}
	return f.loop(ctx, time.Duration(*commit)*time.Millisecond)
}

// floor is the whole program.
type floor struct {
	admin     *admin
	in        *fetcher
	wire      *producer
	out       *topicWriter
	changelog *topicWriter // nil in map
	counts    []table      // by partition
}

func newFloor(ctx context.Context, a *admin, address, in string, counting bool) (*floor, error) {
	f := &floor{admin: a}
	epochs, err := a.epochs(ctx, in)
	if err != nil {
		return nil, err
	}
	if f.in, err = newFetcher(address, in, epochs); err != nil {
		return nil, err
	}
	id, epoch, err := a.producerID(ctx)
	if err != nil {
		return nil, err
	}
	if f.wire, err = newProducer(address); err != nil {
		return nil, err
	}
	outs, err := a.epochs(ctx, "out")
	if err != nil {
		return nil, err
	}
	f.out = newTopicWriter(f.wire, "out", len(outs), id, epoch)
	if !counting {
		return f, nil
	}
	name, err := a.makeChangelog(ctx, len(epochs))
	if err != nil {
		return nil, err
	}
	f.changelog = newTopicWriter(f.wire, name, len(epochs), id, epoch)
	f.counts = make([]table, len(epochs))
	return f, nil
}

// small is the size of an answer at which there is time to send what has gathered.
const small = 64 << 10

func (f *floor) loop(ctx context.Context, every time.Duration) error {
	if err := f.in.ask(); err != nil {
		return err
	}
	for cut := time.Now().Add(every); ; {
		sets, size, err := f.in.answer()
		if err != nil {
			return err
		}
		if err := f.in.ask(); err != nil { // the next answer waits in the socket
			return err
		}
		for _, set := range sets {
			if err := f.process(set); err != nil {
				return err
			}
		}
		if size < small {
			if err := f.out.flush(); err != nil {
				return err
			}
		}
		done := ctx.Err() != nil
		if now := time.Now(); done || now.After(cut) {
			if err := f.commit(); err != nil {
				return err
			}
			cut = now.Add(every)
		}
		if done {
			return nil
		}
	}
}

func (f *floor) process(set recordSet) error {
	if f.counts == nil {
		return set.each(f.mapped)
	}
	t := &f.counts[set.partition]
	return set.each(func(r record) error { return t.add(r.key, r.timestamp) })
}

func (f *floor) mapped(r record) error {
	return f.out.write(f.out.partitionOf(r.key), r.timestamp, r.key, r.value, upper)
}

// upper is in place, in the batch.
func upper(value []byte) {
	for i, c := range value {
		if 'a' <= c && c <= 'z' {
			value[i] = c - ('a' - 'A')
		}
	}
}

// commit puts out what was counted, waits for all acks, and commits the offsets.
func (f *floor) commit() error {
	for p := range f.counts {
		err := f.counts[p].drain(func(key, value []byte, timestamp int64) error {
			if err := f.out.write(f.out.partitionOf(key), timestamp, key, value, nil); err != nil {
				return err
			}
			return f.changelog.write(int32(p), timestamp, key, value, nil)
		})
		if err != nil {
			return err
		}
	}
	if err := f.out.flush(); err != nil {
		return err
	}
	if f.changelog != nil {
		if err := f.changelog.flush(); err != nil {
			return err
		}
	}
	if err := f.wire.drain(); err != nil {
		return err
	}
	return f.admin.commit(f.in.topic, f.in.next)
}
