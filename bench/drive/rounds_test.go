package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const groupLog = `09:32:46,433 INFO  GroupMetadataManager - [GroupCoordinator id=1] Preparing to rebalance group g in state PreparingRebalance with old generation 1 (reason: Adding new member x-1 with group instance id null; client reason: the member has started).
09:32:46,433 INFO  GroupMetadataManager - [GroupCoordinator id=1] Stabilized group g generation 2 with 2 members.
09:32:46,434 INFO  GroupMetadataManager - [GroupCoordinator id=1] Assignment received from leader g-instance-a-77 for group g for generation 2. The group has 2 members, 0 of which are static.
09:32:46,935 INFO  GroupMetadataManager - [GroupCoordinator id=1] Preparing to rebalance group g in state PreparingRebalance with old generation 2 (reason: Updating metadata for member x-1 during Stable; client reason: 3 learners are ready).
09:32:46,936 INFO  GroupMetadataManager - [GroupCoordinator id=1] Stabilized group g generation 3 with 2 members.
09:32:46,936 INFO  GroupMetadataManager - [GroupCoordinator id=1] Stabilized group g generation 3 with 2 members.
09:32:46,937 INFO  GroupMetadataManager - [GroupCoordinator id=1] Assignment received from leader h-instance-b-78 for group h for generation 3. The group has 2 members, 0 of which are static.
09:32:47,935 INFO  GroupMetadataManager - [GroupCoordinator id=1] Stabilized group gg generation 4 with 2 members.
09:32:48,935 INFO  GroupMetadataManager - [GroupCoordinator id=1] Preparing to rebalance group g in state PreparingRebalance with old generation 3 (reason: removing member x-1 on heartbeat expiration).
`

func TestRoundsAndTheirReasons(t *testing.T) {
	if n := rounds(groupLog, "g"); n != 2 {
		t.Errorf("%d rounds, want 2", n)
	}
	want := []string{"the member has started", "3 learners are ready", "removing member x-1 on heartbeat expiration"}
	got := reasons(groupLog, "g")
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if n := batches(append(got, "it was there already", "task 0_3 is learned", "task 0_3 is not getting learned")); n != 2 {
		t.Errorf("%d batches, want 2", n)
	}
	if who := leader(groupLog, "g"); who != "g-instance-a-77" {
		t.Errorf("leader %q", who)
	}
}

func TestBrokerLogIsReadInParts(t *testing.T) {
	dir := t.TempDir()
	log := brokerLog{[]string{filepath.Join(dir, "one"), filepath.Join(dir, "two")}}
	if !slices.Equal(log.size(), []int64{0, 0}) {
		t.Error("no log yet")
	}
	half := len(groupLog) / 2
	for i, text := range []string{groupLog, groupLog[half:]} {
		if err := os.WriteFile(log.files[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	middle := []int64{int64(half), 0}
	before, _, err := log.counted([]int64{0, 0}, middle, "g")
	after, why, err2 := log.counted(middle, log.size(), "g")
	if err != nil || err2 != nil || before != 1 || after != 1 { // the second broker tells of the same generation
		t.Errorf("%d and %d rounds, %v, %v", before, after, err, err2)
	}
	if len(why) != 2 {
		t.Errorf("%q", why)
	}
	if _, _, err := (brokerLog{}).counted(nil, nil, "g"); err == nil {
		t.Error("without a log nothing is counted")
	}
}
