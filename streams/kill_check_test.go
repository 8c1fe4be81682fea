//go:build failpoints

package streams_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/statestore/pebblestore"
	"github.com/understudy-streams/understudy/task"
)

// rowsOf are the rows of one store of one task.
type rowsOf map[string]statestore.Row

// killStores are all stores that have a changelog.
var killStores = []string{killDirect, killRouted, killInRetry, killRoutedRetry}

// onDisk is what a state directory has: by store and partition, the position up to which the changelog is in it.
type onDisk map[string]map[int32]int64

// fold is what the records of a changelog below a position make.
func foldLog(log []task.Record, below int64) rowsOf {
	rows := rowsOf{}
	for _, r := range log {
		switch {
		case r.Offset >= below:
			return rows
		case r.Value == nil:
			delete(rows, string(r.Key))
		default:
			rows[string(r.Key)] = statestore.Row{Value: r.Value, Timestamp: r.Timestamp}
		}
	}
	return rows
}

// checkDir compares each store of a state directory with the fold of its changelog up to the stored position. It looks at a copy, as opening a
// database changes it. A directory that its process did not get to make is in order. In the first life of an application, in which nothing was
// restored, the stores have nothing that is not committed either.
func (w *killWorld) checkDir(dir string, died *death) (onDisk, error) {
	if _, err := os.Stat(filepath.Join(dir, killApp, "db")); err != nil {
		return nil, nil //nolint:nilerr // there is nothing to be wrong
	}
	copied, err := os.MkdirTemp("", "killed")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(copied) }()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		return nil, err
	}
	d, err := pebblestore.OpenDir(copied, killApp, pebblestore.Options{Memory: 16 << 20})
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	if d.PutAside != "" {
		return nil, errors.New("the database does not open after the kill, and would be put aside")
	}
	tasks, err := d.DB.Tasks()
	if err != nil {
		return nil, err
	}
	found := onDisk{}
	for _, store := range killStores {
		found[store] = map[int32]int64{}
	}
	for _, t := range tasks {
		for _, s := range t.Stores {
			if err := w.checkStore(d.DB, t.ID, s.Name, s.Position, died); err != nil {
				return nil, err
			}
			found[s.Name][t.ID.Partition] = s.Position
		}
	}
	return found, nil
}

func (w *killWorld) checkStore(db *pebblestore.DB, id statestore.TaskID, store string, position int64, died *death) error {
	logs, err := w.client.Consume(w.ctx, killChangelog(store))
	if err != nil {
		return err
	}
	log := logs[id.Partition]
	if n := int64(len(log)); position > n {
		return fmt.Errorf("store %s of task %v is at position %d of a changelog that ends at %d", store, id, position, n)
	}
	stores, err := db.Open(id, []statestore.Spec{{Name: store}})
	if err != nil {
		return err
	}
	defer func() { _ = stores.Close() }()
	got := rowsOf{}
	it := stores.Reader(0).Scan(nil, nil, false)
	for it.Next() {
		got[string(it.Key())] = statestore.Row{Value: bytes.Clone(it.Row().Value), Timestamp: it.Row().Timestamp}
	}
	if err := it.Close(); err != nil {
		return err
	}
	if err := sameRows(foldLog(log, position), got); err != nil {
		return fmt.Errorf("store %s of task %v is not the fold of its changelog up to %d: %w", store, id, position, err)
	}
	if died == nil || store != killDirect {
		return nil
	}
	return notAhead(got, died)
}

// notAhead: rows are written when their input is committed, never before.
func notAhead(rows rowsOf, died *death) error {
	for key, row := range rows {
		newest := idOf(row.Value[len(row.Value)-4:])
		tp := task.TopicPartition{Topic: killIn, Partition: newest.partition()}
		if !died.done(tp, newest.offset()) {
			return fmt.Errorf("row %q has record %v, and only what is below %d is committed, and what %v says", key, newest, died.committed[tp], died.above[tp])
		}
	}
	return nil
}

func sameRows(want, got rowsOf) error {
	for key, w := range want {
		if g, ok := got[key]; !ok || !bytes.Equal(w.Value, g.Value) || w.Timestamp != g.Timestamp {
			return fmt.Errorf("row %q is %x at %d, in the changelog %x at %d", key, tailOf(g.Value), g.Timestamp, tailOf(w.Value), w.Timestamp)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			return fmt.Errorf("row %q is not in the changelog", key)
		}
	}
	return nil
}

// tailOf is what of a long value is shown.
func tailOf(v []byte) []byte { return v[max(0, len(v)-64):] }

// truth is what must have come out of a case.
type truth struct {
	w      *killWorld
	pad    int
	deaths []death
}

// check compares everything at the end of a case, when all that was fed is committed and the processes have ended well.
func (t truth) check(dirs []onDisk) error {
	w := t.w
	for _, store := range killStores {
		logs, err := w.client.Consume(w.ctx, killChangelog(store))
		if err != nil {
			return err
		}
		final := rowsOf{}
		for p, log := range logs {
			end := int64(len(log))
			if end > 0 && !slices.ContainsFunc(dirs, func(d onDisk) bool { return d[store][p] == end }) {
				return fmt.Errorf("no directory has store %s of partition %d up to the end of its changelog, %d, after a clean end: %v", store, p, end, dirs)
			}
			for k, row := range foldLog(log, end) {
				final[k] = row
			}
		}
		key := map[string]func(id) string{killDirect: id.key, killRouted: id.route}[store]
		if key == nil {
			if len(final) > 0 {
				return fmt.Errorf("%d rows are left in store %s", len(final), store)
			}
			continue
		}
		if err := t.checkIDs(store, final, key); err != nil {
			return fmt.Errorf("store %s: %w", store, err)
		}
		if err := t.checkOutput(store, final); err != nil {
			return fmt.Errorf("output of store %s: %w", store, err)
		}
	}
	return t.checkRepartition()
}

// checkOutput: the newest value of each key in the output is the row of the store.
func (t truth) checkOutput(store string, final rowsOf) error {
	logs, err := t.w.client.Consume(t.w.ctx, killOut(store))
	if err != nil {
		return err
	}
	last := rowsOf{}
	for p := range logs {
		for key, row := range foldLog(logs[p], int64(len(logs[p]))) {
			if _, twice := last[key]; twice {
				return fmt.Errorf("key %q is in two partitions", key)
			}
			last[key] = row
		}
	}
	return sameRows(final, last)
}

// checkIDs: every record of the input is in the list of its key, those of one partition and key of the input in their order, and not more often
// than deaths explain. Others may pass a record that has failed.
func (t truth) checkIDs(store string, final rowsOf, keyOf func(id) string) error {
	times := map[id]int{}
	for key, row := range final {
		newest := map[string]int64{}
		for b := row.Value[t.pad:]; len(b) > 0; b = b[4:] {
			x := idOf(b)
			if keyOf(x) != key {
				return fmt.Errorf("record %v is in the list of %q", x, key)
			}
			times[x]++
			before, some := newest[x.key()]
			if times[x] == 1 && some && x.offset() < before {
				return fmt.Errorf("record %v comes after offset %d for the first time", x, before)
			}
			newest[x.key()] = max(before, x.offset())
		}
	}
	for p := range int32(killPartitions) {
		for o := range t.w.fed[p] {
			x := newID(p, o)
			if times[x] == 0 {
				return fmt.Errorf("record %v of key %q is lost", x, keyOf(x))
			}
			if most := t.most(store, x); times[x] > most {
				return fmt.Errorf("record %v of key %q is there %d times, %d can be explained", x, keyOf(x), times[x], most)
			}
		}
	}
	return nil
}

// most is how often a record may have been aggregated: once, and once more for each death at which it was not committed, or put aside. Behind the
// repartition topic this holds of each copy that came there.
func (t truth) most(store string, x id) int {
	if store == killDirect {
		return t.again(killIn, x.partition(), x.offset())
	}
	n := 0
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	for p, log := range t.w.log {
		for offset, y := range log {
			if x == y {
				n += t.again(killRepartition, p, offset)
			}
		}
	}
	return n
}

func (t truth) again(topic string, partition int32, offset int64) int {
	n := 1
	for _, d := range t.deaths {
		if !d.done(task.TopicPartition{Topic: topic, Partition: partition}, offset) ||
			d.parked[retry.Origin{Topic: topic, Partition: partition, Offset: offset}] {
			n++
		}
	}
	return n
}

// checkRepartition: what came to the repartition topic came not more often than deaths explain.
func (t truth) checkRepartition() error {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	times := map[id]int{}
	for _, log := range t.w.log {
		for _, x := range log {
			times[x]++
		}
	}
	for x, n := range times {
		if most := t.again(killIn, x.partition(), x.offset()); n > most {
			return fmt.Errorf("record %v came to the repartition topic %d times, %d can be explained", x, n, most)
		}
	}
	return nil
}
