package assignor

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/task"
)

var update = flag.Bool("update", false, "rewrite the expected output of the scripts in testdata")

// TestScripts plays the scripts in testdata. A block is commands, a line of four dashes, and what is printed, up to an empty line.
// Commands change the group; "round" plays one generation and prints it, "settle" plays until nobody asks for another.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { playFile(t, file) })
	}
}

func playFile(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	g := newGroup()
	var got strings.Builder
	for i, block := range strings.Split(strings.TrimRight(string(text), "\n"), "\n\n") {
		if i > 0 {
			got.WriteString("\n")
		}
		input, _, _ := strings.Cut(block, "----\n")
		input = strings.TrimSuffix(strings.TrimRight(input, "\n"), "----")
		var out strings.Builder
		for _, line := range strings.Split(strings.TrimRight(input, "\n"), "\n") {
			got.WriteString(line + "\n")
			if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
				out.WriteString(g.command(t, words))
			}
		}
		if out.Len() > 0 {
			got.WriteString("----\n" + out.String())
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got.String()), 0o644))
		return
	}
	require.Equal(t, string(text), got.String())
}

func (g *groupModel) command(t *testing.T, w []string) string {
	arg := func(i int) string {
		require.Greater(t, len(w), i, "%v", w)
		return w[i]
	}
	switch w[0] {
	case "topology": // topology 0=4 1=2/stateless
		g.setTopology(t, w[1:])
	case "join": // join b capacity=2 version=2 hash=0:2
		for _, name := range w[1:] {
			if _, option := g.option(t, w[1], name); !option {
				g.add(name)
			}
		}
	case "set": // set b draining
		for _, o := range w[2:] {
			_, ok := g.option(t, arg(1), o)
			require.True(t, ok, o)
		}
	case "leave", "kill":
		for _, name := range w[1:] {
			delete(g.members, name)
		}
	case "stuck": // stuck a 0_1: a cannot stop that task in time
		g.members[arg(1)].stuck[parse(t, arg(2))] = true
	case "unstuck":
		clear(g.members[arg(1)].stuck)
	case "deaf": // misses the answer of the next round
		g.members[arg(1)].deaf = true
	case "run": // run b 0_1: b runs it whatever the plan says
		g.members[arg(1)].run[parse(t, arg(2))] = true
	case "unfit":
		g.members[arg(1)].Unfit = append(g.members[arg(1)].Unfit, parse(t, arg(2)))
	case "copy": // copy b 0_1 120: b has a copy with that lag; no number is an unknown lag
		r := Replica{Task: parse(t, arg(2)), Kind: OnDisk, Lag: LagUnknown}
		if len(w) > 3 {
			r.Lag = Lag(number(t, w[3]))
		}
		g.members[arg(1)].copies[r.Task] = r
	case "learner": // learner b 0_1 700: b learns it, whatever the plan said
		r := Replica{Task: parse(t, arg(2)), Kind: Learner, Lag: Lag(number(t, arg(3)))}
		g.members[arg(1)].copies[r.Task] = r
	case "gate": // gate always: marked tasks are given up whoever is ready
		g.gate = map[string]func(*groupModel, Mark) bool{"always": always, "board": board}[arg(1)]
	case "standbys":
		g.policy.Standbys = number(t, arg(1))
	case "budget": // budget 4 16: learners per member and in all
		g.policy.LearnersPerMember, g.policy.Learners = number(t, arg(1)), number(t, arg(2))
	case "spread":
		g.policy.SpreadTags = w[1:]
	case "ready": // ready c 0_1: c has learned that task; without a task, all have learned and restored all
		if len(w) == 1 {
			g.catchUp()
		} else {
			g.members[arg(1)].ready(parse(t, arg(2)))
		}
	case "lag": // lag c 0_1 700
		p := g.members[arg(1)]
		r := p.copies[parse(t, arg(2))]
		r.Lag = Lag(number(t, arg(3)))
		p.copies[r.Task] = r
	case "stall":
		p := g.members[arg(1)]
		r := p.copies[parse(t, arg(2))]
		r.Stalled = true
		p.copies[r.Task] = r
	case "slow": // restoring takes until the next "ready"
		g.slow = true
	case "round":
		g.round()
		return g.print()
	case "settle":
		var out strings.Builder
		for i, again := 0, true; again; i++ {
			require.Less(t, i, 10, "does not settle:\n%s", out.String())
			again = g.round()
			out.WriteString(g.print())
			if !again && g.busy() {
				g.catchUp()
				out.WriteString("all are ready\n")
				again = true
			}
		}
		return out.String()
	default:
		t.Fatalf("unknown command %q", w[0])
	}
	return ""
}

func (g *groupModel) setTopology(t *testing.T, words []string) {
	g.subs = nil
	for _, w := range words {
		id, rest, _ := strings.Cut(w, "=")
		n, kind, _ := strings.Cut(rest, "/")
		g.subs = append(g.subs, Subtopology{ID: int32(number(t, id)), Partitions: int32(number(t, n)), Stateful: kind != "stateless"})
	}
}

// option sets a trait of a member; a word that is none is a name.
func (g *groupModel) option(t *testing.T, name, o string) (*player, bool) {
	p := g.members[name]
	key, value, _ := strings.Cut(o, "=")
	switch key {
	case "capacity":
		p.Capacity = number(t, value)
	case "version":
		p.TopologyVersion = int32(number(t, value))
	case "hash":
		sub, sum, _ := strings.Cut(value, ":")
		p.Hashes = slices.DeleteFunc(p.Hashes, func(h Hash) bool { return h.Subtopology == int32(number(t, sub)) })
		p.Hashes = append(p.Hashes, Hash{Subtopology: int32(number(t, sub)), Sum: uint64(number(t, sum))})
	case "rack":
		p.Rack = value
	case "process":
		copy(p.Process[:], value)
	case "tag":
		tag, word, _ := strings.Cut(value, ":")
		if p.Tags == nil {
			p.Tags = map[string]string{}
		}
		p.Tags[tag] = word
	case "draining":
		p.Draining = true
	case "opaque":
		p.Opaque = true
	case "hidden":
		p.Hidden = true
	default:
		return nil, false
	}
	return p, true
}

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

func parse(t *testing.T, s string) task.ID {
	id, err := task.ParseID(s)
	require.NoError(t, err)
	return id
}
