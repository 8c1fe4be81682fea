// Package assignor decides which member of a group runs which task. It is the inside of the runtime, open to read: internal/group calls it
// when its member leads the group.
//
// Assign is a pure function from what every member said in its JoinGroup (State) to what every member is told in its SyncGroup (Plan). The
// order of members and tasks in the input does not matter, and a group that is balanced and stable is answered with what it has.
//
// A task that somebody runs (a claim) is never given to somebody else. It is marked instead: its owner goes on with it, gives it up at the
// start of the next round (a release), and the receiver that was promised the task gets it there. So a planned move costs two rounds and a
// pause of one join barrier, and a member that missed the mark costs one more round and nothing else.
//
// The wire half of the package encodes what members tell the leader (MemberData in a standard consumer subscription) and what the leader
// tells the members (PlanData in a standard consumer assignment), so that Kafka's own tools and a leader of any version can read who owns what.
package assignor
