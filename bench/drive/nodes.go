package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// nodes are brokers that a scenario has for itself, because one of them has to die.
type nodes struct {
	script, dir string
	addrs       string
	n           int
}

// The script that starts brokers, and how they log, from the folder of the repository, in which drive runs.
const (
	kafkaScript = "internal/realkafka/kafka.sh"
	kafkaLog    = "bench/log4j2.xml"
)

// withNodes is the same bench over so many brokers of its own, and what ends these.
func (b *bench) withNodes(ctx context.Context, n int) (_ *bench, end func() error, err error) {
	ns := &nodes{script: kafkaScript, dir: filepath.Join(b.dir, "nodes"), n: n}
	if err := ns.start(ctx); err != nil {
		return nil, nil, err
	}
	own := *b
	own.nodes = ns
	if own.cluster, err = connect(ns.addrs); err != nil {
		return nil, nil, errors.Join(err, ns.stop())
	}
	own.cluster.copies = -1 // as many as the brokers keep by default, which is three of three
	end = func() error {
		own.cluster.close()
		return ns.stop()
	}
	if err := own.cluster.ready(ctx); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return &own, end, nil
}

// start brings the brokers up. They end with this process at the latest.
func (ns *nodes) start(ctx context.Context) error {
	if err := os.RemoveAll(ns.dir); err != nil {
		return err
	}
	port, err := freePorts(2 * ns.n)
	if err != nil {
		return err
	}
	logging, err := filepath.Abs(kafkaLog)
	if err != nil {
		return err
	}
	log.Printf("starting %d brokers", ns.n)
	cmd := exec.CommandContext(ctx, "bash", ns.script, "start", ns.dir, strconv.Itoa(ns.n), strconv.Itoa(port))
	cmd.Env = append(os.Environ(), "KAFKA_PARENT="+strconv.Itoa(os.Getpid()), "_JAVA_OPTIONS=-XX:TieredStopAtLevel=4 -Dlog4j2.configurationFile="+logging)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return errors.Join(fmt.Errorf("start %d brokers: %w", ns.n, err), ns.stop())
	}
	ns.addrs = strings.TrimSpace(string(out))
	return nil
}

// stop ends the brokers, and removes what they have left but their logs, which go to where those of all programs are.
func (ns *nodes) stop() error {
	cmd := exec.Command("bash", ns.script, "stop", ns.dir)
	cmd.Stderr = os.Stderr
	err := cmd.Run()
	for i, file := range ns.logs() {
		_ = os.Rename(file, filepath.Join(filepath.Dir(ns.dir), "logs", fmt.Sprintf("broker-%d.log", i+1))) // one that never came up has none
	}
	return errors.Join(err, os.RemoveAll(ns.dir))
}

// logs are the brokers', by number.
func (ns *nodes) logs() (files []string) {
	for i := range ns.n {
		files = append(files, filepath.Join(ns.dir, strconv.Itoa(i+1), "log"))
	}
	return files
}

// pid is the process of a broker, counted from 1.
func (ns *nodes) pid(node int) (int, error) {
	text, err := os.ReadFile(filepath.Join(ns.dir, strconv.Itoa(node), "pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// pids are the processes of all brokers.
func (ns *nodes) pids() (all []int) {
	for i := range ns.n {
		if pid, err := ns.pid(i + 1); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// kill ends a broker without a word.
func (ns *nodes) kill(node int) error {
	pid, err := ns.pid(node)
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// freePorts is the first of so many ports in a row that nobody listens on, below the range that Linux gives to outgoing connections.
func freePorts(n int) (int, error) {
	for first := 26_000; first+n < 32_000; first += n {
		if allFree(first, n) {
			return first, nil
		}
	}
	return 0, fmt.Errorf("no %d free ports in a row", n)
}

func allFree(first, n int) bool {
	for port := first; port < first+n; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}
