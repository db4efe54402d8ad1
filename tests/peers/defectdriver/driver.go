// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type volume struct {
	id, name string
	size     int64
	source   string // id of the snapshot that it came from
	device   string // loop device, once it is published
}

type snapshot struct {
	id, name string
	volume   string
	group    string // id of the group that it was cut with
	size     int64
	number   int // they are numbered as they are cut
	created  time.Time
}

// driver keeps its state in memory: it serves one test run.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedGroupControllerServer
	csi.UnimplementedNodeServer
	csi.UnimplementedSnapshotMetadataServer

	dir      string
	defect   string
	fixed    bool
	readSize int

	mu        sync.Mutex
	volumes   map[string]*volume
	snapshots map[string]*snapshot
	groups    map[string]*group
	number    int

	hung    sync.Mutex // of the defect cancel-hangs
	streams atomic.Int32
}

func newDriver(dir, defect string, fixed bool, readSize int) *driver {
	return &driver{
		dir: dir, defect: defect, readSize: readSize, fixed: fixed || defect == "fixed-length-varies" || defect == "fixed-length-short-last",
		volumes: map[string]*volume{}, snapshots: map[string]*snapshot{}, groups: map[string]*group{},
	}
}

func (d *driver) has(defect string) bool { return d.defect == defect }

func (d *driver) path(id string) string { return filepath.Join(d.dir, id) }

func newID() string {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		panic(err)
	}
	return hex.EncodeToString(b)
}

func fail(code codes.Code, format string, args ...any) error {
	return status.Errorf(code, format, args...)
}

func ioError(err error) error {
	if err == nil {
		return nil
	}
	return fail(codes.Internal, "%v", err)
}

// copyFile makes a full copy, holes and all, as the reference driver does.
func copyFile(from, to string, size int64) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	buf := make([]byte, 1<<20)
	for at := int64(0); at < size; {
		n, err := in.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if n == 0 {
			return err
		}
		if _, err := out.WriteAt(buf[:n], at); err != nil {
			return err
		}
		at += int64(n)
	}
	return out.Sync()
}
