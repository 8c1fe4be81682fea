package task

// NoteKind says what a Note is about.
type NoteKind uint8

const (
	// NoteDeadLetter: a record has failed for good and is in the dead-letter topic, or will be with this commit.
	NoteDeadLetter NoteKind = iota
	// NoteWaits: a record is tried again without an end, and the task waits for it. It is said each minute.
	NoteWaits
	// NoteOutage: so many records fail in one way that it is no fault of theirs; one at a time is tried from here on.
	NoteOutage
	// NoteSuspect: this process, or one before it, has died in the middle of this record.
	NoteSuspect
	// NoteSkip: a record has failed for good and is left out.
	NoteSkip
	// NoteMetadata: what the last commit says besides its offset cannot be read; everything from the offset on is processed.
	NoteMetadata
	// NoteNewer: records are put aside in a form that this version does not know. They stay there, and Attempt says how many they are.
	NoteNewer
)

// Note is something about failures that people are told.
type Note struct {
	Kind    NoteKind
	Err     *Error
	Attempt int
	Until   int64 // ms since the epoch, where the task waits
}

// mostNotes is how many notes are kept between two looks: whoever lists all failures looks at the dead letters.
const mostNotes = 16

func (t *Task) note(n Note) {
	if len(t.failure.notes) < mostNotes {
		t.failure.notes = append(t.failure.notes, n)
	}
}

// TakeNotes returns what happened since the last call, at most 16 notes. The slice is valid until the task goes on.
func (t *Task) TakeNotes() []Note {
	n := t.failure.notes
	t.failure.notes = t.failure.notes[:0]
	return n
}
