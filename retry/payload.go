package retry

// Payload is the record that was put aside, as it was read. It is written once. The record's key is in its [Entry].
type Payload struct {
	Value     []byte
	NullValue bool
	Headers   []Header
	Timestamp int64 // milliseconds
}

const (
	payloadVersion   = 1
	payloadNullValue = 1
)

// AppendPayload appends the row of the payload of o: what goes under [AppendPayloadKey] of it.
func AppendPayload(dst []byte, o Origin, p *Payload) []byte {
	w := sealer{b: dst, start: len(dst)}
	w.byte(payloadVersion)
	if p.NullValue {
		w.byte(payloadNullValue)
	} else {
		w.byte(0)
	}
	w.varint(p.Timestamp)
	w.uvarint(uint64(len(p.Headers)))
	for i := range p.Headers {
		h := &p.Headers[i]
		w.string(h.Key)
		if h.Value == nil {
			w.uvarint(0)
			continue
		}
		w.uvarint(uint64(len(h.Value)) + 1)
		w.b = append(w.b, h.Value...)
	}
	w.b = append(w.b, p.Value...)
	return w.seal(kindPayload, o)
}

// DecodePayload reads the row of the payload of o. Value and the values of headers are borrowed from b. The error is [ErrCorrupt] or
// [ErrNewer].
func DecodePayload(o Origin, b []byte) (Payload, error) {
	body, err := unseal(b, kindPayload, o, payloadVersion)
	if err != nil {
		return Payload{}, err
	}
	r := reader{b: body}
	flags := r.byte()
	p := Payload{NullValue: flags&payloadNullValue != 0, Timestamp: r.varint()}
	n := r.uvarint()
	if n > uint64(len(r.b))/2 { // each takes two bytes at least
		return Payload{}, ErrCorrupt
	}
	if n > 0 {
		p.Headers = make([]Header, n)
	}
	for i := range p.Headers {
		p.Headers[i].Key = r.string()
		if size := r.uvarint(); size > 0 {
			p.Headers[i].Value = r.take(size - 1)
		}
	}
	if p.Value = r.b; p.NullValue {
		p.Value = nil
	}
	if r.bad || flags > payloadNullValue || p.NullValue && len(r.b) > 0 {
		return Payload{}, ErrCorrupt
	}
	return p, nil
}
