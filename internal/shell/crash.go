package shell

import (
	"fmt"
	"runtime/debug"
)

// CrashError says that a goroutine of the runtime has panicked, or was ended by runtime.Goexit in a function of the user's. It ends Run, not the program.
type CrashError struct {
	Where string
	Value any // of the panic; nil after runtime.Goexit
	Stack []byte
}

func (e *CrashError) Error() string {
	if e.Value == nil {
		return fmt.Sprintf("%s has ended in the middle: a function that it called has called runtime.Goexit: return instead", e.Where)
	}
	return fmt.Sprintf("%s has panicked: %v\n%s", e.Where, e.Value, e.Stack)
}

// Unwrap returns the value of the panic, if it is an error.
func (e *CrashError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// guard is deferred by the goroutines of the runtime. It must be deferred itself, as only then it recovers.
func (r *Runtime) guard(where string) {
	if v := recover(); v != nil {
		r.breakDown(where, v)
	}
}

// guardMember is the same for the goroutines of the group's member.
func (r *Runtime) guardMember() {
	if v := recover(); v != nil {
		r.breakDown("the group's member", v)
	}
}

// breakDown ends Run at once: what a machine or a shell holds after a panic is not to be trusted.
func (r *Runtime) breakDown(where string, v any) {
	select {
	case r.broken <- &CrashError{Where: where, Value: v, Stack: debug.Stack()}:
	default: // the first one ends everything
	}
}

// guarded makes a panic in f an error.
func guarded(where string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &CrashError{Where: where, Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}
