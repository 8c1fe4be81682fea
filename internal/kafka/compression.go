package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

var errTooLarge = fmt.Errorf("decompresses to more than %d MiB", maxDecompressed>>20)

// Java's Snappy streams are raw blocks with a length each, after this header: magic, version 1, compatible with 1.
var xerialHeader = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}

// decompressors are made when first needed and used again. They start no goroutine.
type decompressors struct {
	gzip *gzip.Reader
	lz4  *lz4.Reader
	zstd *zstd.Decoder
	src  bytes.Reader
}

// decompress gives the records in memory of their own.
func (d *decompressors) decompress(codec Codec, b []byte) ([]byte, error) {
	var out []byte
	var err error
	switch codec {
	case Gzip:
		out, err = d.fromGzip(b)
	case Snappy:
		out, err = fromSnappy(b)
	case LZ4:
		out, err = d.fromLZ4(b)
	case Zstd:
		out, err = d.fromZstd(b)
	default:
		return nil, fmt.Errorf("compression codec %d is unknown", codec)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", codec, err)
	}
	return out, nil
}

func (d *decompressors) fromGzip(b []byte) ([]byte, error) {
	d.src.Reset(b)
	if d.gzip == nil {
		d.gzip = new(gzip.Reader)
	}
	if err := d.gzip.Reset(&d.src); err != nil {
		return nil, err
	}
	return readBounded(d.gzip, len(b))
}

func (d *decompressors) fromLZ4(b []byte) ([]byte, error) {
	d.src.Reset(b)
	if d.lz4 == nil {
		d.lz4 = lz4.NewReader(&d.src)
	} else {
		d.lz4.Reset(&d.src)
	}
	return readBounded(d.lz4, len(b))
}

func (d *decompressors) fromZstd(b []byte) ([]byte, error) {
	if d.zstd == nil {
		var err error
		d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDecompressed))
		if err != nil {
			return nil, err
		}
	}
	out, err := d.zstd.DecodeAll(b, nil)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || len(out) > maxDecompressed {
		return nil, errTooLarge
	}
	return out, err
}

// readBounded reads everything, up to the bound.
func readBounded(r io.Reader, compressed int) ([]byte, error) {
	out := bytes.NewBuffer(make([]byte, 0, min(4*compressed+512, maxDecompressed)))
	n, err := out.ReadFrom(io.LimitReader(r, maxDecompressed+1))
	if n > maxDecompressed {
		return nil, errTooLarge
	}
	return out.Bytes(), err
}

// fromSnappy reads a raw block, or Java's sequence of them.
func fromSnappy(b []byte) ([]byte, error) {
	if len(b) < len(xerialHeader) || !bytes.Equal(b[:8], xerialHeader[:8]) {
		return snappyBlock(nil, b)
	}
	var out []byte
	for b = b[len(xerialHeader):]; len(b) > 0; {
		if len(b) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(b)
		if uint64(n) > uint64(len(b)-4) {
			return nil, io.ErrUnexpectedEOF
		}
		var err error
		if out, err = snappyBlock(out, b[4:4+n]); err != nil {
			return nil, err
		}
		b = b[4+n:]
	}
	return out, nil
}

// snappyBlock appends the content of a block to out.
func snappyBlock(out, b []byte) ([]byte, error) {
	n, err := s2.DecodedLen(b)
	if err != nil {
		return nil, err
	}
	if n > maxDecompressed-len(out) {
		return nil, errTooLarge
	}
	at := len(out)
	out = append(out, make([]byte, n)...)
	if _, err := s2.Decode(out[at:at+n:at+n], b); err != nil {
		return nil, err
	}
	return out, nil
}

// String is the name that compression.type uses.
func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("codec %d", int8(c))
}

// compressors are made when first needed and used again. They start no goroutine.
type compressors struct {
	gzip *gzip.Writer
	lz4  *lz4.Writer
	zstd *zstd.Encoder
	dst  appender
}

// appender is a writer onto a slice.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// append compresses records onto dst.
func (c *compressors) append(dst []byte, codec Codec, records []byte) ([]byte, error) {
	switch codec {
	case Gzip:
		if c.gzip == nil {
			c.gzip = gzip.NewWriter(&c.dst)
		}
		return c.through(dst, c.gzip, records)
	case LZ4:
		if c.lz4 == nil {
			c.lz4 = lz4.NewWriter(&c.dst)
			if err := c.lz4.Apply(lz4.BlockSizeOption(lz4.Block64Kb)); err != nil {
				return dst, err
			}
		}
		return c.through(dst, c.lz4, records)
	case Snappy:
		return appendSnappy(dst, records), nil
	case Zstd:
		if c.zstd == nil {
			var err error
			if c.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true)); err != nil {
				return dst, err
			}
		}
		return c.zstd.EncodeAll(records, dst), nil
	case None:
		return append(dst, records...), nil
	}
	return dst, fmt.Errorf("compression codec %d is unknown: use none, gzip, snappy, lz4 or zstd", codec)
}

// resetter is what the stream writers of gzip and lz4 have in common.
type resetter interface {
	io.WriteCloser
	Reset(w io.Writer)
}

func (c *compressors) through(dst []byte, w resetter, records []byte) ([]byte, error) {
	c.dst.b = dst
	w.Reset(&c.dst)
	_, err := w.Write(records)
	if e := w.Close(); err == nil {
		err = e
	}
	dst, c.dst.b = c.dst.b, nil
	return dst, err
}

// appendSnappy writes Java's form, which every client reads.
func appendSnappy(dst, records []byte) []byte {
	const block = 32 << 10
	dst = append(dst, xerialHeader...)
	for len(records) > 0 {
		n := min(len(records), block)
		at := len(dst)
		dst = append(dst, make([]byte, 4+s2.MaxEncodedLen(n))...)
		b := s2.EncodeSnappy(dst[at+4:len(dst):len(dst)], records[:n])
		putInt32(dst[at:], int32(len(b)))
		dst = dst[:at+4+len(b)]
		records = records[n:]
	}
	return dst
}
