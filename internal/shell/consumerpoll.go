package shell

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/consume"
	"github.com/understudy-streams/understudy/internal/kcode"
)

// Poll waits for records, and gives them to visit, with the machine locked. It returns without any when ctx has ended. All that user code is to be
// told meanwhile, it is told from here.
func (c *Consumer) Poll(ctx context.Context, visit func(consume.Chunk)) error {
	select {
	case c.polling <- struct{}{}:
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closing {
			return ErrConsumerClosed
		}
		return ErrPolling
	}
	defer func() { <-c.polling }()
	c.mu.Lock()
	if !c.begun && !c.closing {
		c.begun = true
		c.locked(consume.Begin{})
	}
	c.locked(consume.Polled{})
	c.mu.Unlock()
	for {
		changed := c.watch()
		if err := c.runUserCode(ctx); err != nil {
			return err
		}
		n, err := c.take(visit, ctx.Err() != nil)
		if n > 0 || err != nil {
			return err
		}
		select {
		case <-changed:
		default:
			if ctx.Err() != nil {
				return nil
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

// take takes what is there. Last says that nothing else comes in this Poll.
func (c *Consumer) take(visit func(consume.Chunk), last bool) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.crash != nil {
		return 0, c.crash
	}
	if c.closing {
		return 0, ErrConsumerClosed
	}
	if err := c.machine.Fault(false); err != nil {
		return 0, err
	}
	n, actions := c.machine.Take(c.clock.now(), c.scratch, visit)
	c.carryAll(actions)
	if n == 0 && last {
		return 0, c.machine.Fault(true)
	}
	return n, nil
}

// runUserCode tells the listener, asks the user's store and calls back. Only who has the polling token calls it.
func (c *Consumer) runUserCode(ctx context.Context) error {
	for {
		var t consume.Tell
		c.Look(func(m *consume.Machine) { t = m.NextTell() })
		if t == nil {
			break
		}
		if err := c.runTell(ctx, t); err != nil {
			return err
		}
	}
	c.runSaves(ctx)
	c.runCallbacks()
	return nil
}

func (c *Consumer) runTell(ctx context.Context, t consume.Tell) error {
	switch t := t.(type) {
	case consume.TellLoad:
		ev := consume.Loaded{Request: t.Request, Err: errors.New("it has panicked")}
		defer func() { c.step(ev) }()
		ctx, done := c.forStore(ctx)
		defer done()
		ev.Offsets, ev.Err = c.cfg.Load(ctx, t.Parts)
		if ev.Err != nil {
			return fmt.Errorf("load the offsets of %v from the offset store: %w", t.Parts, ev.Err)
		}
	case consume.TellRevoked:
		defer c.step(consume.Told{Revocation: t.Revocation})
		c.cfg.Tell(t)
	default:
		c.cfg.Tell(t)
	}
	return nil
}

// forStore takes the turn at the user's store, and returns the context of the call: bounded, and not ended because a Poll must not wait.
func (c *Consumer) forStore(ctx context.Context) (context.Context, func()) {
	c.storing.Lock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Client.Timeout())
	return ctx, func() { cancel(); c.storing.Unlock() }
}

// runSaves saves what is to be saved, whoever comes first.
func (c *Consumer) runSaves(ctx context.Context) {
	for {
		var s *consume.Save
		c.Look(func(m *consume.Machine) { s = m.TakeSave() })
		if s == nil {
			return
		}
		c.save(ctx, s)
	}
}

func (c *Consumer) save(ctx context.Context, s *consume.Save) {
	ev := consume.Saved{Request: s.Request, Err: errors.New("it has panicked")}
	defer func() { c.step(ev) }()
	ctx, done := c.forStore(ctx)
	defer done()
	ev.Err = c.cfg.Save(ctx, s.Generation, s.Offsets)
}

// runCallbacks calls back for commits that nobody waits for, in their order. It does nothing where somebody is at it already, be it further up on
// this goroutine.
func (c *Consumer) runCallbacks() {
	if !c.calling.TryLock() {
		return
	}
	defer c.calling.Unlock()
	for {
		c.mu.Lock()
		if len(c.due) == 0 {
			c.mu.Unlock()
			return
		}
		f := c.due[0]
		c.due = c.due[1:]
		c.mu.Unlock()
		f()
	}
}

// Commit commits and waits for the outcome. When ctx ends before it is known, the commit goes on.
func (c *Consumer) Commit(ctx context.Context, ev consume.Commit) error {
	ch := make(chan error, 1)
	c.mu.Lock()
	if c.ended || c.down {
		c.mu.Unlock()
		return ErrConsumerClosed
	}
	c.ids++
	ev.ID = c.ids
	c.waiting[ev.ID] = ch
	c.locked(ev)
	c.mu.Unlock()
	for {
		changed := c.watch()
		c.runSaves(ctx)
		c.runCallbacks()
		select {
		case err := <-ch:
			c.runCallbacks()
			return err
		default:
		}
		select {
		case err := <-ch:
			c.runCallbacks()
			return err
		case <-changed:
		case <-ctx.Done():
			c.mu.Lock()
			delete(c.waiting, ev.ID)
			c.mu.Unlock()
			return fmt.Errorf("the outcome of the commit is not known yet, and the commit goes on: %w", context.Cause(ctx))
		}
	}
}

// CommitAsync commits. The callback, which may be nil, is called with the outcome from Poll, Commit or Close.
func (c *Consumer) CommitAsync(ev consume.Commit, done func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if done == nil {
		done = func(error) {}
	}
	if c.ended || c.down {
		c.due = append(c.due, func() { done(ErrConsumerClosed) })
		return
	}
	c.ids++
	ev.ID = c.ids
	c.callbacks[ev.ID] = done
	c.locked(ev)
}

// Close hands everything over, commits what is done, leaves the group and ends all goroutines. When ctx ends before that, the rest is left
// out.
func (c *Consumer) Close(ctx context.Context) error {
	c.mu.Lock()
	first := !c.closing
	c.closing = true
	c.announce()
	c.mu.Unlock()
	if !first {
		return nil
	}
	err := c.leave(ctx)
	c.shutdown()
	c.runCallbacks()
	return err
}

func (c *Consumer) leave(ctx context.Context) error {
	select { // a Poll that is under way returns
	case c.polling <- struct{}{}:
		defer func() { <-c.polling }()
	case <-ctx.Done():
		return fmt.Errorf("close: a Poll has not returned, as user code that it has called has not; the group will notice the end by its session timeout: %w",
			context.Cause(ctx))
	}
	c.step(consume.Close{})
	for {
		changed := c.watch()
		if err := c.runUserCode(ctx); err != nil {
			return err
		}
		c.mu.Lock()
		ended, crash := c.ended, c.crash
		c.mu.Unlock()
		switch {
		case crash != nil:
			return crash
		case ended:
			return errors.Join(c.lastFault(), c.deleteGroup(ctx))
		case ctx.Err() != nil:
			return fmt.Errorf("close: the brokers have not answered in time; the group will notice the end by its session timeout, and what was not "+
				"committed is read again: %w", context.Cause(ctx))
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// lastFault is what no Poll will return any more.
func (c *Consumer) lastFault() (err error) {
	c.Look(func(m *consume.Machine) {
		for f := m.NextFault(); f != nil; f = m.NextFault() {
			err = errors.Join(err, f)
		}
	})
	return err
}

// deletePatience is how long a group that was just left may seem to have members.
const deletePatience = 2 * time.Second

// deleteGroup deletes the group if nobody is in it.
func (c *Consumer) deleteGroup(ctx context.Context) error {
	if !c.cfg.Delete || !c.begun {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, deletePatience)
	defer cancel()
	for {
		err := c.cfg.Client.DeleteGroup(ctx, c.cfg.Machine.Group.Group)
		switch {
		case err == nil, errors.Is(err, kcode.GroupIDNotFound), errors.Is(err, kcode.NonEmptyGroup):
			return nil
		case ctx.Err() != nil, errors.Is(err, kcode.GroupAuthorizationFailed):
			return fmt.Errorf("close: the group is left, and is not deleted: %w", err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// shutdown ends all goroutines.
func (c *Consumer) shutdown() {
	c.mu.Lock()
	c.down, c.ended = true, true
	c.timer.Stop()
	for id, ch := range c.waiting {
		delete(c.waiting, id)
		ch <- ErrConsumerClosed
	}
	for id, f := range c.callbacks {
		delete(c.callbacks, id)
		c.due = append(c.due, func() { f(ErrConsumerClosed) })
	}
	c.announce()
	c.stop()
	c.fetch.close()
	c.mu.Unlock()
	c.offsets.close()
	c.member.Close()
	c.wg.Wait()
	_ = c.cfg.Client.Close()
}
