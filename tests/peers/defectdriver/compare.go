// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// readSizeMax bounds --read-size.
const readSizeMax = 1 << 20

// comparison reads a snapshot, and its base if it has one, by --read-size.
type comparison struct {
	base, target           *os.File
	size                   int64
	baseBuf, targetBuf     []byte
	baseBytes, targetBytes []byte
}

func newComparison(target *os.File, size int64, readSize int) *comparison {
	return &comparison{target: target, size: size,
		baseBuf: make([]byte, readSize), targetBuf: make([]byte, readSize)}
}

var zeros [readSizeMax]byte

func readAt(f *os.File, buf []byte, at int64) (int, error) {
	n, err := f.ReadAt(buf, at)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

func (c *comparison) read(at int64) error {
	n, err := readAt(c.target, c.targetBuf[:min(int64(len(c.targetBuf)), c.size-at)], at)
	c.targetBytes = c.targetBuf[:n]
	c.baseBytes = zeros[:n]
	if err != nil || c.base == nil {
		return err
	}
	m, err := readAt(c.base, c.baseBuf[:n], at)
	clear(c.baseBuf[m:n])
	c.baseBytes = c.baseBuf[:n]
	return err
}

// differs tells whether the block at i of the chunk is to be reported.
func (q *query) differs(c *comparison, i int) bool {
	end := min(i+blockSize, len(c.targetBytes))
	old, now := c.baseBytes[i:end], c.targetBytes[i:end]
	if bytes.Equal(old, now) {
		return q.d.has("same-snapshot-all") && q.base == q.target
	}
	return q.d.defect == "" || !q.overlooks(old, now)
}

func isZero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }

// overlooks is true for a changed block that a defect does not see.
func (q *query) overlooks(old, now []byte) bool {
	third := func(is bool) bool {
		if is {
			q.skipped++
		}
		return is && q.skipped == 3
	}
	switch q.d.defect {
	case "missing-changed-block":
		return third(q.base != nil && !isZero(old) && !isZero(now))
	case "missing-zeroed-block":
		return q.base != nil && isZero(now)
	case "missing-new-block":
		return q.base != nil && isZero(old)
	case "missing-allocated-block":
		return third(q.base == nil)
	case "missing-one-byte":
		return bytes.Equal(old[:16], now[:16]) && bytes.Equal(old[len(old)-16:], now[len(now)-16:])
	case "concurrent-streams-disturbed":
		return third(q.crowded)
	}
	return false
}

// add puts a range into the message, sending the one before when it is full.
func (q *query) add(offset, size int64) error {
	n := len(q.out.tuples)
	if n > 0 && (!q.d.fixed || q.d.has("fixed-length-varies")) {
		last := q.out.tuples[n-1]
		if last.ByteOffset+last.SizeBytes == offset {
			last.SizeBytes += size
			return nil
		}
	}
	if n >= q.perMessage() {
		if err := q.flush(); err != nil {
			return err
		}
		if q.d.has("truncated-ok") || q.d.has("max-results-of-stream") && q.max > 0 {
			return errEnough
		}
	}
	if q.d.has("fixed-length-short-last") && offset+size == q.target.size {
		size = blockSize / 2
	}
	q.out.tuples = append(q.out.tuples, &csi.BlockMetadata{ByteOffset: offset, SizeBytes: size})
	return nil
}

func (q *query) perMessage() int {
	if q.max == 0 || q.d.has("max-results-ignored") {
		return tuplesDefault
	}
	return q.max
}

// flush sends the message. Flushing nothing is how a caller learns the capacity.
func (q *query) flush() error {
	q.out.kind = csi.BlockMetadataType_VARIABLE_LENGTH
	if q.d.fixed {
		q.out.kind = csi.BlockMetadataType_FIXED_LENGTH
	}
	q.out.capacity = q.capacity
	q.distort()
	m := q.out
	q.out = message{}
	q.sent++
	if err := q.send(&m); err != nil {
		return err
	}
	return q.ctx.Err()
}

// distort breaks the rules that hold for messages.
func (q *query) distort() {
	m := &q.out
	n := len(m.tuples)
	switch q.d.defect {
	case "type-unknown":
		m.kind = csi.BlockMetadataType_UNKNOWN
	case "type-changes":
		if q.sent > 0 {
			m.kind = csi.BlockMetadataType_FIXED_LENGTH
		}
	case "capacity-changes":
		m.capacity += int64(q.sent) * blockSize
	case "unordered":
		if n > 1 && q.sent == 0 {
			m.tuples[0], m.tuples[1] = m.tuples[1], m.tuples[0]
		}
	case "overlapping":
		if n > 1 && q.sent == 0 {
			m.tuples[0].SizeBytes = m.tuples[1].ByteOffset - m.tuples[0].ByteOffset + 1
		}
	case "zero-size":
		if n > 0 && q.sent == 1 {
			last := m.tuples[n-1]
			m.tuples = append(m.tuples, &csi.BlockMetadata{ByteOffset: last.ByteOffset + last.SizeBytes})
		}
	case "message-too-large":
		if q.sent == 0 {
			const size = 5 << 20
			// A field of bytes that no reader knows: number 100, and its length.
			m.padding = append([]byte{0xa2, 0x06, 0x80, 0x80, 0xc0, 0x02}, make([]byte, size)...)
		}
	}
}

// finish sends what is left.
func (q *query) finish() error {
	if q.d.has("past-capacity") {
		q.out.tuples = append(q.out.tuples, &csi.BlockMetadata{ByteOffset: q.capacity, SizeBytes: blockSize})
	}
	if len(q.out.tuples) > 0 || q.sent == 0 && !q.d.has("no-first-message") {
		return q.flush()
	}
	return nil
}
