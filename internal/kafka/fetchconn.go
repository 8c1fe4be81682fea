package kafka

import (
	"context"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// FetchConn is a private connection for Fetch. One goroutine calls Fetch; Close may be called from any.
type FetchConn struct {
	data    *dataConn
	decoder decoder
	topic   []byte // scratch
	aborted []abortedTxn
}

// DialFetch connects to the broker with that id. A broker that limits the life of a SASL session (connections.max.reauth.ms) ends the
// connection then; as after any transport error, dial another.
func (c *Client) DialFetch(ctx context.Context, broker int32) (*FetchConn, error) {
	d, err := c.dialData(ctx, broker, keyFetch, versionFetch, "Fetch")
	if err != nil {
		return nil, err
	}
	return &FetchConn{data: d, decoder: decoder{pool: &c.pool}, topic: make([]byte, 0, 256)}, nil
}

// Close closes the connection at once; a Fetch in progress returns an error with ErrClosed in its chain.
func (f *FetchConn) Close() { f.data.conn.close() }

// Fetch sends one request and waits for its answer, for MaxWait and the request timeout at most without a byte of it. The memory of the
// batches is the caller's, who may give it back with Recycle.
// After an error the connection is dead.
func (f *FetchConn) Fetch(req FetchRequest) (*FetchResponse, error) {
	d := f.data
	d.begin(keyFetch, versionFetch)
	d.buf = appendFetch(d.buf, req)
	now := time.Now()
	err := d.send(now, 0)
	if err == nil {
		err = d.nc.SetReadDeadline(now.Add(req.MaxWait + d.timeout))
	}
	if err != nil {
		return nil, d.fail("Fetch", err)
	}
	d.frame.open(d.corr, maxAnswer)
	res := f.read(&d.frame, req)
	if err := d.frame.close(); err != nil {
		return nil, d.fail("Fetch", err)
	}
	return res, nil
}

func appendFetch(b []byte, req FetchRequest) []byte {
	b = appendInt32(b, -1) // no replica
	b = appendInt32(b, int32(req.MaxWait.Milliseconds()))
	b = appendInt32(b, req.MinBytes)
	b = appendInt32(b, req.MaxBytes)
	if req.ReadCommitted {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = appendInt32(b, 0)  // no session
	b = appendInt32(b, -1) // no session
	topics := len(b)
	b = appendInt32(b, 0)
	n := int32(0)
	for i := range req.Parts {
		if firstOfTopic(req.Parts, i) {
			n++
			b = appendFetchTopic(b, req.Parts[i:])
		}
	}
	putInt32(b[topics:], n)
	b = appendInt32(b, 0)      // nothing forgotten
	return appendString(b, "") // no rack
}

// firstOfTopic keeps the partitions of a topic together without changing the order, which says who is served first.
func firstOfTopic(parts []FetchPart, i int) bool {
	for j := range i {
		if parts[j].Topic == parts[i].Topic {
			return false
		}
	}
	return true
}

// appendFetchTopic appends all partitions of the topic of the first part.
func appendFetchTopic(b []byte, parts []FetchPart) []byte {
	topic := parts[0].Topic
	b = appendString(b, topic)
	count := len(b)
	b = appendInt32(b, 0)
	n := int32(0)
	for _, p := range parts {
		if p.Topic != topic {
			continue
		}
		n++
		b = appendInt32(b, p.Partition)
		b = appendInt32(b, p.LeaderEpoch)
		b = appendInt64(b, p.Offset)
		b = appendInt64(b, -1) // log start, for replicas
		b = appendInt32(b, p.MaxBytes)
	}
	putInt32(b[count:], n)
	return b
}

// read reads the body of the answer. An error is left in the frame.
func (f *FetchConn) read(fr *frame, req FetchRequest) *FetchResponse {
	fr.int32() // throttle time
	res := &FetchResponse{Code: kcode.Code(fr.int16())}
	fr.int32() // session
	res.Parts = make([]FetchedPart, 0, len(req.Parts))
	for range fr.count(6) {
		f.topic = fr.str(f.topic)
		for range fr.count(38) {
			if part, ok := f.readPart(fr, req, res.Parts); ok {
				res.Parts = append(res.Parts, part)
			}
		}
	}
	return res
}

// readPart reads the answer for one partition; one that was not asked for, or that is among those read before, fails the frame: both answers
// begin at the offset that was asked for, so that their records would be delivered twice.
func (f *FetchConn) readPart(fr *frame, req FetchRequest, before []FetchedPart) (FetchedPart, bool) {
	number := fr.int32()
	part := FetchedPart{Code: kcode.Code(fr.int16()), HighWatermark: fr.int64(), LastStable: fr.int64(), LogStart: fr.int64()}
	f.aborted = f.aborted[:0]
	for range fr.count(16) {
		if f.aborted = append(f.aborted, abortedTxn{pid: fr.int64(), first: fr.int64()}); fr.err != nil {
			break // the count was of bytes that do not come
		}
	}
	fr.int32() // preferred replica: we ask leaders
	set := f.decoder.pool.get(fr.bytesLen())
	fr.read(set)
	asked := findPart(req.Parts, f.topic, number)
	if asked == nil || hasPart(before, asked.TopicPartition) {
		fr.malformed("partition %s-%d was not asked for, or is there twice", f.topic, number)
	}
	if fr.err != nil {
		return part, false
	}
	part.TopicPartition = asked.TopicPartition
	if part.Code != kcode.None {
		f.decoder.pool.put(set)
		return part, true
	}
	part.Batch, part.Err = f.decoder.decode(asked.TopicPartition, set, asked.Offset, req.ReadCommitted, f.aborted)
	part.Batch.HighWatermark = part.HighWatermark
	return part, true
}

func findPart(parts []FetchPart, topic []byte, number int32) *FetchPart {
	for i := range parts {
		if p := &parts[i]; p.Partition == number && p.Topic == string(topic) {
			return p
		}
	}
	return nil
}

func hasPart(parts []FetchedPart, tp task.TopicPartition) bool {
	for i := range parts {
		if parts[i].TopicPartition == tp {
			return true
		}
	}
	return false
}

// abortedTxn is a transaction that was aborted: what its producer wrote from the first offset to its marker is not delivered.
type abortedTxn struct{ pid, first int64 }
