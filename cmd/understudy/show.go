package main

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// shown is what a command prints: as JSON by its fields, or as text.
type shown interface{ text() string }

func show(out io.Writer, asJSON bool, v shown) error {
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(v)
	}
	_, err := io.WriteString(out, v.text())
	return err
}

// plain makes text of strangers fit for one line of a terminal: what is not printable is escaped, as it may move the cursor, and what is
// longer than so many characters is cut.
func plain(s string, most int) string {
	if clean(s) && utf8.RuneCountInString(s) <= most {
		return s
	}
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		if unicode.IsPrint(r) && r != utf8.RuneError {
			b.WriteRune(r)
		} else {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

func clean(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) < 0
}

// asText says whether bytes are text: printable, or white space.
func asText(b []byte) bool {
	return utf8.Valid(b) && strings.IndexFunc(string(b), func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' && r != '\r' }) < 0
}

// keyText is a key in a table: text as it is, other bytes in hex with the mark that -key takes.
func keyText(b []byte, null bool, most int) string {
	switch {
	case null:
		return "null"
	case asText(b):
		return plain(string(b), most)
	case len(b) > most/2:
		return "hex:" + hex.EncodeToString(b[:most/2]) + "…"
	default:
		return "hex:" + hex.EncodeToString(b)
	}
}

// moment is a time in milliseconds for the eye; - is one that is not known.
func moment(ms int64) string {
	if ms < 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
