package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// screen shows how far the count is and its top ten: redrawn in place on a terminal, a plain line now and then elsewhere.
type screen struct {
	out   io.Writer
	live  bool // a terminal
	drawn int  // lines to go up before drawing again
	last  time.Time
}

const (
	barWidth   = 40
	plainEvery = time.Second
)

func newScreen(f *os.File) *screen {
	info, err := f.Stat()
	return &screen{out: f, live: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (s *screen) show(now time.Time, done, total int64, top []wordCount) {
	if s.live {
		s.redraw(done, total, top)
		return
	}
	if now.Sub(s.last) < plainEvery && done < total {
		return
	}
	s.last = now
	fmt.Fprintf(s.out, "%3d %%  %d of %d words  %s\n", percent(done, total), done, total, inLine(top, 3))
}

func (s *screen) redraw(done, total int64, top []wordCount) {
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	filled := 0
	if total > 0 {
		filled = int(done * barWidth / total)
	}
	filled = min(max(filled, 0), barWidth)
	fmt.Fprintf(&b, "\r\x1b[K[%s%s] %3d %%  %d of %d words\n", strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled), percent(done, total), done, total)
	for i := range topTen {
		b.WriteString("\x1b[K")
		if i < len(top) {
			fmt.Fprintf(&b, "%8d  %s", top[i].count, top[i].word)
		}
		b.WriteByte('\n')
	}
	s.drawn = topTen + 1
	_, _ = io.WriteString(s.out, b.String()) // a screen that cannot be written to is not looked at
}

func percent(done, total int64) int64 {
	if total == 0 {
		return 0
	}
	return done * 100 / total
}

func inLine(top []wordCount, n int) string {
	var parts []string
	for _, w := range top[:min(n, len(top))] {
		parts = append(parts, fmt.Sprintf("%s %d", w.word, w.count))
	}
	return strings.Join(parts, ", ")
}
