package shell

import "sync"

// mailbox hands messages from many goroutines to one, whole batches at a time.
type mailbox[T any] struct {
	mu     sync.Mutex
	queue  []T
	shut   bool
	signal chan struct{} // has one element while there is something to take
}

func newMailbox[T any]() *mailbox[T] { return &mailbox[T]{signal: make(chan struct{}, 1)} }

// put adds a message. It reports false if the mailbox is closed: nobody will read it.
func (m *mailbox[T]) put(v T) bool {
	m.mu.Lock()
	if m.shut {
		m.mu.Unlock()
		return false
	}
	m.queue = append(m.queue, v)
	first := len(m.queue) == 1
	m.mu.Unlock()
	if first {
		select {
		case m.signal <- struct{}{}:
		default:
		}
	}
	return true
}

// take returns all messages and gives the mailbox spare to fill.
func (m *mailbox[T]) take(spare []T) []T {
	clear(spare)
	m.mu.Lock()
	got := m.queue
	m.queue = spare[:0]
	m.mu.Unlock()
	return got
}

// retire closes the mailbox if there is nothing in it, and reports whether it is closed.
func (m *mailbox[T]) retire() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shut = m.shut || len(m.queue) == 0
	return m.shut
}

func (m *mailbox[T]) closed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shut
}

// close makes every later put fail.
func (m *mailbox[T]) close() {
	m.mu.Lock()
	m.shut, m.queue = true, nil
	m.mu.Unlock()
}
