package outside

import (
	"bytes"
	"context"
	"strings"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// Parked is one record that was put aside, as a partition of a retry topic has it.
type Parked struct {
	Offset  int64 // of the last row of its entry
	Payload int64 // the offset of the last row of its payload; -1 where it has none
	// Err says why the entry cannot be read: retry.ErrCorrupt, retry.ErrNewer, or a key that is none.
	Err error
	// Entry has its Origin in any case, the rest only with Details and without Err.
	Entry retry.Entry
	// Row is the entry that cannot be read, with Details.
	Row []byte

	lives bool
}

// Parked reads what a partition of a retry topic comes to: by the keys of their entries, the records that are put aside when all rows are taken
// together. With details it keeps the entries themselves; payloads it never keeps.
func (r *Reader) Parked(ctx context.Context, s Span, details bool) (map[string]*Parked, error) {
	rows := map[string]*Parked{}
	err := r.Scan(ctx, s, func(records []task.Record, _ int64) error {
		for i := range records {
			fold(rows, &records[i], details)
		}
		return nil
	})
	for key, row := range rows {
		if !row.lives {
			delete(rows, key)
		}
	}
	return rows, err
}

// fold takes one row for what it makes of the store.
func fold(rows map[string]*Parked, rec *task.Record, details bool) {
	o, payload, err := retry.ParseKey(rec.Key)
	key := string(rec.Key)
	if payload {
		key = string(retry.AppendEntryKey(nil, o))
	}
	row := rows[key]
	if row == nil {
		if rec.Value == nil {
			return
		}
		row = &Parked{Payload: -1, Entry: retry.Entry{Origin: o}}
		rows[key] = row
	}
	switch {
	case payload && rec.Value == nil:
		row.Payload = -1
	case payload:
		row.Payload = rec.Offset
	case rec.Value == nil:
		row.lives = false
	default:
		row.lives, row.Offset, row.Err = true, rec.Offset, err
		row.read(rec.Value, details)
	}
	if !row.lives && row.Payload < 0 {
		delete(rows, key)
	}
}

// read decodes the row of an entry.
func (p *Parked) read(row []byte, details bool) {
	o := p.Entry.Origin
	p.Row = nil
	if p.Err == nil {
		p.Entry, p.Err = retry.DecodeEntry(o, row)
	}
	switch {
	case !details:
		p.Entry = retry.Entry{Origin: o}
	case p.Err != nil:
		p.Row = bytes.Clone(row)
	default:
		p.Entry.Key = bytes.Clone(p.Entry.Key)
	}
}

// Owner says whose retry topic it is, where the ids of two applications make that a question: "shop-v2-orders-retry" may be that of source
// "orders" of application "shop-v2", or of source "v2-orders" of "shop". It is another application's if that has committed offsets of the
// partitions that the records came from, and none of these is the source that the topic would be named after. The result is the id of that
// application, or app.
func (r *Reader) Owner(ctx context.Context, app, topic string, origins []task.TopicPartition) (string, error) {
	rest := strings.TrimPrefix(topic, app+"-")
	source := strings.TrimSuffix(rest, "-retry")
	for _, tp := range origins {
		if tp.Topic == source || tp.Topic == app+"-"+source || tp.Topic == app+"-"+source+"-redrive" {
			return app, nil
		}
	}
	for at := len(app) + 1; len(origins) > 0; {
		n := strings.IndexByte(topic[at:], '-')
		other := topic[:max(at+n, 0)]
		if n < 0 || len(other)+1 >= len(topic)-len("-retry") {
			break
		}
		at += n + 1
		group := GroupOffsets{Client: r.Client, Group: other}
		found, err := group.Fetch(ctx, origins)
		group.Close()
		if err != nil {
			return "", err
		}
		for _, o := range found {
			if o.Offset >= 0 {
				return other, nil
			}
		}
	}
	return app, nil
}
