package assignor

// Assign plans the next generation.
func Assign(State) Plan { return Plan{} }
