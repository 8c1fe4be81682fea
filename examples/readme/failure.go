package main

import (
	"context"
	"errors"
	"time"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

type call = func(context.Context, streams.Record[string, string]) error

var (
	errMalformed = errors.New("malformed")
	errNoAnswer  = errors.New("no answer")
)

func shop(book, ship, reserve, notify call) *streams.Builder {
	b := streams.NewBuilder()

	// Nothing may be done after a payment that cannot be booked: the application ends with the record's error.
	b.Stream("payments", serde.String, serde.String, streams.OnFailure(retry.Stop())).
		TryForEach("book", book)

	// Each partition in its order: it waits for its record for as long as it takes, all other partitions go on.
	b.Stream("shipments", serde.String, serde.String, streams.OnFailure(retry.Ordered(
		retry.Attempts(retry.Forever), retry.Backoff(time.Second, time.Minute)))).
		TryForEach("ship", ship)

	// Each article in its order: what comes for the article of a failed record waits behind it, all other articles pass.
	b.Stream("stock", serde.String, serde.String, streams.OnFailure(retry.KeyOrdered(
		retry.PermanentIs(errMalformed), retry.Attempts(20), retry.ThenDeadLetter()))).
		TryForEach("reserve", reserve)

	// In no order, 32 at a time; a failed record is tried again beside the others.
	b.Stream("mails", serde.String, serde.String, streams.OnFailure(retry.Parallel(
		retry.Workers(32), retry.Timeout(5*time.Second), retry.MaxAge(time.Hour), retry.ThenSkip()))).
		TryForEach("notify", notify)

	return b
}

func answers(status int) error {
	switch status {
	case 200:
		return nil
	case 400:
		return retry.Permanent(errMalformed) // no try can help: to the end at once
	case 404:
		return retry.Skip("unknown customer") // left out, and counted under this reason
	case 425:
		return retry.Snooze(time.Minute) // later, and it is no attempt
	case 429:
		return retry.After(errNoAnswer, 10*time.Second) // not before that
	default:
		return errNoAnswer // as the policy says
	}
}
