package badnet

import (
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// Held is a Fault that keeps all bytes back and lets them go when it is healed, as a network does that is congested or split for a while: what
// was sent arrives late, also after the sender has closed the connection and gone. (The toxic "timeout" throws bytes away, and its
// connections end when it is healed.)
const Held = "badnet-held"

func init() { toxics.Register(Held, new(hold)) }

type hold struct{}

// held is what one direction of one connection keeps back.
type held struct {
	chunks []*stream.StreamChunk
	ended  bool // the sender has closed it
}

func (*hold) NewState() any { return new(held) }

// Pipe collects until the toxic is removed.
func (*hold) Pipe(stub *toxics.ToxicStub) {
	h, in := stub.State.(*held), stub.Input
	for {
		select {
		case <-stub.Interrupt:
			h.letGo(stub)
			return
		case c := <-in:
			if c == nil {
				h.ended, in = true, nil
				continue
			}
			h.chunks = append(h.chunks, c)
		}
	}
}

// letGo passes on what has been kept back. A receiver that has gone takes nothing any more.
func (h *held) letGo(stub *toxics.ToxicStub) {
	for _, c := range h.chunks {
		if stub.WriteOutput(c, time.Second) != nil {
			h.ended = true
			break
		}
	}
	h.chunks = nil
	if h.ended {
		stub.Close()
	}
}
