package broker

import "github.com/twmb/franz-go/pkg/kversion"

// onlyOffsetFetch makes a client speak one version of OffsetFetch.
func onlyOffsetFetch(version int16) *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(9, version)
	return v
}
