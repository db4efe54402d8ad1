// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const tuplesDefault = 256

// query is one call of either method; base is nil for GetMetadataAllocated.
type query struct {
	d            *driver
	ctx          context.Context
	base, target *snapshot
	start        int64
	max          int
	capacity     int64
	send         func(*message) error

	out     message
	sent    int // messages
	skipped int // blocks that a defect left out
	crowded bool
}

// message is what both responses hold.
type message struct {
	kind     csi.BlockMetadataType
	capacity int64
	tuples   []*csi.BlockMetadata
	padding  []byte
}

func (d *driver) GetMetadataAllocated(r *csi.GetMetadataAllocatedRequest, s csi.SnapshotMetadata_GetMetadataAllocatedServer) error {
	q := &query{d: d, ctx: s.Context(), start: r.StartingOffset, max: int(r.MaxResults)}
	q.send = func(m *message) error {
		resp := &csi.GetMetadataAllocatedResponse{BlockMetadataType: m.kind, VolumeCapacityBytes: m.capacity, BlockMetadata: m.tuples}
		resp.ProtoReflect().SetUnknown(m.padding)
		return s.Send(resp)
	}
	return d.answer(q, []string{r.SnapshotId})
}

func (d *driver) GetMetadataDelta(r *csi.GetMetadataDeltaRequest, s csi.SnapshotMetadata_GetMetadataDeltaServer) error {
	q := &query{d: d, ctx: s.Context(), start: r.StartingOffset, max: int(r.MaxResults)}
	q.send = func(m *message) error {
		resp := &csi.GetMetadataDeltaResponse{BlockMetadataType: m.kind, VolumeCapacityBytes: m.capacity, BlockMetadata: m.tuples}
		resp.ProtoReflect().SetUnknown(m.padding)
		return s.Send(resp)
	}
	return d.answer(q, []string{r.TargetSnapshotId, r.BaseSnapshotId})
}

// answer looks up the snapshots, target first, and streams.
func (d *driver) answer(q *query, ids []string) error {
	q.crowded = d.streams.Add(1) > 1
	defer d.streams.Add(-1)
	err := d.prepare(q, ids)
	if errors.Is(err, errEmpty) {
		return q.flush()
	}
	if err == nil {
		defer q.hurry()()
		q.impatient()
		if d.has("cancel-hangs") {
			d.hung.Lock()
		}
		err = q.stream()
		if d.has("cancel-hangs") && q.ctx.Err() != context.Canceled {
			d.hung.Unlock()
		}
	}
	return d.spoil(err)
}

// hurry has two defects give up shortly before the caller's deadline: past it the
// gRPC server would, most of the time, reset the stream before they can end it.
func (q *query) hurry() context.CancelFunc {
	end, limited := q.ctx.Deadline()
	if !limited || !q.d.has("cancel-ends-ok") && !q.d.has("deadline-ends-ok") {
		return func() {}
	}
	var cancel context.CancelFunc
	q.ctx, cancel = context.WithDeadline(q.ctx, end.Add(-10*time.Millisecond))
	return cancel
}

// stalledMargin is how long before the deadline the defect stalled-ends-ok gives up.
const stalledMargin = 50 * time.Millisecond

// impatient has the defect stalled-ends-ok wait for no reader: a message that can
// not be sent before the deadline is left behind, and the stream ends there. (Past
// the deadline the gRPC server would reset it.)
func (q *query) impatient() {
	end, limited := q.ctx.Deadline()
	if !limited || !q.d.has("stalled-ends-ok") {
		return
	}
	send := q.send
	q.send = func(m *message) error {
		sent := make(chan error, 1)
		go func() { sent <- send(m) }()
		select {
		case err := <-sent:
			return err
		case <-time.After(time.Until(end) - stalledMargin):
			return errEnough
		}
	}
}

// errEmpty makes a stream that has nothing to tell.
var errEmpty = errors.New("empty")

func (d *driver) prepare(q *query, ids []string) error {
	for _, id := range ids {
		if id == "" && !d.has("empty-argument-accepted") {
			return fail(codes.InvalidArgument, "a snapshot id is missing")
		}
	}
	if q.max < 0 {
		for d.has("negative-max-results-spins") {
			time.Sleep(time.Millisecond)
		}
		return fail(codes.InvalidArgument, "max_results is negative")
	}
	if q.start < 0 && d.has("negative-offset-ok") {
		q.start = 0
	}
	if q.start < 0 {
		return fail(codes.OutOfRange, "starting_offset is negative")
	}
	if err := d.find(q, ids); err != nil {
		return err
	}
	if q.start > q.target.size {
		if d.has("offset-beyond-end-ok") {
			return errEmpty
		}
		return fail(codes.OutOfRange, "starting_offset is beyond the end")
	}
	return nil
}

func (d *driver) find(q *query, ids []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, id := range ids {
		s := d.snapshots[id]
		switch {
		case s != nil:
		case d.has("unknown-snapshot-ok") && i == 0, d.has("unknown-base-ok") && i == 1:
			return errEmpty
		case d.has("unknown-snapshot-internal"):
			return fail(codes.Internal, "snapshot %s is not there", id)
		default:
			return fail(codes.NotFound, "snapshot %s is not there", id)
		}
		if i == 0 {
			q.target = s
		} else {
			q.base = s
		}
	}
	q.capacity = q.target.size
	v := d.volumes[q.target.volume]
	switch {
	case d.has("wrong-capacity"):
		q.capacity += blockSize
	case d.has("capacity-of-volume") && v != nil:
		q.capacity = v.size
	case d.has("volume-deleted-not-found") && v == nil:
		return fail(codes.NotFound, "volume %s is not there", q.target.volume)
	case d.has("restored-volume-blocks"):
		for _, other := range d.volumes {
			if other.source == q.target.id {
				return fail(codes.Aborted, "snapshot %s is in use", q.target.id)
			}
		}
	}
	if q.base != nil && q.base.volume != q.target.volume && !d.has("unrelated-accepted") {
		return fail(codes.InvalidArgument, "the snapshots are of two volumes")
	}
	if q.base != nil && q.base.number > q.target.number && !d.has("base-target-swap-accepted") {
		return fail(codes.InvalidArgument, "the base is newer than the target")
	}
	return nil
}

// spoil gives an error the form that a defect asks for.
func (d *driver) spoil(err error) error {
	s := status.Convert(err)
	switch {
	case err == nil:
		return nil
	case d.has("error-without-message"):
		return status.Error(s.Code(), "")
	case d.has("error-with-details"):
		if detailed, err := s.WithDetails(&csi.Topology{}); err == nil {
			return detailed.Err()
		}
	}
	return err
}

// stopped tells how a stream ends whose caller has gone or whose time is over.
func (q *query) stopped(err error) error {
	over := q.ctx.Err()
	if over == nil {
		return err
	}
	if q.d.has("cancel-ends-ok") || q.d.has("deadline-ends-ok") && over == context.DeadlineExceeded {
		return nil
	}
	return status.FromContextError(over).Err()
}

func (q *query) stream() error {
	target, err := os.Open(q.d.path(q.live()))
	if err != nil {
		return ioError(err)
	}
	defer target.Close()
	c := newComparison(target, q.target.size, q.d.readSize)
	if q.base != nil {
		if c.base, err = os.Open(q.d.path(q.base.id)); err != nil {
			return ioError(err)
		}
		defer c.base.Close()
		if q.d.has("missing-grown") {
			c.size = min(c.size, q.base.size)
		}
	}
	err = q.walk(c)
	if err == nil {
		err = q.finish()
	}
	if err == nil || err == errEnough {
		return nil
	}
	return q.stopped(err)
}

// live is the id of the file to read.
func (q *query) live() string {
	q.d.mu.Lock()
	defer q.d.mu.Unlock()
	if q.d.has("written-volume-shows") && q.d.volumes[q.target.volume] != nil && q.base != nil {
		return q.target.volume
	}
	return q.target.id
}

// errEnough ends a stream early, with OK.
var errEnough = errors.New("enough")

// walk compares from the start on and adds what differs.
func (q *query) walk(c *comparison) error {
	first := q.start / blockSize * blockSize
	shift := int64(0)
	switch {
	case q.d.has("unaligned-offset-shifts"):
		shift = q.start - first
	case q.d.has("tuple-before-start"):
		first = 0
	case q.d.has("start-off-by-one"):
		first = (q.start + blockSize - 1) / blockSize * blockSize
	}
	for at := first + shift; at < c.size; at += int64(q.d.readSize) {
		if err := q.ctx.Err(); err != nil {
			return err
		}
		if err := c.read(at); err != nil {
			return ioError(err)
		}
		for i := 0; i < len(c.targetBytes); i += blockSize {
			if !q.differs(c, i) {
				continue
			}
			n := int64(min(blockSize, len(c.targetBytes)-i))
			if err := q.add(at+int64(i)-shift, n); err != nil {
				return err
			}
		}
	}
	return nil
}
