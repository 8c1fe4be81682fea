package badnet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Net is the network of one client. Its methods may be called from any goroutine; each returns when the change holds for the connections that
// there are. Brokers are named by their address; with no name a
// method is about all of them.
type Net struct {
	mu      sync.Mutex
	proxies map[string]*toxiproxy.Proxy
	toxics  map[string][]string // names, by broker
	made    int
}

// Fault is one way to spoil connections.
type Fault struct {
	Kind   string         // one of toxiproxy's toxics, or Held
	Way    Way            // zero is both
	Of     float32        // how many of the connections are hit, by chance; zero is all of them
	Values map[string]int // what the toxic takes
}

// Way is a direction.
type Way int

// The directions.
const (
	Both Way = iota
	Up       // requests
	Down     // answers
)

var quiet sync.Once

// New puts a proxy in front of each broker.
func New(brokers []string) (*Net, error) {
	quiet.Do(func() { zerolog.SetGlobalLevel(zerolog.Disabled) }) // some toxics log each packet to the standard error
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	n := &Net{proxies: map[string]*toxiproxy.Proxy{}, toxics: map[string][]string{}}
	for _, b := range brokers {
		p, err := listen(server, b)
		if err != nil {
			n.Close()
			return nil, fmt.Errorf("badnet: proxy of %s: %w", b, err)
		}
		n.proxies[b] = p
	}
	return n, nil
}

// listen starts a proxy on a port that stays its own while the proxy refuses connections: below those that the system gives to outgoing
// connections, above those of the brokers of tests.
func listen(server *toxiproxy.ApiServer, broker string) (p *toxiproxy.Proxy, err error) {
	for range 200 {
		p = toxiproxy.NewProxy(server, broker, fmt.Sprintf("127.0.0.1:%d", 26000+rand.IntN(6000)), broker) // not a secret
		if err = p.Start(); err == nil {
			return p, nil
		}
	}
	return nil, err
}

// Routes are the ways through this network.
func (n *Net) Routes() Routes {
	r := Routes{}
	for b, p := range n.proxies {
		r[b] = p.Listen
	}
	return r
}

// Close ends all faults and connections.
func (n *Net) Close() {
	_ = errors.Join(n.Heal(), n.Refuse()) // of a proxy that has not started there is nothing to end
}

// Spoil makes connections faulty, those there are and those to come, until Heal.
func (n *Net) Spoil(f Fault, brokers ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.each(brokers, func(b string, p *toxiproxy.Proxy) error {
		for _, stream := range f.streams() {
			n.made++
			name := fmt.Sprint(f.Kind, n.made)
			if err := add(p, name, stream, f); err != nil {
				return err
			}
			n.toxics[b] = append(n.toxics[b], name)
		}
		return nil
	})
}

func (f Fault) streams() []string {
	switch f.Way {
	case Up:
		return []string{"upstream"}
	case Down:
		return []string{"downstream"}
	default:
		return []string{"upstream", "downstream"}
	}
}

func add(p *toxiproxy.Proxy, name, stream string, f Fault) error {
	if f.Of == 0 {
		f.Of = 1
	}
	b, err := json.Marshal(map[string]any{"name": name, "type": f.Kind, "stream": stream, "toxicity": f.Of, "attributes": f.Values})
	if err == nil {
		_, err = p.Toxics.AddToxicJson(bytes.NewReader(b))
	}
	if err != nil {
		return fmt.Errorf("badnet: %s: %w", f.Kind, err)
	}
	return nil
}

// Heal takes all faults away. Connections from which bytes were taken do not survive it.
func (n *Net) Heal(brokers ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.each(brokers, n.heal)
}

func (n *Net) heal(b string, p *toxiproxy.Proxy) error {
	var errs []error
	for _, name := range n.toxics[b] {
		errs = append(errs, p.Toxics.RemoveToxic(context.Background(), name))
	}
	n.toxics[b] = nil
	return errors.Join(errs...)
}

// Cut ends all connections; new ones are taken at once.
func (n *Net) Cut(brokers ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.each(brokers, func(_ string, p *toxiproxy.Proxy) error {
		p.Stop()
		return p.Start()
	})
}

// Refuse ends all connections and takes no more, until Accept.
func (n *Net) Refuse(brokers ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.each(brokers, func(_ string, p *toxiproxy.Proxy) error {
		p.Stop()
		return nil
	})
}

// Accept takes connections again.
func (n *Net) Accept(brokers ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.each(brokers, func(_ string, p *toxiproxy.Proxy) error { return p.Start() })
}

func (n *Net) each(brokers []string, f func(b string, p *toxiproxy.Proxy) error) error {
	if len(brokers) == 0 {
		for b := range n.proxies {
			brokers = append(brokers, b)
		}
	}
	var errs []error
	for _, b := range brokers {
		if p := n.proxies[b]; p != nil {
			errs = append(errs, f(b, p))
		} else {
			errs = append(errs, fmt.Errorf("badnet: no broker %s", b))
		}
	}
	return errors.Join(errs...)
}
