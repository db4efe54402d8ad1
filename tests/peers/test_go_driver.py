#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A CSI driver written in Go behind `cairn sidecar` and behind upstream's: listings equal
what was written; a driver that breaks a rule of the stream is found by our client even
where the sidecar relays what it says."""
import os
import unittest

from client_bed import BIN, BLOCK, PEERS, SidecarBed, ranges
from csidriver import Peer
from processes import wait_until

import cluster

PEERS = {**PEERS, **cluster.peers_or_skip("defectdriver")}
DRIVER = "defectdriver.cairn.test"
SNAPSHOT = "snapshot.storage.k8s.io/v1"
SIZE = 8 << 20
WRITTEN = range(0, 2000, 3)
CHANGED = [*range(3, 900, 9), 2001, 2002, 2003]
INTERNAL = 13

# What no stream may do and a client can see.
VISIBLE = ["unordered", "overlapping", "zero-size", "past-capacity", "type-changes",
           "capacity-changes", "max-results-ignored"]


class GoDriver:
    driver = DRIVER

    @classmethod
    def setUpClass(cls):
        cls.start_cluster(crds=True)
        cls.socket = cls.bed.directory / "go.sock"
        cls.kube.apply({"apiVersion": SNAPSHOT, "kind": "VolumeSnapshotClass",
                        "metadata": {"name": "go"}, "driver": DRIVER, "deletionPolicy": "Retain"})
        cls.count = 0

    # --- the driver and its objects ---

    def publish(self, name, handle):
        """Objects as the snapshot controllers make them."""
        content = f"content-{name}"
        self.kube.apply([
            {"apiVersion": SNAPSHOT, "kind": "VolumeSnapshot", "metadata": {"name": name},
             "spec": {"source": {"volumeSnapshotContentName": content},
                      "volumeSnapshotClassName": "go"}},
            {"apiVersion": SNAPSHOT, "kind": "VolumeSnapshotContent",
             "metadata": {"name": content},
             "spec": {"driver": DRIVER, "deletionPolicy": "Retain",
                      "volumeSnapshotClassName": "go", "source": {"snapshotHandle": handle},
                      "volumeSnapshotRef": {"namespace": "default", "name": name}}}])
        for kind, which, status in (
                ("volumesnapshot", name, f'"boundVolumeSnapshotContentName":"{content}"'),
                ("volumesnapshotcontent", content, f'"snapshotHandle":"{handle}"')):
            self.kube.kubectl("patch", kind, which, "--subresource=status", "--type=merge", "-p",
                              f'{{"status":{{"readyToUse":true,{status}}}}}')

    def write(self, path, blocks):
        with open(path, "r+b", buffering=0) as file:
            for block in blocks:
                os.pwrite(file.fileno(), os.urandom(BLOCK), block * BLOCK)

    def start(self, *args):
        """Driver and sidecar, with a volume whose snapshots are called base and target."""
        cls = type(self)
        cls.count += 1
        files = self.bed.directory / f"files-{cls.count}"
        files.mkdir()
        self.processes.start("go-driver", [PEERS["defectdriver"], "--endpoint",
                                           f"unix://{self.socket}", "--dir", files, *args])
        self.addCleanup(self.processes.stop, "go-driver")
        wait_until(self.socket.exists, 120, "the driver listens")
        peer = Peer(self.socket)
        self.addCleanup(peer.close)
        capability = {"block": {}, "access_mode": {"mode": 1}}
        volume = peer.call("Controller.CreateVolume", name="v", volume_capabilities=[capability],
                           capacity_range={"required_bytes": SIZE}).volume
        self.names = []
        for name, blocks in (("base", WRITTEN), ("target", CHANGED)):
            self.write(files / volume.volume_id, blocks)
            made = peer.call("Controller.CreateSnapshot", name=name,
                             source_volume_id=volume.volume_id).snapshot
            self.names.append(f"{name}-{cls.count}")
            self.publish(self.names[-1], made.snapshot_id)
        self.start_sidecar()
        self.addCleanup(self.processes.stop, "sidecar")

    # --- what must hold ---

    def test_listings_of_an_honest_driver_equal_the_truth(self):
        for args in ([], ["--fixed-length"]):
            with self.subTest(args=args):
                self.start(*args)
                base, target = self.names
                full = self.run_cairn("-o", "ndjson", snapshot=target).stdout
                delta = self.run_cairn("-o", "ndjson", "-p", base, snapshot=target).stdout
                self.assertEqual(self.blocks(full), ranges({*WRITTEN, *CHANGED}))
                self.assertEqual(self.blocks(delta), ranges(CHANGED))
                self.assertEqual(self.run_cairn("-o", "json", "-p", base, snapshot=target).stdout,
                                 self.run_go("-output-format=json", f"-previous-snapshot={base}",
                                             snapshot=target).stdout)
                self.doCleanups()

    def test_a_driver_that_breaks_a_rule_never_gives_a_complete_listing(self):
        for defect in VISIBLE:
            with self.subTest(defect=defect):
                self.start(f"--defect={defect}")
                done = self.run_cairn("-o", "ndjson", "--max-results", 50, "--no-retry",
                                      snapshot=self.names[1], code=INTERNAL)
                self.assertNotIn('"complete"', done.stdout)
                self.upstreams_client(defect)
                self.doCleanups()


class BehindUpstreamSidecar(GoDriver, SidecarBed):
    @classmethod
    def sidecar_command(cls):
        return [PEERS["csi-snapshot-metadata"], "--kube-api-qps=500", "--kube-api-burst=1000"]

    def upstreams_client(self, defect):
        """Takes it for a complete list."""
        self.run_go("-output-format=json", "-max-results=50", snapshot=self.names[1])


class BehindOurSidecar(GoDriver, SidecarBed):
    @classmethod
    def sidecar_command(cls):
        return [BIN, "sidecar"]

    def upstreams_client(self, defect):
        """Is reported, because the sidecar checks it."""
        self.run_go("-output-format=json", "-max-results=50", snapshot=self.names[1], code=1)


if __name__ == "__main__":
    unittest.main()
