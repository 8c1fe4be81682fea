package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	_ "modernc.org/sqlite" // the driver, without C

	"github.com/understudy-streams/understudy/streams"
)

// schema has no constraint that would catch a transfer that is booked twice: what keeps that out are the offsets.
const schema = `
CREATE TABLE IF NOT EXISTS balances (account TEXT PRIMARY KEY, cents INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS entries (topic TEXT, part INTEGER, at INTEGER, account TEXT, cents INTEGER);
CREATE TABLE IF NOT EXISTS offsets (grp TEXT, topic TEXT, part INTEGER, next INTEGER NOT NULL, generation INTEGER NOT NULL,
	PRIMARY KEY (grp, topic, part)) WITHOUT ROWID;`

// books are the accounts and, beside them, how far the topic has been booked. Each process has its own for the same database.
type books struct {
	db    *sql.DB
	group string
	next  offsets // where this process goes on, for each partition that it has loaded
}

type offsets = map[streams.TopicPartition]int64

// Transfer is a record's value.
type Transfer struct {
	From, To string
	Cents    int64
}

// openBooks opens the database file, or makes it. Several processes may have it open: a transaction that writes waits for another one.
func openBooks(path, group string) (*books, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err != nil {
		return nil, err
	}
	if _, err := db.Exec(schema); err != nil {
		return nil, errors.Join(fmt.Errorf("open the books in %s: %w", path, err), db.Close())
	}
	return &books{db: db, group: group, next: offsets{}}, nil
}

func (b *books) Close() error { return b.db.Close() }

// Book books transfers and moves the offsets past them, in one transaction: after a crash both are there or neither. If somebody else has
// booked records of a partition since this process has looked, nothing is booked, and the error is offsetstore.ErrFenced.
func (b *books) Book(ctx context.Context, records []streams.ConsumerRecord) error {
	next, generations := offsets{}, map[streams.TopicPartition]int32{}
	err := b.in(ctx, func(tx *sql.Tx) error {
		for _, r := range records {
			if err := book(ctx, tx, r); err != nil {
				return fmt.Errorf("book %s-%d@%d: %w", r.Topic, r.Partition, r.Offset, err)
			}
			next[r.TopicPartition()], generations[r.TopicPartition()] = r.Offset+1, r.Generation
		}
		for tp, to := range next {
			if err := b.move(ctx, tx, tp, to, generations[tp]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for tp, to := range next {
		b.next[tp] = to
	}
	return nil
}

// book enters one transfer: what one account loses the other one gains.
func book(ctx context.Context, tx *sql.Tx, r streams.ConsumerRecord) error {
	var t Transfer
	if err := json.Unmarshal(r.Value, &t); err != nil {
		return err
	}
	for account, cents := range map[string]int64{t.From: -t.Cents, t.To: t.Cents} {
		if _, err := tx.ExecContext(ctx, `INSERT INTO entries VALUES (?, ?, ?, ?, ?)`, r.Topic, r.Partition, r.Offset, account, cents); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO balances VALUES (?, ?) ON CONFLICT DO UPDATE SET cents = cents + excluded.cents`, account, cents); err != nil {
			return err
		}
	}
	return nil
}

// in runs a transaction, which is undone if it fails.
func (b *books) in(ctx context.Context, do func(*sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
