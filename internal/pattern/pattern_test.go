package pattern

import (
	"slices"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	tests := []struct {
		name             string
		include, exclude []string
		take, leave      []string
	}{
		{
			name: "anchored", include: []string{"orders"},
			take: []string{"orders"}, leave: []string{"orders-eu", "my-orders", "orders\n", ""},
		},
		{
			name: "alternatives are anchored as a whole", include: []string{"a|b"},
			take: []string{"a", "b"}, leave: []string{"ab", "ax", "xb"},
		},
		{
			name: "any of several, and none of those", include: []string{"orders-.*", "returns"}, exclude: []string{".*-test", "orders-old"},
			take: []string{"orders-eu", "orders-", "returns"}, leave: []string{"orders-old", "orders-eu-test", "orders"},
		},
		{
			name: "an exclusion is anchored too", include: []string{".*"}, exclude: []string{"test"},
			take: []string{"test-1", "a-test"}, leave: []string{"test"},
		},
		{
			name: "internal topics never", include: []string{".*"},
			take:  []string{"changelog", "retry-orders", "dlq", "_schemas"},
			leave: []string{"__consumer_offsets", "__transaction_state", "app-s-changelog", "app-s-repartition", "app-in-retry", "app-in-redrive", "app-in-dlq"},
		},
		{
			name: "internal topics not even by their name", include: []string{"__consumer_offsets", "app-in-dlq"},
			leave: []string{"__consumer_offsets", "app-in-dlq"},
		},
		{
			name: "flags of an expression stay its own", include: []string{"(?i)orders", "x"},
			take: []string{"ORDERS", "x"}, leave: []string{"X"},
		},
		{
			name: "own anchors do no harm", include: []string{"^orders-[0-9]+$"},
			take: []string{"orders-1"}, leave: []string{"orders-"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, err := Compile(test.include, test.exclude)
			if err != nil {
				t.Fatal(err)
			}
			for _, topic := range slices.Concat(test.take, test.leave) {
				if got, want := m.Match(topic), slices.Contains(test.take, topic); got != want {
					t.Errorf("Match(%q) = %v, want %v", topic, got, want)
				}
			}
		})
	}
}

func TestCompileNamesWhatIsBad(t *testing.T) {
	tests := []struct {
		include, exclude []string
		want             []string
	}{
		{include: nil, want: []string{"no pattern of topics to include"}},
		{include: []string{"a", "b["}, exclude: []string{"*"}, want: []string{`include pattern "b["`, `exclude pattern "*"`}},
		{include: []string{"a)|(b"}, want: []string{`include pattern "a)|(b"`}},
		{include: []string{""}, want: []string{`include pattern ""`}},
	}
	for _, test := range tests {
		_, err := Compile(test.include, test.exclude)
		if err == nil {
			t.Errorf("Compile(%q, %q) takes it", test.include, test.exclude)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("Compile(%q, %q) says %q, which does not have %q", test.include, test.exclude, err, want)
			}
		}
	}
}
