// Package assignor decides which member of a group runs which task. It is the inside of the runtime, open to read: internal/group calls it
// when its member leads the group.
//
// Assign is a pure function from what every member said in its JoinGroup (State) to what every member is told in its SyncGroup (Plan). The
// order of members and tasks in the input does not matter, and a group that is balanced and stable is answered with what it has.
//
// A task that somebody runs (a claim) is never given to somebody else. It is marked instead: its owner goes on with it, while the member that
// shall own it learns its state. Once that member is ready and asks for a round, the owner gives the task up at the start of it (a release),
// and the learner gets it there. Where there is nothing to learn, or a copy is caught up, the receiver asks at once. So a planned move pauses
// the task for one join barrier, and a member that missed the mark costs one more round and nothing else.
//
// Plans are kept nowhere: what members hold and how far it is behind says which moves are on. Standbys stay where they are as long as they are
// spread well and evenly.
//
// The wire half of the package encodes what members tell the leader (MemberData in a standard consumer subscription) and what the leader
// tells the members (PlanData in a standard consumer assignment), so that Kafka's own tools and a leader of any version can read who owns what.
package assignor
