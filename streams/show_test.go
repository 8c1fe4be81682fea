package streams_test

import (
	"fmt"
	"strings"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// show prints records as key:value@time and their headers, with null for what is absent.
func show[K, V any](records []streams.Record[K, V]) []string {
	out := []string{}
	for _, r := range records {
		out = append(out, showOne(r))
	}
	return out
}

func showOne[K, V any](r streams.Record[K, V]) string {
	key, value := fmt.Sprint(r.Key), fmt.Sprint(r.Value)
	if r.NullKey {
		key = "null"
	}
	if r.NullValue {
		value = "null"
	}
	return fmt.Sprintf("%s:%s@%d%s", key, value, r.Time.UnixMilli(), showHeaders(r.Headers))
}

func showHeaders(headers []streams.Header) string {
	var all []string
	for _, h := range headers {
		if h.Value == nil {
			all = append(all, h.Key+"=null")
			continue
		}
		all = append(all, fmt.Sprintf("%s=%s", h.Key, h.Value))
	}
	if len(all) == 0 {
		return ""
	}
	return " " + strings.Join(all, " ")
}

// showRaw prints records as "key":"value"@time, with null for what is absent.
func showRaw(records []streamstest.RawRecord) []string {
	quote := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return fmt.Sprintf("%q", b)
	}
	out := []string{}
	for _, r := range records {
		out = append(out, fmt.Sprintf("%s:%s@%d", quote(r.Key), quote(r.Value), r.Time.UnixMilli()))
	}
	return out
}
