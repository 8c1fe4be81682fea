package task

func concurrent(done <-chan bool) {
	tell := make(chan int)
	go func() { tell <- 1 }()
	select {
	case <-done:
	}
}
