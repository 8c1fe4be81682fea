package retry

// field is one of the headers of a dead letter.
type field int

const (
	fieldException field = iota
	fieldMessage
	fieldStack
	fieldTopic
	fieldPartition
	fieldOffset
	fieldAttempts
	fieldFirst
	fieldClass
	fieldNode
	fieldTask
	fieldRedriven
	fieldRoot
	fieldRow
	fields
)

// fieldOf returns which header of a dead letter has the name, or none.
func fieldOf(name string) field {
	switch name {
	case HeaderException:
		return fieldException
	case HeaderMessage:
		return fieldMessage
	case HeaderStack:
		return fieldStack
	case HeaderTopic:
		return fieldTopic
	case HeaderPartition:
		return fieldPartition
	case HeaderOffset:
		return fieldOffset
	case HeaderAttempts:
		return fieldAttempts
	case HeaderFirst:
		return fieldFirst
	case HeaderClass:
		return fieldClass
	case HeaderNode:
		return fieldNode
	case HeaderTask:
		return fieldTask
	case HeaderRedriven:
		return fieldRedriven
	case HeaderRoot:
		return fieldRoot
	case HeaderRow:
		return fieldRow
	}
	return none
}

// find returns where the last header of each name is, or none.
func find(headers []Header) (at [fields]int) {
	for f := range at {
		at[f] = none
	}
	for i := range headers {
		if f := fieldOf(headers[i].Key); f != none {
			at[f] = i
		}
	}
	return at
}

// without returns the headers that are not those at the places given.
func without(headers []Header, at *[fields]int) []Header {
	var left []Header
	for i := range headers {
		if f := fieldOf(headers[i].Key); f == none || at[f] != i {
			left = append(left, headers[i])
		}
	}
	return left
}
