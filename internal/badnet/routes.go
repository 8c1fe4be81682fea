package badnet

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
)

// Routes say at which address each broker is reached. They are a dialer (golang.org/x/net/proxy), also in another process: see ParseRoutes.
type Routes map[string]string

// ParseRoutes reads what String has written.
func ParseRoutes(s string) (Routes, error) {
	r := Routes{}
	for pair := range strings.SplitSeq(s, ",") {
		broker, proxy, ok := strings.Cut(pair, ">")
		if !ok {
			return nil, fmt.Errorf("badnet: %q is no route", pair)
		}
		r[broker] = proxy
	}
	return r, nil
}

func (r Routes) String() string {
	var pairs []string
	for broker, proxy := range r {
		pairs = append(pairs, broker+">"+proxy)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// Dial connects to a broker by its route.
func (r Routes) Dial(network, broker string) (net.Conn, error) {
	return r.DialContext(context.Background(), network, broker)
}

// DialContext is Dial. There is no way but the routes: a test would not notice that a connection avoids the faults.
func (r Routes) DialContext(ctx context.Context, network, broker string) (net.Conn, error) {
	addr, ok := r[broker]
	if !ok {
		return nil, fmt.Errorf("badnet: no route to %s", broker)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}
