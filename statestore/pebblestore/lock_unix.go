//go:build unix

package pebblestore

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// lockFile takes the lock on a file, without waiting, and writes the process's number into it. held says that another process has it;
// pid is that one's number, 0 if it is not known.
func lockFile(path string) (unlock io.Closer, held bool, pid int, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, 0, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			pid = readPID(f)
			return nil, true, pid, f.Close()
		}
		return nil, false, 0, errors.Join(err, f.Close())
	}
	if err := writePID(f); err != nil {
		return nil, false, 0, errors.Join(err, f.Close())
	}
	return f, false, 0, nil
}

func readPID(r io.Reader) int {
	b, err := io.ReadAll(io.LimitReader(r, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}
