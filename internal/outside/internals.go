package outside

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Internal topics are named by the application, what they are of, and what they are for.
const (
	ChangelogSuffix   = "-changelog"
	RepartitionSuffix = "-repartition"
	RetrySuffix       = "-retry"
	RedriveSuffix     = "-redrive"
	LettersSuffix     = "-dlq"
)

// Internal is a topic that has the name of an internal topic of an application.
type Internal struct {
	Name    string
	Purpose string // one of the suffixes, without the dash
	// Doubt says why it may be another's; empty: nothing says so.
	Doubt string
}

// Internals are the topics whose names an application's internal topics may have, sorted. Names alone cannot say whose they are where the id
// of one application begins with that of another ("shop-v2-orders-changelog": store "orders" of "shop-v2", or "v2-orders" of "shop"), so a
// topic is in doubt if a group exists that may have it as well, and all are if the group of that name is no application's.
func Internals(app string, kind Kind, topics, groups []string) []Internal {
	var out []Internal
	for _, name := range slices.Sorted(slices.Values(topics)) {
		purpose, ok := purposeOf(app, name)
		if !ok {
			continue
		}
		in := Internal{Name: name, Purpose: purpose}
		if other := claimant(app, name, groups); other != "" {
			in.Doubt = fmt.Sprintf("it may be of group %q, which exists", other)
		} else if !kind.Application() {
			in.Doubt = fmt.Sprintf("nothing shows that group %q is an application's", app)
		}
		out = append(out, in)
	}
	return out
}

func purposeOf(app, topic string) (string, bool) {
	rest, ok := strings.CutPrefix(topic, app+"-")
	if !ok {
		return "", false
	}
	for _, suffix := range []string{ChangelogSuffix, RepartitionSuffix, RetrySuffix, RedriveSuffix, LettersSuffix} {
		if of, is := strings.CutSuffix(rest, suffix); is && of != "" {
			return suffix[1:], true
		}
	}
	return "", false
}

// claimant is the group with the longest id that may have the topic too. The group that keeps the progress of redrives has none.
func claimant(app, topic string, groups []string) (longest string) {
	for _, g := range groups {
		if g == app || g == app+RedriveSuffix || len(g) <= len(longest) || len(g) <= len(app) {
			continue
		}
		if _, ok := purposeOf(g, topic); ok {
			longest = g
		}
	}
	return longest
}

// Matches says whether a name matches one of some patterns, as [path.Match] reads them.
func Matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}
