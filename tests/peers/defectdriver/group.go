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

type group struct {
	id, name string
	members  []string // ids of snapshots, in the order of the volumes asked for
	created  time.Time
}

func (d *driver) GroupControllerGetCapabilities(context.Context, *csi.GroupControllerGetCapabilitiesRequest) (*csi.GroupControllerGetCapabilitiesResponse, error) {
	return &csi.GroupControllerGetCapabilitiesResponse{Capabilities: []*csi.GroupControllerServiceCapability{{
		Type: &csi.GroupControllerServiceCapability_Rpc{Rpc: &csi.GroupControllerServiceCapability_RPC{
			Type: csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT}}}}}, nil
}

// message tells the group; the caller holds the lock.
func (d *driver) message(g *group, tell func(*snapshot) *csi.Snapshot) *csi.VolumeGroupSnapshot {
	m := &csi.VolumeGroupSnapshot{GroupSnapshotId: g.id, CreationTime: timestamppb.New(g.created), ReadyToUse: true}
	for _, id := range g.members {
		m.Snapshots = append(m.Snapshots, tell(d.snapshots[id]))
	}
	return m
}

func (d *driver) CreateVolumeGroupSnapshot(_ context.Context, r *csi.CreateVolumeGroupSnapshotRequest) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	if r.Name == "" || len(r.SourceVolumeIds) == 0 {
		return nil, fail(codes.InvalidArgument, "name and volumes are required")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range d.groups {
		if g.name == r.Name {
			return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: d.message(g, d.again)}, nil
		}
	}
	for _, id := range r.SourceVolumeIds {
		if d.volumes[id] == nil {
			return nil, fail(codes.NotFound, "volume %s is not there", id)
		}
	}
	g := &group{id: newID(), name: r.Name, created: time.Now()}
	for _, id := range r.SourceVolumeIds {
		s, err := d.cut(d.volumes[id], r.Name+"-"+id, g.id)
		if err != nil {
			d.drop(g)
			return nil, err
		}
		g.members = append(g.members, s.id)
	}
	d.groups[g.id] = g
	return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: d.message(g, (*snapshot).message)}, nil
}

func (d *driver) drop(g *group) {
	for _, id := range g.members {
		os.Remove(d.path(id))
		delete(d.snapshots, id)
	}
	delete(d.groups, g.id)
}

func (d *driver) DeleteVolumeGroupSnapshot(_ context.Context, r *csi.DeleteVolumeGroupSnapshotRequest) (*csi.DeleteVolumeGroupSnapshotResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g := d.groups[r.GroupSnapshotId]; g != nil {
		d.drop(g)
	}
	return &csi.DeleteVolumeGroupSnapshotResponse{}, nil
}

func (d *driver) GetVolumeGroupSnapshot(_ context.Context, r *csi.GetVolumeGroupSnapshotRequest) (*csi.GetVolumeGroupSnapshotResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.groups[r.GroupSnapshotId]
	if g == nil {
		return nil, fail(codes.NotFound, "group %s is not there", r.GroupSnapshotId)
	}
	return &csi.GetVolumeGroupSnapshotResponse{GroupSnapshot: d.message(g, d.again)}, nil
}
