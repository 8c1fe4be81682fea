package work

import (
	"testing"
	"time"
)

func TestValue(t *testing.T) {
	for _, v := range []Value{{Good, 0, 0}, {Fails, 1_234_567_890, 1_800_000_000_123_456_789}, {Sleep, 7, 4999}} {
		text := v.Append(nil)
		if got, err := Parse(text); err != nil || got != v || len(text) != size {
			t.Errorf("%q is %v, %v, want %v", text, got, err, v)
		}
	}
	for _, text := range []string{"", "g", string(Value{Good, 1, -5}.Append(nil)[:99]), string(Value{'x', -1, 5}.Append(nil))} {
		if v, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q is %v", text, v)
		}
	}
}

func TestSleeper(t *testing.T) {
	s := NewSleeper(3)
	call := func(key string, seq int) {
		if err := s.Call(key, Value{Sleep, seq, 100}.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	call("a", 1)
	call("b", 0) // another key
	call("b", 0)
	if s.repeated.Load() != 1 || s.disordered.Load() != 1 {
		t.Errorf("%d repeated, %d disordered, want 1 and 1", s.repeated.Load(), s.disordered.Load())
	}
	select {
	case <-s.Done:
		t.Error("done with two of three")
	default:
	}
	call("a", 2)
	<-s.Done
	if took := s.last.Load() - s.first.Load(); took < int64(400*time.Microsecond) {
		t.Errorf("four sleeps of 100 µs took %s", time.Duration(took))
	}
	if d := s.ideal(1); d < 300*time.Microsecond {
		t.Errorf("three of them take %s at least", d)
	}
	if err := s.Call("a", Value{Good, 0, 0}.Append(nil)); err == nil {
		t.Error("a record that does not sleep is taken")
	}
}

func TestDelays(t *testing.T) {
	d := NewDelays(1)
	v := Value{Later, 0, 20}
	if wait, err := d.Call(v); err != nil || wait != 20*time.Millisecond {
		t.Errorf("%s, %v, want 20 ms", wait, err)
	}
	if wait, err := d.Call(v); err != nil || wait != 0 {
		t.Errorf("%s, %v, want 0: it has come again", wait, err)
	}
	if late := d.late[0].Load(); late > -int64(10*time.Millisecond) {
		t.Errorf("%d ns late, want some 20 ms early", late)
	}
	if _, err := d.Call(Value{Later, 1, 20}); err == nil {
		t.Error("a record too many is taken")
	}
}
