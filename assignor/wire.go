package assignor

import (
	"errors"
	"fmt"

	"github.com/understudy-streams/understudy/task"
)

// The versions of our own bytes. A writer says its version and the oldest reader that understands what it wrote; a reader skips fields that
// it does not know.
const (
	wireVersion = 1
	minReader   = 1
)

// ErrTooNew says that bytes were written by a version that this one cannot read.
var ErrTooNew = errors.New("assignor: written by a newer version that needs a newer reader")

var errTruncated = errors.New("assignor: bytes end too early")

// MemberData is what a member tells the leader beside the standard subscription.
type MemberData struct {
	Process [16]byte
	// JoinSeq changes with every join, because the broker starts no round for a follower that joins with the same bytes again.
	JoinSeq         uint64
	Draining        bool
	TopologyVersion int32
	Capacity        int
	Tags            map[string]string
	Hashes          []Hash
	Claims          []task.ID
	Released        []task.ID
	Learned         []task.ID
	Unfit           []task.ID
	Replicas        []Replica
	// Inputs tell the subtopologies by what they read, whatever their numbers are in other versions of the program: Sum is over the first source
	// topic.
	Inputs []Hash
}

// PlanData is what the leader tells a member beside the standard assignment.
type PlanData struct {
	// Generation is the one that the plan was made for.
	Generation int32
	// Members is how many members the group has, and Draining how many of them want to leave.
	Members  int
	Draining int
	Active   []task.ID
	Marks    []Mark
	Learners []Incoming
	Standbys []Copy
	// Moves are those that begin or end at the member. A large group goes without.
	Moves []Move
	// Counts are the partition counts that the plan was made with, Hashes the forms that it was made for.
	Counts   []Count
	Hashes   []Hash
	FollowUp FollowUp
	Code     Code
	// Digest is over the whole plan, so that members can tell whether they speak of the same one.
	Digest uint64
}

// Fields of MemberData and PlanData. Numbers are never used again.
const (
	fieldEnd = 0 // stands alone at the end

	fieldProcess  = 1
	fieldJoinSeq  = 2
	fieldFlags    = 3
	fieldTopology = 4
	fieldCapacity = 5
	fieldTags     = 6
	fieldHashes   = 7
	fieldClaims   = 8
	fieldReleased = 9
	fieldLearned  = 10
	fieldUnfit    = 11
	fieldReplicas = 12
	fieldInputs   = 13

	fieldGeneration = 1
	fieldMembers    = 2
	fieldActive     = 3
	fieldNames      = 4 // before all that names a member
	fieldMarks      = 5
	fieldLearners   = 6
	fieldStandbys   = 7
	fieldMoves      = 8
	fieldCounts     = 9
	fieldPlanHashes = 10
	fieldFollowUp   = 11
	fieldCode       = 12
	fieldDigest     = 13
	fieldDraining   = 14
)

const flagDraining = 1

// Append encodes d behind dst. Lists are written sorted.
func (d MemberData) Append(dst []byte) []byte {
	w := writer{buf: append(dst, wireVersion, minReader)}
	w.bytesField(fieldProcess, d.Process[:])
	w.numberField(fieldJoinSeq, d.JoinSeq)
	var flags uint64
	if d.Draining {
		flags |= flagDraining
	}
	w.numberField(fieldFlags, flags)
	w.numberField(fieldTopology, zigzag(int64(d.TopologyVersion)))
	w.numberField(fieldCapacity, uint64(max(0, d.Capacity)))
	w.field(fieldTags, len(d.Tags) > 0, func(w *writer) { w.tags(d.Tags) })
	w.field(fieldHashes, len(d.Hashes) > 0, func(w *writer) { w.hashes(d.Hashes) })
	w.tasksField(fieldClaims, d.Claims)
	w.tasksField(fieldReleased, d.Released)
	w.tasksField(fieldLearned, d.Learned)
	w.tasksField(fieldUnfit, d.Unfit)
	w.field(fieldReplicas, len(d.Replicas) > 0, func(w *writer) { w.replicas(d.Replicas) })
	w.field(fieldInputs, len(d.Inputs) > 0, func(w *writer) { w.hashes(d.Inputs) })
	return append(w.buf, fieldEnd)
}

// DecodeMemberData reads what MemberData.Append writes. It is all or nothing: with an error the result must not be used, for it may lack claims.
func DecodeMemberData(b []byte) (MemberData, error) {
	var d MemberData
	err := eachField(b, func(field uint64, r *reader) {
		switch field {
		case fieldProcess:
			copy(d.Process[:], r.take(16))
		case fieldJoinSeq:
			d.JoinSeq = r.number()
		case fieldFlags:
			d.Draining = r.number()&flagDraining != 0
		case fieldTopology:
			d.TopologyVersion = r.signed32()
		case fieldCapacity:
			d.Capacity = int(r.upTo(maxCapacity))
		case fieldTags:
			d.Tags = r.tags()
		case fieldHashes:
			d.Hashes = append(d.Hashes, r.hashes()...)
		case fieldClaims:
			d.Claims = append(d.Claims, r.tasks()...)
		case fieldReleased:
			d.Released = append(d.Released, r.tasks()...)
		case fieldLearned:
			d.Learned = append(d.Learned, r.tasks()...)
		case fieldUnfit:
			d.Unfit = append(d.Unfit, r.tasks()...)
		case fieldInputs:
			d.Inputs = append(d.Inputs, r.hashes()...)
		case fieldReplicas:
			d.Replicas = append(d.Replicas, r.replicas()...)
		}
	})
	if err != nil {
		return MemberData{}, fmt.Errorf("read a member's data: %w", err)
	}
	return d, nil
}

// Append encodes p behind dst.
func (p PlanData) Append(dst []byte) []byte {
	w := writer{buf: append(dst, wireVersion, minReader)}
	w.numberField(fieldGeneration, zigzag(int64(p.Generation)))
	w.numberField(fieldMembers, uint64(p.Members))
	w.numberField(fieldDraining, uint64(p.Draining))
	w.tasksField(fieldActive, p.Active)
	n := namesOf(p)
	w.field(fieldNames, len(n.list) > 0, func(w *writer) { w.names(n.list) })
	w.field(fieldMarks, len(p.Marks) > 0, func(w *writer) { w.marks(p.Marks, n) })
	w.field(fieldLearners, len(p.Learners) > 0, func(w *writer) { w.incoming(p.Learners, n) })
	w.field(fieldStandbys, len(p.Standbys) > 0, func(w *writer) { w.standbys(p.Standbys, n) })
	w.field(fieldMoves, len(p.Moves) > 0, func(w *writer) { w.moves(p.Moves, n) })
	w.field(fieldCounts, len(p.Counts) > 0, func(w *writer) { w.counts(p.Counts) })
	w.field(fieldPlanHashes, len(p.Hashes) > 0, func(w *writer) { w.hashes(p.Hashes) })
	w.field(fieldFollowUp, p.FollowUp.Kind != None, func(w *writer) {
		w.buf = append(w.buf, byte(p.FollowUp.Kind))
		w.number(uint64(max(0, p.FollowUp.AtMs)))
	})
	w.numberField(fieldCode, uint64(p.Code))
	w.field(fieldDigest, true, func(w *writer) { w.fixed(p.Digest) })
	return append(w.buf, fieldEnd)
}

// DecodePlanData reads what PlanData.Append writes.
func DecodePlanData(b []byte) (PlanData, error) {
	var p PlanData
	var names []string
	err := eachField(b, func(field uint64, r *reader) {
		switch field {
		case fieldGeneration:
			p.Generation = r.signed32()
		case fieldMembers:
			p.Members = int(r.upTo(maxCapacity))
		case fieldDraining:
			p.Draining = int(r.upTo(maxCapacity))
		case fieldActive:
			p.Active = append(p.Active, r.tasks()...)
		case fieldNames:
			names = r.names()
		case fieldMarks:
			p.Marks = append(p.Marks, r.marks(names)...)
		case fieldLearners:
			p.Learners = append(p.Learners, r.incoming(names)...)
		case fieldStandbys:
			p.Standbys = append(p.Standbys, r.standbys(names)...)
		case fieldMoves:
			p.Moves = append(p.Moves, r.moves(names)...)
		case fieldCounts:
			p.Counts = append(p.Counts, r.counts()...)
		case fieldPlanHashes:
			p.Hashes = append(p.Hashes, r.hashes()...)
		case fieldFollowUp:
			p.FollowUp = FollowUp{Kind: FollowUpKind(r.octet()), AtMs: int64(r.upTo(maxFollowUpMs))}
		case fieldCode:
			p.Code = Code(r.upTo(255))
		case fieldDigest:
			p.Digest = r.fixed()
		}
	})
	if err != nil {
		return PlanData{}, fmt.Errorf("read a plan: %w", err)
	}
	return p, nil
}
