// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	sizeDefault = 64 << 20
	blockSize   = 4096
)

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: "defectdriver.cairn.test", VendorVersion: "1"}, nil
}

func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	types := []csi.PluginCapability_Service_Type{
		csi.PluginCapability_Service_CONTROLLER_SERVICE,
		csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE,
	}
	if !d.has("not-advertised") {
		types = append(types, csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE)
	}
	resp := &csi.GetPluginCapabilitiesResponse{}
	for _, t := range types {
		resp.Capabilities = append(resp.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: t}}})
	}
	return resp, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (d *driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	resp := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_GET_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	} {
		resp.Capabilities = append(resp.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}}})
	}
	return resp, nil
}

func wantedSize(r *csi.CapacityRange) int64 {
	size := max(r.GetRequiredBytes(), r.GetLimitBytes())
	if size == 0 {
		size = sizeDefault
	}
	return (size + blockSize - 1) / blockSize * blockSize
}

func (d *driver) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if r.Name == "" || len(r.VolumeCapabilities) == 0 {
		return nil, fail(codes.InvalidArgument, "name and capabilities are required")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	source := r.GetVolumeContentSource().GetSnapshot().GetSnapshotId()
	for _, v := range d.volumes {
		if v.name == r.Name {
			if v.size < wantedSize(r.CapacityRange) || v.source != source {
				return nil, fail(codes.AlreadyExists, "volume %s is different", r.Name)
			}
			return &csi.CreateVolumeResponse{Volume: v.message()}, nil
		}
	}
	v := &volume{id: newID(), name: r.Name, size: wantedSize(r.CapacityRange), source: source}
	if err := d.fill(v); err != nil {
		return nil, err
	}
	d.volumes[v.id] = v
	return &csi.CreateVolumeResponse{Volume: v.message()}, nil
}

// fill makes the volume's file, from its snapshot if it has one.
func (d *driver) fill(v *volume) error {
	if v.source != "" {
		s := d.snapshots[v.source]
		if s == nil {
			return fail(codes.NotFound, "snapshot %s is not there", v.source)
		}
		v.size = max(v.size, s.size)
		if err := copyFile(d.path(s.id), d.path(v.id), s.size); err != nil {
			return ioError(err)
		}
		return ioError(os.Truncate(d.path(v.id), v.size))
	}
	f, err := os.Create(d.path(v.id))
	if err != nil {
		return ioError(err)
	}
	defer f.Close()
	return ioError(f.Truncate(v.size))
}

// lockVolume finds a volume; the caller unlocks, also after an error.
func (d *driver) lockVolume(id string) (*volume, error) {
	d.mu.Lock()
	return d.volume(id)
}

// volume finds a volume; the caller holds the lock.
func (d *driver) volume(id string) (*volume, error) {
	v := d.volumes[id]
	if v == nil {
		return nil, fail(codes.NotFound, "volume %s is not there", id)
	}
	return v, nil
}

func (v *volume) message() *csi.Volume {
	m := &csi.Volume{VolumeId: v.id, CapacityBytes: v.size}
	if v.source != "" {
		m.ContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: v.source}}}
	}
	return m
}

func (d *driver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volumes[r.VolumeId]
	if v == nil {
		return &csi.DeleteVolumeResponse{}, nil
	}
	if v.device != "" {
		return nil, fail(codes.FailedPrecondition, "volume %s is in use", v.id)
	}
	if err := os.Remove(d.path(v.id)); err != nil {
		return nil, ioError(err)
	}
	delete(d.volumes, v.id)
	return &csi.DeleteVolumeResponse{}, nil
}

func (d *driver) ControllerExpandVolume(_ context.Context, r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	v, err := d.lockVolume(r.VolumeId)
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if size := wantedSize(r.CapacityRange); size > v.size {
		if err := os.Truncate(d.path(v.id), size); err != nil {
			return nil, ioError(err)
		}
		v.size = size
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: v.size, NodeExpansionRequired: true}, nil
}

func (d *driver) CreateSnapshot(_ context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if r.Name == "" || r.SourceVolumeId == "" {
		return nil, fail(codes.InvalidArgument, "name and source are required")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.snapshots {
		if s.name == r.Name {
			if s.volume != r.SourceVolumeId {
				return nil, fail(codes.AlreadyExists, "snapshot %s is of another volume", r.Name)
			}
			return &csi.CreateSnapshotResponse{Snapshot: d.again(s)}, nil
		}
	}
	v, err := d.volume(r.SourceVolumeId)
	if err != nil {
		return nil, err
	}
	s, err := d.cut(v, r.Name, "")
	if err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: s.message()}, nil
}

// cut makes a snapshot; the caller holds the lock.
func (d *driver) cut(v *volume, name, group string) (*snapshot, error) {
	d.number++
	s := &snapshot{id: newID(), name: name, volume: v.id, group: group, size: v.size, number: d.number, created: time.Now()}
	if err := copyFile(d.path(v.id), d.path(s.id), v.size); err != nil {
		return nil, ioError(err)
	}
	d.snapshots[s.id] = s
	return s, nil
}

func (s *snapshot) message() *csi.Snapshot {
	return &csi.Snapshot{SnapshotId: s.id, SourceVolumeId: s.volume, SizeBytes: s.size,
		CreationTime: timestamppb.New(s.created), ReadyToUse: true, GroupSnapshotId: s.group}
}

// again is how the snapshot is reported after the call that made it.
func (d *driver) again(s *snapshot) *csi.Snapshot {
	m := s.message()
	if d.has("replay-drops-group") {
		m.GroupSnapshotId = ""
	}
	return m
}

func (d *driver) DeleteSnapshot(_ context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.snapshots[r.SnapshotId]; s != nil {
		if s.group != "" {
			return nil, fail(codes.InvalidArgument, "snapshot %s goes with its group", s.id)
		}
		os.Remove(d.path(r.SnapshotId))
		delete(d.snapshots, r.SnapshotId)
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

func (d *driver) GetSnapshot(_ context.Context, r *csi.GetSnapshotRequest) (*csi.GetSnapshotResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.snapshots[r.SnapshotId]
	if r.SnapshotId == "" && !d.has("get-without-id-not-found") {
		return nil, fail(codes.InvalidArgument, "a snapshot id is required")
	}
	if s == nil {
		return nil, fail(codes.NotFound, "snapshot %s is not there", r.SnapshotId)
	}
	return &csi.GetSnapshotResponse{Snapshot: d.again(s)}, nil
}

func (d *driver) ListSnapshots(_ context.Context, r *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	resp := &csi.ListSnapshotsResponse{}
	for _, s := range d.snapshots {
		if (r.SnapshotId == "" || r.SnapshotId == s.id) && (r.SourceVolumeId == "" || r.SourceVolumeId == s.volume) {
			resp.Entries = append(resp.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: d.again(s)})
			if r.SourceVolumeId != "" && d.has("lists-first-snapshot") {
				break
			}
		}
	}
	return resp, nil
}
