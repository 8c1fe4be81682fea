package kafka

import (
	"context"

	"github.com/IBM/sarama"

	"github.com/understudy-streams/understudy/internal/kcode"
)

// InitProducerID asks any broker for a fresh id for an idempotent producer. A broker that has just started answers
// CoordinatorLoadInProgress for a while; the code is in the error's chain.
func (c *Client) InitProducerID(ctx context.Context) (pid int64, epoch int16, err error) {
	req := &sarama.InitProducerIDRequest{Version: 2, ProducerID: -1, ProducerEpoch: -1}
	var res *sarama.InitProducerIDResponse
	var addr string
	err = c.anyBroker(ctx, "InitProducerID", func(k *conn) (err error) {
		addr = k.addr
		res, err = k.broker.InitProducerID(req)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	if res.Err != sarama.ErrNoError {
		return 0, 0, &ResponseError{Broker: addr, Request: "InitProducerID", Code: kcode.Code(res.Err)}
	}
	return res.ProducerID, res.ProducerEpoch, nil
}
