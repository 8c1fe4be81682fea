package retry

// Origin names a record by where it was first read.
type Origin struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Header is a record header. A nil Value is a null header value, an empty one is present and empty.
type Header struct {
	Key   string
	Value []byte
}
