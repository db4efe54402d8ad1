#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Controller of `cairn driver`: requests that are unusual, wrong, repeated or too many at once."""
import concurrent.futures
import contextlib
import fcntl
import os
import sqlite3
import struct
import subprocess
import threading
import time

import grpc

from cairncli import BIN, MIB, TIMEOUT, main
from csidriver import NODE, SMALL, Code, DriverTest, Failed, block, mount

SECTOR = 512
LARGEST = 1 << 60
INT32_MAX, INT64_MAX = (1 << 31) - 1, (1 << 63) - 1

ODD_NAMES = ("x", " ", "..", "/", "a/b", "-v", "--", "a@b", "@", "@@", "%s%n", "'\";$(true)",
             "grüße, мир, 世界 🪨", "é" * 64, "n" * 128, "group 0123456789abcdef", "vol-", "snap-1")
BAD_NAMES = ("", "n" * 129, "é" * 64 + "x", "line\nbreak", "tab\t", "\x01", "\x7f", "\u0085",
             "vol-0123456789abcdef", "snap-0123456789abcdef-1")


class ControllerTest(DriverTest):
    backend = "copy"

    def volumes(self):
        return [e.volume.volume_id for e in self.call("Controller.ListVolumes").entries]

    def snapshots(self, **which):
        return [e.snapshot.snapshot_id
                for e in self.call("Controller.ListSnapshots", **which).entries]

    def everything(self):
        return self.volumes(), self.snapshots()

    def delta(self, base, target, **more):
        messages = self.stream("SnapshotMetadata.GetMetadataDelta", base_snapshot_id=base,
                               target_snapshot_id=target, **more)
        return [(b.byte_offset, b.size_bytes) for m in messages for b in m.block_metadata]


class Names(ControllerTest):
    def test_any_text_is_a_name_of_one_thing(self):
        volumes = {name: self.create(name=name) for name in ODD_NAMES}
        self.assertEqual(len(set(volumes.values())), len(ODD_NAMES))
        first = volumes["x"]
        cuts = {name: self.snapshot(first, name) for name in ODD_NAMES}
        self.assertEqual(len(set(cuts.values())), len(ODD_NAMES))
        for name in ODD_NAMES:
            again = self.call("Controller.CreateVolume", name=name,
                              capacity_range={"required_bytes": SMALL},
                              volume_capabilities=[block()]).volume.volume_id
            self.assertEqual(again, volumes[name], name)
            again = self.call("Controller.CreateSnapshot", name=name, source_volume_id=first)
            self.assertEqual(again.snapshot.snapshot_id, cuts[name], name)
            self.refuses(Code.ALREADY_EXISTS, "Controller.CreateSnapshot", name=name,
                         source_volume_id=volumes["/"])
            group = self.call("GroupController.CreateVolumeGroupSnapshot", name=name,
                              source_volume_ids=[first]).group_snapshot
            self.assertEqual(self.call("GroupController.GetVolumeGroupSnapshot",
                                       group_snapshot_id=group.group_snapshot_id,
                                       snapshot_ids=[group.snapshots[0].snapshot_id]
                                       ).group_snapshot.snapshots, group.snapshots)
            self.delete_group(group.group_snapshot_id)
        self.assertEqual(len(self.snapshots()), len(ODD_NAMES))

    def test_an_at_sign_does_not_lead_to_another_volume(self):
        volume = self.create()
        other = self.create(name=f"{volume}@a")
        first = self.snapshot(other, "b")
        second = self.snapshot(volume, "a@b")
        self.assertEqual(self.snapshots(source_volume_id=other), [first])
        self.assertEqual(self.snapshots(source_volume_id=volume), [second])

    def test_what_is_no_name_is_refused_and_leaves_nothing(self):
        volume = self.create()
        victim = self.snapshot(volume)
        before = self.everything()
        for name in (*BAD_NAMES, f"x\n{victim}"):
            self.refuses(Code.INVALID_ARGUMENT, "Controller.CreateVolume", name=name,
                         volume_capabilities=[block()])
            self.refuses(Code.INVALID_ARGUMENT, "Controller.CreateSnapshot", name=name,
                         source_volume_id=volume)
            self.refuses(Code.INVALID_ARGUMENT, "GroupController.CreateVolumeGroupSnapshot",
                         name=name, source_volume_ids=[volume])
        self.assertEqual(self.everything(), before)

    def test_bytes_that_are_no_text_are_refused(self):
        """grpcio makes no such message: the bytes are written by hand."""
        before = self.everything()
        for name in (b"a\0b", b"\xff", b"\xc0\x80", b"\xed\xa0\x80"):
            run = self.driver.peer.channel.unary_unary("/csi.v1.Controller/CreateVolume")
            with self.assertRaises(grpc.RpcError) as caught:
                run(b"\x0a" + bytes([len(name)]) + name, timeout=TIMEOUT)
            self.assertEqual(caught.exception.code(), Code.INVALID_ARGUMENT)
        self.assertEqual(self.everything(), before)

    def test_ids_of_nothing_are_not_found(self):
        odd = ("nothing", "../x", "vol-0123456789abcdef", "snap-0123456789abcdef-1", "v" * 1000,
               "vol-0123456789ABCDEF", "snap-0123456789abcdef-01", "x@y")
        for name in odd:
            for call in ("ControllerGetVolume", "ControllerModifyVolume", "CreateSnapshot",
                         "ControllerExpandVolume", "ValidateVolumeCapabilities"):
                known = self.driver.peer.method(f"Controller.{call}")[1].DESCRIPTOR.fields_by_name
                fields = {k: v for k, v in {
                    "volume_id": name, "source_volume_id": name, "name": "n",
                    "capacity_range": {"required_bytes": SMALL},
                    "volume_capabilities": [block()]}.items() if k in known}
                self.refuses(Code.NOT_FOUND, f"Controller.{call}", **fields)
            self.refuses(Code.NOT_FOUND, "Controller.GetSnapshot", snapshot_id=name)
            for source in ({"snapshot": {"snapshot_id": name}}, {"volume": {"volume_id": name}}):
                self.refuses(Code.NOT_FOUND, "Controller.CreateVolume", name="from nothing",
                             volume_capabilities=[block()], volume_content_source=source)
            self.assertEqual(self.snapshots(snapshot_id=name), [])
            self.assertEqual(self.snapshots(source_volume_id=name), [])
            self.call("Controller.DeleteVolume", volume_id=name)
            self.call("Controller.DeleteSnapshot", snapshot_id=name)
            self.call("Controller.ControllerUnpublishVolume", volume_id=name, node_id=NODE)
            self.call("GroupController.DeleteVolumeGroupSnapshot", group_snapshot_id=name)
            self.refuses(Code.NOT_FOUND, "GroupController.GetVolumeGroupSnapshot",
                         group_snapshot_id=name)
        self.assertEqual(self.volumes(), [])


class Sizes(ControllerTest):
    def makes(self, expected, **wanted):
        """A volume of the size `expected`, or is refused with that code."""
        if not isinstance(expected, int):
            self.refuses(expected, "Controller.CreateVolume", **wanted)
            return
        made = self.call("Controller.CreateVolume", **wanted).volume
        self.call("Controller.DeleteVolume", volume_id=made.volume_id)
        self.assertEqual(made.capacity_bytes, expected)

    def test_of_new_volumes(self):
        gib = 1 << 30
        for required, limit, expected in (
                (0, 0, gib), (1, 0, SECTOR), (SECTOR, SECTOR, SECTOR), (513, 0, 2 * SECTOR),
                (513, 1024, 1024), (0, 10 * SECTOR + 1, 10 * SECTOR), (0, 2 * gib, gib),
                (SMALL, SMALL, SMALL), (SMALL, INT64_MAX, SMALL),
                (513, 1023, Code.OUT_OF_RANGE), (0, 511, Code.OUT_OF_RANGE),
                (2, 1, Code.OUT_OF_RANGE), (-1, 0, Code.OUT_OF_RANGE), (0, -1, Code.OUT_OF_RANGE),
                (LARGEST + 1, 0, Code.OUT_OF_RANGE), (INT64_MAX, 0, Code.OUT_OF_RANGE),
                (INT64_MAX, INT64_MAX, Code.OUT_OF_RANGE)):
            with self.subTest(required=required, limit=limit):
                wanted = {"name": self.name(), "volume_capabilities": [block()],
                          "capacity_range": {"required_bytes": required, "limit_bytes": limit}}
                self.makes(expected, **wanted)
        self.assertEqual(self.volumes(), [])

    def test_more_than_the_filesystem_can_hold_is_refused_and_leaves_nothing(self):
        try:
            made = self.call("Controller.CreateVolume", name="huge",
                             volume_capabilities=[block()],
                             capacity_range={"required_bytes": LARGEST}).volume
            self.call("Controller.DeleteVolume", volume_id=made.volume_id)
        except Failed as failed:
            self.assertIn(failed.code, (Code.OUT_OF_RANGE, Code.RESOURCE_EXHAUSTED), failed)
        self.assertEqual(self.volumes(), [])

    def test_of_copies(self):
        volume = self.create()
        cut = self.snapshot(volume)
        for source in ({"snapshot": {"snapshot_id": cut}}, {"volume": {"volume_id": volume}}):
            for required, limit, expected in (
                    (0, 0, SMALL), (SMALL, SMALL, SMALL), (2 * SMALL, 0, 2 * SMALL),
                    (0, 4 * SMALL, SMALL), (SMALL - 1, 0, SMALL),
                    (SMALL - SECTOR, 0, Code.OUT_OF_RANGE), (0, SMALL - 1, Code.OUT_OF_RANGE)):
                with self.subTest(required=required, limit=limit, source=source):
                    wanted = {"name": self.name(), "volume_capabilities": [block()],
                              "volume_content_source": source,
                              "capacity_range": {"required_bytes": required,
                                                 "limit_bytes": limit}}
                    self.makes(expected, **wanted)
        self.assertEqual(self.volumes(), [volume])

    def test_only_grow(self):
        volume = self.create()

        def expand(required, limit=0):
            return self.call("Controller.ControllerExpandVolume", volume_id=volume,
                             capacity_range={"required_bytes": required, "limit_bytes": limit},
                             volume_capability=block()).capacity_bytes

        self.assertEqual(expand(SMALL + 1), SMALL + SECTOR)
        for required, limit, size in ((SMALL + 1, 0, SMALL + SECTOR), (SMALL, 0, SMALL + SECTOR),
                                      (1, 0, SMALL + SECTOR), (2 * SMALL, 2 * SMALL, 2 * SMALL),
                                      (2 * SMALL, 2 * SMALL, 2 * SMALL)):
            self.assertEqual(expand(required, limit), size)
        for required, limit in ((SMALL, SMALL), (0, SMALL), (LARGEST + 1, 0), (-1, 0), (2, 1),
                                (INT64_MAX, INT64_MAX)):
            self.refuses(Code.OUT_OF_RANGE, "Controller.ControllerExpandVolume",
                         volume_id=volume, capacity_range={"required_bytes": required,
                                                           "limit_bytes": limit})
        self.refuses(Code.INVALID_ARGUMENT, "Controller.ControllerExpandVolume", volume_id=volume)
        got = self.call("Controller.ControllerGetVolume", volume_id=volume).volume
        self.assertEqual(got.capacity_bytes, 2 * SMALL)

    def test_what_grew_is_reported_where_it_holds_data(self):
        volume = self.create()
        self.write(volume, 0, b"a" * 4096)
        base = self.snapshot(volume)
        self.call("Controller.ControllerExpandVolume", volume_id=volume,
                  capacity_range={"required_bytes": 4 * SMALL}, volume_capability=block())
        grown = self.snapshot(volume)
        self.assertEqual(self.delta(base, grown), [])
        self.write(volume, 0, b"\0" * 4096)  # zeros that the base did not have
        self.write(volume, 2 * SMALL, b"b" * 8192)
        target = self.snapshot(volume)
        self.assertEqual(self.delta(base, target), [(0, 4096), (2 * SMALL, 8192)])
        self.assertEqual(self.delta(grown, target), [(0, 4096), (2 * SMALL, 8192)])
        self.call("Controller.DeleteSnapshot", snapshot_id=base)
        self.assertEqual(self.delta(base, target, starting_offset=SMALL), [(2 * SMALL, 8192)])


class Repeated(ControllerTest):
    def copy_of(self, name, source):
        return self.call("Controller.CreateVolume", name=name, volume_capabilities=[block()],
                         volume_content_source=source).volume

    def test_a_copy_whose_source_is_gone_meanwhile(self):
        volume = self.create()
        cut = self.snapshot(volume)
        source = {"snapshot": {"snapshot_id": cut}}
        made = self.copy_of("restored", source)
        self.addCleanup(self.call, "Controller.DeleteVolume", volume_id=made.volume_id)
        self.delete_snapshot(cut)
        again = self.copy_of("restored", source)
        self.assertEqual(again, made)
        self.assertEqual(again.content_source.snapshot.snapshot_id, cut)
        self.refuses(Code.NOT_FOUND, "Controller.CreateVolume", name="another",
                     volume_capabilities=[block()], volume_content_source=source)
        clone = self.copy_of("clone", {"volume": {"volume_id": made.volume_id}})
        self.addCleanup(self.call, "Controller.DeleteVolume", volume_id=clone.volume_id)
        self.call("Controller.DeleteVolume", volume_id=made.volume_id)
        self.assertEqual(self.copy_of("clone", {"volume": {"volume_id": made.volume_id}}), clone)

    def test_a_snapshot_whose_volume_is_gone_meanwhile(self):
        volume = self.call("Controller.CreateVolume", name="short lived",
                           volume_capabilities=[block()],
                           capacity_range={"required_bytes": SMALL}).volume.volume_id
        self.write(volume, 0, b"kept")
        cut = self.snapshot(volume, "kept")
        self.call("Controller.DeleteVolume", volume_id=volume)
        again = self.call("Controller.CreateSnapshot", name="kept", source_volume_id=volume)
        self.assertEqual(again.snapshot.snapshot_id, cut)
        self.refuses(Code.NOT_FOUND, "Controller.CreateSnapshot", name="new",
                     source_volume_id=volume)
        self.assertEqual(self.snapshots(source_volume_id=volume), [cut])
        self.assertEqual(self.snapshots(snapshot_id=cut), [cut])
        self.assertEqual(self.call("Controller.GetSnapshot", snapshot_id=cut).snapshot,
                         again.snapshot)
        told = self.stream("SnapshotMetadata.GetMetadataAllocated", snapshot_id=cut)
        self.assertEqual(told[0].block_metadata[0].byte_offset, 0)
        restored = self.copy_of("from it", {"snapshot": {"snapshot_id": cut}})
        self.addCleanup(self.call, "Controller.DeleteVolume", volume_id=restored.volume_id)
        self.assertEqual(restored.capacity_bytes, SMALL)

    def test_with_other_wishes(self):
        wanted = {"name": "one", "volume_capabilities": [block()],
                  "capacity_range": {"required_bytes": SMALL, "limit_bytes": SMALL}}
        made = self.call("Controller.CreateVolume", **wanted).volume
        self.addCleanup(self.call, "Controller.DeleteVolume", volume_id=made.volume_id)
        for other in ({"capacity_range": {"required_bytes": 2 * SMALL}},
                      {"capacity_range": {"limit_bytes": SMALL // 2}},
                      {"parameters": {"pool": "default"}},
                      {"volume_content_source": {"volume": {"volume_id": made.volume_id}}}):
            self.refuses(Code.ALREADY_EXISTS, "Controller.CreateVolume", **{**wanted, **other})
        # What the provisioner adds for its own use makes no difference.
        again = self.call("Controller.CreateVolume", **wanted, parameters={
            "csi.storage.k8s.io/pvc/name": "claim"}).volume
        self.assertEqual(again, made)
        self.assertEqual(self.volumes(), [made.volume_id])

    def test_deletes(self):
        volume = self.create()
        cut = self.snapshot(volume)
        for _ in range(3):
            self.delete_snapshot(cut)
        self.refuses(Code.NOT_FOUND, "Controller.GetSnapshot", snapshot_id=cut)
        self.assertEqual(self.snapshots(), [])
        for _ in range(3):
            self.call("Controller.DeleteVolume", volume_id=volume)
        self.refuses(Code.NOT_FOUND, "Controller.ControllerGetVolume", volume_id=volume)

    def lose_record(self, key):
        """As a flipped bit of its key does."""
        with contextlib.closing(sqlite3.connect(self.pool / "catalogue.db")) as catalogue:
            with catalogue:
                done = catalogue.execute("DELETE FROM kv WHERE k=?", (key.encode(),))
                self.assertEqual(done.rowcount, 1)

    def test_a_delete_of_what_has_data_and_no_record_fails(self):
        """It exists: pool check brings it back."""
        volume = self.create()
        cut = self.snapshot(volume)
        volume_key, snapshot_key = (f"{kind}/{number:016x}" for kind, number in (
            ("v", int(volume.split("-")[1], 16)), ("s", int(cut.split("-")[2]))))
        for key in (volume_key, snapshot_key):
            self.lose_record(key)
            self.refuses(Code.DATA_LOSS, "Controller.DeleteSnapshot", snapshot_id=cut)
            if key == volume_key:
                self.refuses(Code.DATA_LOSS, "Controller.DeleteVolume", volume_id=volume)
            subprocess.run([BIN, "--pool", self.pool, "pool", "check", "--repair", "--quiet"],
                           check=True)
        for _ in range(2):
            self.delete_snapshot(cut)
            self.call("Controller.DeleteVolume", volume_id=volume)
        self.assertEqual(self.everything(), ([], []))

    def test_a_name_may_be_used_again_after_a_delete(self):
        first = self.create(name="again")
        cut = self.snapshot(first, "again")
        self.delete_snapshot(cut)
        second = self.create()
        other = self.snapshot(second, "again")
        self.assertNotEqual(other, cut)
        self.call("Controller.DeleteVolume", volume_id=first)
        self.assertNotEqual(self.create(name="again"), first)


class CopiedPool(ControllerTest):
    """A pool and a copy of it, which has the same volumes and snapshots of its own."""

    @classmethod
    def make_pool(cls, name):
        pool = super().make_pool(name)
        copy = cls.scratch / "pool-copy"
        cls.cairn(pool, "volume", "create", "data", "--size", "1M")
        subprocess.run(["cp", "-a", pool, copy], check=True)
        cls.cairn(copy, "volume", "modify", "data", "--retention", "1ms")
        cls.cairn(copy, "snapshot", "create", "data@first")
        cls.cairn(copy, "snapshot", "delete", "data@first")
        time.sleep(0.01)
        cls.cairn(copy, "pool", "gc")
        cls.driver_args = ("--pools", f"copy={copy}")
        return pool

    @staticmethod
    def cairn(pool, *args):
        subprocess.run([BIN, "--pool", pool, "--quiet", *args], check=True)

    def change(self, sql, *values):
        with contextlib.closing(sqlite3.connect(self.pool / "catalogue.db")) as catalogue:
            with catalogue:
                return catalogue.execute(sql, values).fetchall()

    def test_what_has_expired_in_a_copy_is_not_deleted(self):
        volume = self.volumes()[0]
        cut = self.snapshot(volume)
        self.assertTrue(cut.endswith("-1"))
        key = f"s/{1:016x}".encode()
        (record,), = self.change("SELECT v FROM kv WHERE k=?", key)
        self.change("UPDATE kv SET v=? WHERE k=?", record + b"!", key)
        self.refuses(Code.DATA_LOSS, "Controller.DeleteSnapshot", snapshot_id=cut)
        self.change("UPDATE kv SET v=? WHERE k=?", record, key)
        self.delete_snapshot(cut)


class Requests(ControllerTest):
    def test_what_is_not_offered_is_refused(self):
        none = {"access_mode": {"mode": "SINGLE_NODE_WRITER"}}
        bad = [[], [none], [{"block": {}}], [block("UNKNOWN")], [block("MULTI_NODE_MULTI_WRITER")],
               [block("MULTI_NODE_READER_ONLY")], [block("MULTI_NODE_SINGLE_WRITER")],
               [mount("ntfs")], [mount("EXT4")], [block(), mount("vfat")],
               [{"block": {}, "access_mode": {"mode": 77}}]]
        volume = self.create()
        for capabilities in bad:
            self.refuses(Code.INVALID_ARGUMENT, "Controller.CreateVolume", name="bad",
                         volume_capabilities=capabilities)
            if not capabilities:
                continue
            told = self.call("Controller.ValidateVolumeCapabilities", volume_id=volume,
                             volume_capabilities=capabilities)
            self.assertFalse(told.HasField("confirmed"), capabilities)
            self.assertTrue(told.message)
            self.refuses(Code.INVALID_ARGUMENT, "Controller.ControllerPublishVolume",
                         volume_id=volume, node_id=NODE, volume_capability=capabilities[-1])
        good = [block(), mount(), mount("xfs"), block("SINGLE_NODE_READER_ONLY"),
                block("SINGLE_NODE_MULTI_WRITER"), mount("ext4", "SINGLE_NODE_SINGLE_WRITER")]
        told = self.call("Controller.ValidateVolumeCapabilities", volume_id=volume,
                         volume_capabilities=good)
        self.assertEqual(len(told.confirmed.volume_capabilities), len(good))
        self.assertEqual(self.volumes(), [volume])

    def test_unknown_parameters_are_refused_and_leave_nothing(self):
        volume = self.create()
        many = {f"key {n}": "v" for n in range(100)}
        for parameters in ({"colour": "red"}, {"pool": "none"}, {"": ""}, {"Pool": "default"},
                           many, {"pool": "x" * 5000}):
            self.refuses(Code.INVALID_ARGUMENT, "Controller.CreateVolume", name="bad",
                         volume_capabilities=[block()], parameters=parameters)
            self.refuses(Code.INVALID_ARGUMENT, "Controller.GetCapacity", parameters=parameters)
            self.refuses(Code.INVALID_ARGUMENT, "Controller.CreateSnapshot", name="bad",
                         source_volume_id=volume, parameters=parameters)
            self.refuses(Code.INVALID_ARGUMENT, "GroupController.CreateVolumeGroupSnapshot",
                         name="bad", source_volume_ids=[volume], parameters=parameters)
        for mutable in ({"colour": "red"}, {"retention": ""}, {"retention": "soon"},
                        {"retention": "-1s"}, {"retention": "99999999999999d"},
                        {"granularity": "3"}, {"granularity": "1"}, {"granularity": "16E"},
                        {"granularity": "-4K"}, {"granularity": "12K"}, {"Retention": "1d"},
                        {"retention": "1d", "granularity": "5000"}, many):
            with self.subTest(mutable=mutable):
                self.refuses(Code.INVALID_ARGUMENT, "Controller.ControllerModifyVolume",
                             volume_id=volume, mutable_parameters=mutable)
                self.refuses(Code.INVALID_ARGUMENT, "Controller.CreateVolume", name="bad",
                             volume_capabilities=[block()], mutable_parameters=mutable)
        self.assertEqual(self.everything(), ([volume], []))
        made = self.call("Controller.CreateSnapshot", name="good", source_volume_id=volume,
                         parameters={"csi.storage.k8s.io/volumesnapshot/name": "s"}).snapshot
        self.delete_snapshot(made.snapshot_id)
        info = self.info(volume)
        self.assertEqual(info, self.info(self.create()), "a refused change has changed something")

    def info(self, volume):
        text = subprocess.run([BIN, "--pool", self.pool, "volume", "info", volume], check=True,
                              capture_output=True, text=True).stdout
        return [line for line in text.splitlines() if line.startswith(("retention", "granularity"))]

    def test_a_source_that_names_nothing_is_refused(self):
        for source in ({}, {"snapshot": {}}, {"volume": {}}):
            self.refuses(Code.INVALID_ARGUMENT, "Controller.CreateVolume", name="bad",
                         volume_capabilities=[block()], volume_content_source=source)

    def test_publishing_is_of_one_kind_at_a_time(self):
        volume = self.create()
        wanted = {"volume_id": volume, "node_id": NODE, "volume_capability": block()}
        self.call("Controller.ControllerPublishVolume", **wanted)
        self.addCleanup(self.call, "Controller.ControllerUnpublishVolume", volume_id=volume)
        self.call("Controller.ControllerPublishVolume", **wanted)
        for other in ({"readonly": True}, {"volume_capability": mount()},
                      {"volume_capability": block("SINGLE_NODE_MULTI_WRITER")}):
            self.refuses(Code.ALREADY_EXISTS, "Controller.ControllerPublishVolume",
                         **{**wanted, **other})
        self.refuses(Code.NOT_FOUND, "Controller.ControllerPublishVolume",
                     **{**wanted, "node_id": "elsewhere"})
        self.refuses(Code.FAILED_PRECONDITION, "Controller.DeleteVolume", volume_id=volume)
        told = self.call("Controller.ControllerGetVolume", volume_id=volume).status
        self.assertEqual(list(told.published_node_ids), [NODE])
        self.call("Controller.ControllerUnpublishVolume", volume_id=volume, node_id="elsewhere")
        told = self.call("Controller.ControllerGetVolume", volume_id=volume).status
        self.assertEqual(list(told.published_node_ids), [NODE])
        for _ in range(2):
            self.call("Controller.ControllerUnpublishVolume", volume_id=volume, node_id=NODE)
        told = self.call("Controller.ControllerGetVolume", volume_id=volume).status
        self.assertEqual(list(told.published_node_ids), [])


class Pages(ControllerTest):
    def pages(self, call, max_entries):
        token, found = "", []
        while True:
            page = self.call(call, max_entries=max_entries, starting_token=token)
            self.assertLessEqual(len(page.entries), max_entries or len(page.entries))
            found.append([e.snapshot.snapshot_id if "Snapshots" in call else e.volume.volume_id
                          for e in page.entries])
            token = page.next_token
            if not token:
                return found

    def test_every_size_of_page_gives_all_and_each_once(self):
        volumes = [self.create() for _ in range(5)]
        cuts = [self.snapshot(volume) for volume in volumes for _ in range(2)]
        for call, all_of_them in (("Controller.ListVolumes", volumes),
                                  ("Controller.ListSnapshots", cuts)):
            whole = self.pages(call, 0)
            self.assertEqual([sorted(page) for page in whole], [sorted(all_of_them)])
            for most in (1, 2, 3, 4, 5, 9, 10, 11, INT32_MAX):
                self.assertEqual(sum(self.pages(call, most), []), whole[0], (call, most))
            for most in (-1, -INT32_MAX - 1):
                self.refuses(Code.INVALID_ARGUMENT, call, max_entries=most)

    def test_a_token_outlives_what_it_was_made_of(self):
        for _ in range(4):
            self.create()
        ids = self.volumes()
        token = self.call("Controller.ListVolumes", max_entries=2).next_token
        self.call("Controller.DeleteVolume", volume_id=ids[1])
        self.call("Controller.DeleteVolume", volume_id=ids[2])
        rest = self.call("Controller.ListVolumes", starting_token=token)
        self.assertEqual([e.volume.volume_id for e in rest.entries], ids[3:])
        self.assertEqual(rest.next_token, "")
        cuts = [self.snapshot(ids[0]) for _ in range(4)]
        token = self.call("Controller.ListSnapshots", max_entries=2).next_token
        self.delete_snapshot(cuts[1])
        self.delete_snapshot(cuts[2])
        rest = self.call("Controller.ListSnapshots", starting_token=token)
        self.assertEqual([e.snapshot.snapshot_id for e in rest.entries], cuts[3:])

    def test_other_tokens_are_aborted(self):
        volume = self.create()
        for _ in range(2):
            self.snapshot(volume)
        self.create()
        of_volumes = self.call("Controller.ListVolumes", max_entries=1).next_token
        of_snapshots = self.call("Controller.ListSnapshots", max_entries=1).next_token
        self.assertTrue(of_volumes and of_snapshots)
        odd = ("x", ":", "0:", "7:" + volume, "0:" + "v" * 5000, "-1:" + volume, volume, "9" * 99)
        for token in (*odd, of_snapshots):
            self.refuses(Code.ABORTED, "Controller.ListVolumes", starting_token=token)
        for token in (*odd, of_volumes):
            self.refuses(Code.ABORTED, "Controller.ListSnapshots", starting_token=token)


class Busy(ControllerTest):
    """A volume that somebody else is at work on, here by its lock in the pool."""

    def hold(self, volume):
        file = open(self.pool / "lock", "r+b")  # pylint: disable=consider-using-with
        self.addCleanup(file.close)
        slot = 1 << 60 | int(volume[4:], 16) & (1 << 60) - 1
        fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, slot, 1, 0))
        return file

    def calls_on(self, volume):
        return (("Controller.CreateSnapshot", {"source_volume_id": volume, "name": self.name()}),
                ("Controller.ControllerExpandVolume",
                 {"volume_id": volume, "capacity_range": {"required_bytes": 2 * SMALL}}),
                ("Controller.ControllerModifyVolume",
                 {"volume_id": volume, "mutable_parameters": {"retention": "1d"}}),
                ("Controller.CreateVolume",
                 {"name": self.name(), "volume_capabilities": [block()],
                  "volume_content_source": {"volume": {"volume_id": volume}}}),
                ("GroupController.CreateVolumeGroupSnapshot",
                 {"name": self.name(), "source_volume_ids": [volume]}),
                ("Controller.DeleteVolume", {"volume_id": volume}))

    def test_calls_on_it_are_aborted_and_no_other_waits(self):
        busy, idle = self.create(), self.create()
        held = self.hold(busy)
        for (name, fields), (_, others) in zip(self.calls_on(busy), self.calls_on(idle)):
            self.refuses(Code.ABORTED, name, **fields)
            self.insist(name, **others)
        self.assertEqual(self.snapshots(source_volume_id=busy), [])
        held.close()
        for name, fields in self.calls_on(busy):
            self.insist(name, **fields)
        for volume in self.volumes():
            self.insist("Controller.DeleteVolume", volume_id=volume)
        for group in {e.snapshot.group_snapshot_id
                      for e in self.call("Controller.ListSnapshots").entries} - {""}:
            self.delete_group(group)
        for cut in self.snapshots():
            self.delete_snapshot(cut)

    def test_a_lock_that_is_held_for_a_while_is_waited_for(self):
        """As housekeeping holds it after a driver with many callers was killed."""
        volume = self.create()
        for _ in range(5):  # a slow machine may release it too late
            held = self.hold(volume)
            release = threading.Timer(1, held.close)
            release.start()
            try:
                cut = self.call("Controller.CreateSnapshot", source_volume_id=volume,
                                name=self.name()).snapshot.snapshot_id
            except Failed as failed:
                self.assertEqual(failed.code, Code.ABORTED, failed)
                continue
            finally:
                release.join()
            self.delete_snapshot(cut)
            return
        self.fail("always aborted")

    def test_a_group_with_a_busy_volume_is_aborted_whole(self):
        volumes = [self.create() for _ in range(3)]
        held = self.hold(volumes[1])
        wanted = {"name": "busy group", "source_volume_ids": volumes}
        self.refuses(Code.ABORTED, "GroupController.CreateVolumeGroupSnapshot", **wanted)
        self.assertEqual(self.snapshots(), [])
        held.close()
        made = self.call("GroupController.CreateVolumeGroupSnapshot", **wanted).group_snapshot
        self.assertEqual(len(made.snapshots), 3)
        self.delete_group(made.group_snapshot_id)

    def test_the_largest_of_many_expansions_counts(self):
        volume = self.create()

        def expand(size):
            return self.insist("Controller.ControllerExpandVolume", volume_id=volume,
                               capacity_range={"required_bytes": size}).capacity_bytes

        sizes = [SMALL + n * MIB for n in range(40)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for wanted, got in zip(sizes, pool.map(expand, sizes)):
                self.assertGreaterEqual(got, wanted)
        got = self.call("Controller.ControllerGetVolume", volume_id=volume).volume
        self.assertEqual(got.capacity_bytes, sizes[-1])

    def test_many_calls_on_one_name_make_one_thing(self):
        def run(name, /, **fields):
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                return list(pool.map(lambda _: self.insist(name, **fields), range(64)))

        def one(answers, id_of):
            self.assertEqual(len({id_of(answer) for answer in answers}), 1)
            return id_of(answers[0])

        volume = one(run("Controller.CreateVolume", name="raced", volume_capabilities=[block()]),
                     lambda made: made.volume.volume_id)
        cut = one(run("Controller.CreateSnapshot", name="raced", source_volume_id=volume),
                  lambda made: made.snapshot.snapshot_id)
        group = one(run("GroupController.CreateVolumeGroupSnapshot", name="raced",
                        source_volume_ids=[volume]),
                    lambda made: made.group_snapshot.group_snapshot_id)
        self.assertEqual(self.volumes(), [volume])
        self.assertEqual(len(self.snapshots()), 2)
        run("GroupController.DeleteVolumeGroupSnapshot", group_snapshot_id=group)
        run("Controller.DeleteSnapshot", snapshot_id=cut)
        run("Controller.DeleteVolume", volume_id=volume)
        self.assertEqual(self.everything(), ([], []))


class Changes(ControllerTest):
    """Mutable parameters, seen in what SnapshotMetadata tells."""

    def modify(self, volume, **parameters):
        self.call("Controller.ControllerModifyVolume", volume_id=volume,
                  mutable_parameters=parameters)

    def cut_after_write(self, volume, offset=0):
        self.write(volume, offset, os.urandom(10))
        return self.snapshot(volume)

    def test_granularity_is_that_of_the_changes_told(self):
        volume = self.create(mutable_parameters={"granularity": "16K"})
        cuts = [self.snapshot(volume), self.cut_after_write(volume, 70000)]
        self.assertEqual(self.delta(*cuts), [(65536, 16384)])
        self.modify(volume, granularity="64K")
        cuts.append(self.cut_after_write(volume, 70000))
        self.assertEqual(self.delta(*cuts[1:]), [(65536, 65536)])
        self.modify(volume, granularity="0")
        cuts.append(self.cut_after_write(volume, 70000))
        self.assertEqual(self.delta(*cuts[2:]), [(69632, 4096)])

    def test_a_deleted_base_answers_for_its_retention_time_only(self):
        volume = self.create()
        kept, gone, target = [self.cut_after_write(volume, n * MIB) for n in range(3)]
        self.delete_snapshot(kept)
        self.assertEqual(self.delta(kept, target), [(MIB, 4096), (2 * MIB, 4096)])
        self.modify(volume, retention="1ms")
        self.delete_snapshot(gone)
        time.sleep(0.05)
        self.delete_snapshot(self.cut_after_write(volume))  # what has expired goes with a change
        with self.assertRaises(Failed) as caught:
            self.delta(gone, target)
        self.assertEqual(caught.exception.code, Code.FAILED_PRECONDITION)
        self.assertIn("do a full backup", caught.exception.text)
        self.assertEqual(self.delta(kept, target), [(MIB, 4096), (2 * MIB, 4096)])
        # As a target it is not there, and never was one to be deleted again.
        with self.assertRaises(Failed) as caught:
            self.delta(kept, gone)
        self.assertEqual(caught.exception.code, Code.NOT_FOUND)
        self.delete_snapshot(gone)

    def test_a_group_goes_though_members_went_by_hand(self):
        volumes = [self.create() for _ in range(2)]
        for volume in volumes:
            self.modify(volume, retention="1ms")
        group = self.call("GroupController.CreateVolumeGroupSnapshot", name="half gone",
                          source_volume_ids=volumes).group_snapshot
        ids = [s.snapshot_id for s in group.snapshots]
        subprocess.run([BIN, "--pool", self.pool, "snapshot", "delete", ids[0]], check=True,
                       capture_output=True)
        time.sleep(0.05)
        self.delete_snapshot(self.cut_after_write(group.snapshots[0].source_volume_id))
        told = self.call("GroupController.GetVolumeGroupSnapshot",
                         group_snapshot_id=group.group_snapshot_id).group_snapshot
        self.assertEqual([s.snapshot_id for s in told.snapshots], ids[1:])
        for wrong in (ids[:1], ids[:1] * 2, [*ids, ids[0]]):
            self.refuses(Code.INVALID_ARGUMENT, "GroupController.DeleteVolumeGroupSnapshot",
                         snapshot_ids=wrong, group_snapshot_id=group.group_snapshot_id)
        again = self.call("GroupController.CreateVolumeGroupSnapshot", name="half gone",
                          source_volume_ids=volumes).group_snapshot
        self.assertEqual(again, told)
        self.insist("GroupController.DeleteVolumeGroupSnapshot", snapshot_ids=ids,
                    group_snapshot_id=group.group_snapshot_id)
        self.assertEqual(self.snapshots(), [])
        self.refuses(Code.NOT_FOUND, "GroupController.GetVolumeGroupSnapshot",
                     group_snapshot_id=group.group_snapshot_id)

    def test_any_number_of_results_is_taken(self):
        volume = self.create()
        base = self.snapshot(volume)
        for offset in range(0, SMALL, 64 << 10):
            self.write(volume, offset, b"x")
        target = self.snapshot(volume)
        whole = self.delta(base, target)
        self.assertEqual(len(whole), SMALL // (64 << 10))
        for most in (0, 1, 2, 1023, 1024, 1025, INT32_MAX):
            self.assertEqual(self.delta(base, target, max_results=most), whole)
        for bad in ({"max_results": -1}, {"max_results": -INT32_MAX - 1},
                    {"starting_offset": -1}, {"starting_offset": -INT64_MAX - 1}):
            with self.assertRaises(Failed) as caught:
                self.delta(base, target, **bad)
            self.assertEqual(caught.exception.code, Code.INVALID_ARGUMENT)
        self.assertEqual(self.delta(base, target, starting_offset=SMALL), [])
        for beyond in (SMALL + 1, INT64_MAX):
            with self.assertRaises(Failed) as caught:
                self.delta(base, target, starting_offset=beyond)
            self.assertEqual(caught.exception.code, Code.OUT_OF_RANGE)


if __name__ == "__main__":
    main()
