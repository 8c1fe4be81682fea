package main

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"strings"
	"time"
)

// filter chooses records that failed. The zero filter takes all.
type filter struct {
	class, node, origin, key string
	from, until              string
	hasKey                   bool
	rawKey                   []byte
	first, last              int64 // milliseconds; last is exclusive
}

func (f *filter) flags(set *flag.FlagSet) {
	set.StringVar(&f.class, "class", "", "only records that failed with this class of error")
	set.StringVar(&f.node, "node", "", "only records that failed in this processor")
	set.StringVar(&f.origin, "topic-of-record", "", "only records that came from this topic")
	set.Func("key", "only records with this key: text, or bytes as hex:0a1b", func(s string) error {
		f.key, f.hasKey = s, true
		return nil
	})
	set.StringVar(&f.from, "from", "", "only records that failed first at this time or later: 2006-01-02T15:04:05Z, or 2h for that long ago")
	set.StringVar(&f.until, "to", "", "only records that failed first before this time")
}

// prepare reads the flags' values; it returns what is wrong with them.
func (f *filter) prepare(now time.Time) string {
	f.rawKey = []byte(f.key)
	if digits, ok := strings.CutPrefix(f.key, "hex:"); ok {
		var err error
		if f.rawKey, err = hex.DecodeString(digits); err != nil {
			return fmt.Sprintf("-key %s: %v", f.key, err)
		}
	}
	var ok bool
	if f.first, ok = timeOf(f.from, now); !ok {
		return fmt.Sprintf("-from %q is no time: write 2006-01-02T15:04:05Z, or 2h for two hours ago", f.from)
	}
	if f.last, ok = timeOf(f.until, now); !ok {
		return fmt.Sprintf("-to %q is no time: write 2006-01-02T15:04:05Z, or 2h for two hours ago", f.until)
	}
	if f.from != "" && f.until != "" && f.first >= f.last {
		return "-from is not before -to"
	}
	return ""
}

func timeOf(s string, now time.Time) (ms int64, ok bool) {
	if s == "" {
		return 0, true
	}
	if ago, err := time.ParseDuration(s); err == nil && ago >= 0 {
		return now.Add(-ago).UnixMilli(), true
	}
	at, err := time.Parse(time.RFC3339, s)
	return at.UnixMilli(), err == nil
}

// takes says whether a record that failed, and first did so at that time, is among those that are meant.
func (f *filter) takes(key []byte, topic, class, node string, first int64) bool {
	switch {
	case f.class != "" && class != f.class,
		f.node != "" && node != f.node,
		f.origin != "" && topic != f.origin,
		f.hasKey && (key == nil || !bytes.Equal(key, f.rawKey)),
		f.from != "" && first < f.first,
		f.until != "" && first >= f.last:
		return false
	}
	return true
}
