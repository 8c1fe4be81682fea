//go:build failpoints

package streams_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/understudy-streams/understudy/internal/fail"
)

// aim says how a point is reached.
type aim struct {
	most    int64 // hits that a life has at the least, as a rule: random ones are drawn up to here
	first   bool  // in an application's first life only
	restore bool  // with stores that have something to restore
	fat     bool  // and much of it
	anew    bool  // with a changelog topic that was made anew
	flush   bool  // with a database that flushes often
	pair    bool  // with a second process that joins
	workers bool  // with records that are run by workers
}

// aims has every point of fail.Points.
var aims = map[string]aim{
	"acks.after":       {most: 10},
	"acks.before":      {most: 10},
	"applied.told":     {most: 8},
	"apply.after":      {most: 8},
	"apply.before":     {most: 8},
	"commit.answered":  {most: 5},
	"commit.before":    {most: 5},
	"commit.told":      {most: 5},
	"db.close":         {most: 1},
	"db.closed":        {most: 1},
	"db.flushed":       {most: 1},
	"dir.id":           {most: 1},
	"dir.locked":       {most: 1},
	"dir.opened":       {most: 1},
	"dir.unlocked":     {most: 1},
	"effects.handed":   {most: 8},
	"ends.read":        {most: 2},
	"fetch.answered":   {most: 12},
	"flush.after":      {most: 6, flush: true},
	"flush.before":     {most: 6, flush: true},
	"flush.ended":      {most: 4, flush: true},
	"ingest.after":     {most: 3, restore: true, fat: true},
	"ingest.before":    {most: 4, restore: true},
	"ingest.tables":    {most: 3, restore: true, fat: true},
	"item.after":       {most: 20, workers: true},
	"item.before":      {most: 20, workers: true},
	"item.told":        {most: 20, workers: true},
	"join.answered":    {most: 2},
	"join.before":      {most: 2},
	"leave.answered":   {most: 1},
	"leave.before":     {most: 1},
	"leg.after":        {most: 4},
	"leg.before":       {most: 4},
	"mailbox.put":      {most: 8},
	"names.after":      {most: 2, first: true},
	"names.before":     {most: 2, first: true},
	"offsets.read":     {most: 2},
	"process.after":    {most: 12},
	"process.before":   {most: 12},
	"produce.answered": {most: 8},
	"produce.before":   {most: 8},
	"produce.written":  {most: 8},
	"producer.id":      {most: 1},
	"purge.after":      {most: 3},
	"purge.before":     {most: 3},
	"restore.begin":    {most: 6, restore: true},
	"restore.end":      {most: 6, restore: true},
	"restore.fetched":  {most: 6, restore: true},
	"seal.after":       {most: 6},
	"seal.before":      {most: 6},
	"stores.closed":    {most: 6},
	"stores.opened":    {most: 6},
	"sync.answered":    {most: 1},
	"sync.before":      {most: 1},
	"task.closed":      {most: 6},
	"task.released":    {most: 2, pair: true},
	"task.started":     {most: 6},
	"topics.checked":   {most: 1},
	"topics.made":      {most: 1, first: true},
	"wipe.after":       {most: 2, anew: true},
	"wipe.before":      {most: 2, anew: true},
}

// shot is where a life is killed.
type shot struct {
	point string
	hit   int64
	wipe  bool // the directory is lost with the process
}

func (s shot) String() string {
	dir := "kept"
	if s.wipe {
		dir = "lost"
	}
	return fmt.Sprintf("%s:%d, directory %s", s.point, s.hit, dir)
}

// plan is one case: lives that are killed, and one that ends well. It follows from its seed.
type plan struct {
	seed   uint64
	random bool // the hit of the first shot is not the first
	warm   warm
	lose   bool // the directory is lost after the warm-up
	anew   bool // the changelogs are made anew after it
	pair   bool // a second process joins the first life that is killed
	pad    int
	flush  int
	crew   int // workers of the policy
	shots  []shot
}

// warm is how an application lived before the life that is killed.
type warm uint8

const (
	warmNot    warm = iota // it did not
	warmEnded              // and ended well
	warmKilled             // and was killed somewhere, by nobody's plan
)

func (w warm) String() string {
	return [...]string{"", "after a clean end, ", "after a kill in passing, "}[w]
}

func (p plan) String() string {
	return fmt.Sprintf("case %d: %v%v (directory lost before: %t, changelogs made anew: %t, second process: %t, %d bytes of padding, flush after %d batches, %d workers)",
		p.seed, p.warm, p.shots, p.lose, p.anew, p.pair, p.pad, p.flush, p.crew)
}

// newPlan makes the plan of a seed. Seeds that follow each other go through all points, with first and random hits and with directories that are
// lost and kept.
func newPlan(seed uint64) plan {
	rng := rand.New(rand.NewPCG(seed, 0x6b696c6c))
	point := fail.Points[seed/4%uint64(len(fail.Points))].Name
	a := aims[point]
	p := plan{seed: seed, random: seed%2 == 1, pair: a.pair, anew: a.anew, flush: []int{0, 0, 1, 2, 5}[rng.IntN(5)]}
	first := shot{point: point, hit: 1, wipe: seed/2%2 == 0}
	if p.random {
		first.hit = 1 + rng.Int64N(a.most)
	}
	p.shots = append(p.shots, first)
	switch {
	case a.restore:
		p.warm = warmKilled
		p.lose, p.flush = rng.IntN(2) == 0, 0
	case a.anew:
		p.warm = warmEnded
	case a.first || a.pair:
	case p.random:
		p.warm = warm(rng.IntN(3))
	}
	if !a.first && !a.anew && rng.IntN(8) == 0 {
		p.pair = true
	}
	if p.crew = 1; a.workers || rng.IntN(3) == 0 {
		p.crew = 3
	}
	if a.flush && p.flush == 0 {
		p.flush = 1
	}
	if a.fat {
		p.pad, p.lose = 24<<10, true
	}
	for len(p.shots) < 3 && rng.IntN(3) == 0 {
		p.shots = append(p.shots, another(rng))
	}
	return p
}

// another is a shot at a life that has been killed before. Not every life comes by its point.
func another(rng *rand.Rand) shot {
	point := fail.Points[rng.IntN(len(fail.Points))].Name
	return shot{point: point, hit: 1 + rng.Int64N(aims[point].most), wipe: rng.IntN(2) == 0}
}
