package kafka

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

// tokenProvider adapts SASL.Token for one connection. While the connection is set up, the dial bounds it; afterwards sarama asks again where
// the broker limits the life of a session, and then the timeout does.
type tokenProvider struct {
	dial    context.Context // sarama's interface takes none
	up      atomic.Bool     // the dial is over
	timeout time.Duration
	token   func(ctx context.Context) (string, error)
}

func (p *tokenProvider) Token() (*sarama.AccessToken, error) {
	ctx := p.dial
	if p.up.Load() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.Background(), p.timeout)
		defer cancel()
	}
	t, err := p.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("SASL.Token: %w", err)
	}
	return &sarama.AccessToken{Token: t}, nil
}
