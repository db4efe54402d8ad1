// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: "node"}, nil
}

func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{{
		Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{
			Type: csi.NodeServiceCapability_RPC_EXPAND_VOLUME}}}}}, nil
}

func run(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return "", fail(codes.Internal, "%s %s: %v: %s", name, strings.Join(args, " "), err, text)
	}
	return text, nil
}

// NodePublishVolume binds a loop device of the volume's file to the target path.
func (d *driver) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if r.GetVolumeCapability().GetBlock() == nil || r.TargetPath == "" {
		return nil, fail(codes.InvalidArgument, "block access and a target path are required")
	}
	v, err := d.lockVolume(r.VolumeId)
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if v.device != "" {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	device, err := run("losetup", "--find", "--show", d.path(v.id))
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(r.TargetPath, os.O_CREATE|os.O_RDONLY, 0o600)
	if err == nil {
		f.Close()
		err = syscall.Mount(device, r.TargetPath, "", syscall.MS_BIND, "")
	}
	if err != nil {
		run("losetup", "--detach", device)
		return nil, ioError(err)
	}
	v.device = device
	return &csi.NodePublishVolumeResponse{}, nil
}

func (d *driver) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	v, err := d.lockVolume(r.VolumeId)
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if v.device == "" {
		return &csi.NodeUnpublishVolumeResponse{}, nil
	}
	if err := syscall.Unmount(r.TargetPath, 0); err != nil {
		return nil, ioError(err)
	}
	os.Remove(r.TargetPath)
	if _, err := run("losetup", "--detach", v.device); err != nil {
		return nil, err
	}
	v.device = ""
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (d *driver) NodeExpandVolume(_ context.Context, r *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	v, err := d.lockVolume(r.VolumeId)
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if v.device != "" {
		if _, err := run("losetup", "--set-capacity", v.device); err != nil {
			return nil, err
		}
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: v.size}, nil
}
