package main

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unsafe"

	"github.com/lovoo/goka"
	"github.com/lovoo/goka/codec"
)

// graph defines the workload: what goka calls a group graph.
func graph(workload string, in goka.Stream, group goka.Group) (*goka.GroupGraph, error) {
	switch workload {
	case "map":
		return goka.DefineGroup(group,
			goka.Input(in, new(codec.String), func(ctx goka.Context, value any) { ctx.Emit("out", ctx.Key(), upper(value.(string))) }),
			goka.Output("out", new(codec.String))), nil
	case "count":
		return goka.DefineGroup(group,
			goka.Input(in, new(codec.Bytes), count),
			goka.Persist(int64Codec{}),
			goka.Output("out", int64Codec{})), nil
	case "wordcount":
		return goka.DefineGroup(group,
			goka.Input(in, new(codec.String), func(ctx goka.Context, line any) {
				for word := range strings.SplitSeq(line.(string), " ") {
					ctx.Loopback(word, word) // as in Kafka Streams, where the value is repartitioned too
				}
			}),
			goka.Loop(new(codec.String), count),
			goka.Persist(int64Codec{}),
			goka.Output("out", int64Codec{})), nil
	case "keep":
		return goka.DefineGroup(group,
			goka.Input(in, new(codec.Bytes), func(ctx goka.Context, value any) {
				kept := ctx.Value()
				if kept == nil {
					kept = value
					ctx.SetValue(kept)
				}
				ctx.Emit("out", ctx.Key(), kept)
			}),
			goka.Persist(new(codec.Bytes)),
			goka.Output("out", new(codec.Bytes))), nil
	}
	return nil, fmt.Errorf("no workload %q; there are map, count, wordcount and keep", workload)
}

func count(ctx goka.Context, _ any) {
	n, _ := ctx.Value().(int64)
	n++
	ctx.SetValue(n)
	ctx.Emit("out", ctx.Key(), n)
}

// upper is one pass into one new string: strings.ToUpper would measure itself.
func upper(s string) string {
	if s == "" {
		return ""
	}
	b := make([]byte, len(s))
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		b[i] = c
	}
	return unsafe.String(&b[0], len(b)) // nobody writes to b any more
}

// int64Codec is Java's Long: eight bytes, big endian.
type int64Codec struct{}

func (int64Codec) Encode(v any) ([]byte, error) {
	return binary.BigEndian.AppendUint64(nil, uint64(v.(int64))), nil
}

func (int64Codec) Decode(b []byte) (any, error) {
	if len(b) != 8 {
		return nil, fmt.Errorf("a count of %d bytes, want 8", len(b))
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}
