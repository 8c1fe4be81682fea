package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Audit holds the books against themselves: each transfer has two entries that make up for each other, and balances are what entries say. It
// returns how many transfers are booked.
func (b *books) Audit(ctx context.Context) (booked int, err error) {
	checks := []struct{ what, query string }{
		{"transfers that are not two entries which make up for each other",
			`SELECT count(*) FROM (SELECT 1 FROM entries GROUP BY topic, part, at HAVING count(*) != 2 OR sum(cents) != 0)`},
		{"accounts whose balance is not the sum of their entries",
			`SELECT count(*) FROM balances b WHERE cents != (SELECT coalesce(sum(cents), 0) FROM entries e WHERE e.account = b.account)`},
		{"partitions whose offset is not the number of their transfers",
			`SELECT count(*) FROM offsets o WHERE next != (SELECT count(*) / 2 FROM entries e WHERE e.topic = o.topic AND e.part = o.part)`},
	}
	for _, c := range checks {
		var n int
		if err := b.db.QueryRowContext(ctx, c.query).Scan(&n); err != nil {
			return 0, err
		}
		if n > 0 {
			err = errors.Join(err, fmt.Errorf("the books are wrong: %d %s", n, c.what))
		}
	}
	if err != nil {
		return 0, err
	}
	return booked, b.db.QueryRowContext(ctx, `SELECT count(*) / 2 FROM entries`).Scan(&booked)
}

// print shows the balances.
func (b *books) print(ctx context.Context, out io.Writer) error {
	rows, err := b.db.QueryContext(ctx, `SELECT account, cents FROM balances ORDER BY account`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var account string
		var cents int64
		if err := rows.Scan(&account, &cents); err != nil {
			return err
		}
		fmt.Fprintf(out, "%-10s %10.2f\n", account, float64(cents)/100)
	}
	return rows.Err()
}
