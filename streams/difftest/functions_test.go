package difftest_test

import "fmt"

// The functions of the steps, made of a seed. They depend on their arguments only.
type (
	mapping   func(k, v val) val
	predicate func(k, v val) bool
	expansion func(k, v val) []val
)

func mix(k, v val, seed int) uint32 {
	h := k.digest()*31 + v.digest()*7 + uint32(seed)*2654435761
	return h ^ h>>15
}

// newKey makes one of a few keys, so that they meet.
func newKey(to kind, seed int) mapping {
	return func(k, v val) val {
		h := mix(k, v, seed)
		if to.nullable() && h%7 == 0 {
			return null(to)
		}
		switch out := (val{kind: to}); to {
		case kInt:
			out.n = int64(h % 3)
			return out
		default:
			out.s = []string{"", "a", "k"}[h%3]
			return out
		}
	}
}

// newValue makes one of many values.
func newValue(to kind, seed int) mapping {
	return func(k, v val) val {
		h := mix(k, v, seed)
		if to.nullable() && h%6 == 0 {
			return null(to)
		}
		switch out := (val{kind: to}); {
		case to == kInt:
			out.n = int64(h%1000) - 500
			return out
		case h%5 == 0:
			return out
		default:
			out.s = fmt.Sprint(h % 1000)
			return out
		}
	}
}

func keeps(seed int) predicate { return func(k, v val) bool { return mix(k, v, seed)%3 != 0 } }

func newValues(to kind, seed int) expansion {
	return func(k, v val) []val {
		var out []val
		for i := range mix(k, v, seed) % 3 {
			out = append(out, newValue(to, seed+int(i)+1)(k, v))
		}
		return out
	}
}
