#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cairn driver` as a service: sockets, signals, metrics, registration, options."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))

# pylint: disable=wrong-import-position
from cairncli import BIN, EXISTS, INVALID, MIB, NOT_FOUND, TIMEOUT, USAGE, main
from csidriver import (MODULES, NODE, SMALL, Code, DriverTest, Peer, block, mount,
                       service_of, wait_until)
from processes import free_port

SECRET = "hunter2-never-to-be-seen"
KEY = "topology.cairn.csi.dev/node"
GROUP = 65533 if os.geteuid() == 0 else os.getegid()


class ServiceTest(DriverTest):
    backend = "copy"

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}",
                                        timeout=TIMEOUT) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


    def check_space(self, pools):
        """One series for each of these pools and kinds and no other, with the size of the pool's own
        filesystem, and what is free of it. `pools` are directories by name."""
        found = re.findall(r'(?m)^cairn_pool_bytes\{pool="([^"]*)",kind="([^"]*)"\} (\S+)$',
                           self.get("/metrics")[1])
        self.assertEqual(sorted((pool, kind) for pool, kind, _ in found),
                         sorted((pool, kind) for pool in pools for kind in ("free", "total")))
        space = {(pool, kind): float(value) for pool, kind, value in found}
        for pool, directory in pools.items():
            disk = os.statvfs(directory)
            self.assertEqual(space[pool, "total"], disk.f_blocks * disk.f_frsize)
            self.assertGreater(space[pool, "free"], 0)
            self.assertGreaterEqual(space[pool, "total"], space[pool, "free"])


class Running(ServiceTest):
    @classmethod
    def setUpClass(cls):
        cls.port = free_port()
        cls.driver_args = ("--http-endpoint", f"127.0.0.1:{cls.port}", "--topology",
                           "--max-volumes", "2", "--endpoint-group", str(GROUP))
        super().setUpClass()

    def test_metrics_and_health(self):
        self.create()
        self.assertEqual(self.get("/healthz")[0], 200)
        self.assertEqual(self.get("/readyz")[0], 200)
        status, text = self.get("/metrics")
        self.assertEqual(status, 200)
        self.assertRegex(text, r'cairn_csi_calls_total{method="/csi.v1.Controller/CreateVolume",'
                               r'code="OK"} [1-9]')
        self.check_space({"default": self.pool})
        self.assertIn("cairn_csi_call_seconds_bucket", text)
        self.assertRegex(text, r'(?m)^csi_plugin_operations_seconds_count\{driver_name="[^"]+",'
                         r'method_name="/csi.v1.Controller/CreateVolume",grpc_status_code="OK"\} [1-9]')
        self.assertRegex(text, r'(?m)^cairn_build_info\{version="\d[^"]*",compiler="[^"]+"\} 1$')
        self.refuses(Code.NOT_FOUND, "Controller.ControllerGetVolume",
                     volume_id="vol-0123456789abcdef")
        self.assertRegex(self.get("/metrics")[1],
                         r'cairn_csi_calls_total{method="/csi.v1.Controller/ControllerGetVolume",'
                         r'code="NOT_FOUND"} [1-9]')
        self.assertEqual(self.get("/nothing")[0], 404)
        health = self.driver.peer.channel.unary_unary("/grpc.health.v1.Health/Check")
        self.assertEqual(health(b"", timeout=TIMEOUT), b"\x08\x01")  # SERVING

    def test_only_its_group_may_use_the_socket(self):
        found = self.driver.socket.stat()
        self.assertEqual((found.st_gid, found.st_mode & 0o777), (GROUP, 0o660))

    def test_no_caller_adds_to_what_is_counted(self):
        def series():
            return {line.rsplit(" ", 1)[0] for line in self.get("/metrics")[1].splitlines()}
        before = None
        for n in range(50):
            odd = self.driver.peer.channel.unary_unary(f"/csi.v1.Odd{n}/Method")
            with self.assertRaises(grpc.RpcError):
                odd(b"", timeout=TIMEOUT, metadata=[(f"x-odd-{n}", "v")])
            self.get(f"/odd{n}?metrics")
            self.refuses(Code.NOT_FOUND, "Controller.GetSnapshot", snapshot_id=f"odd {n}")
            # A histogram shows a method's code from its first call on.
            before = before or series()
        self.assertEqual(series() - before, set())

    def test_volumes_are_of_this_node(self):
        info = self.call("Node.NodeGetInfo")
        self.assertEqual((info.node_id, info.max_volumes_per_node), (NODE, 2))
        self.assertEqual(dict(info.accessible_topology.segments), {KEY: NODE})
        here, there = {"segments": {KEY: NODE}}, {"segments": {KEY: "elsewhere"}}
        made = self.call("Controller.CreateVolume", name="here", volume_capabilities=[block()],
                         accessibility_requirements={"requisite": [there, here]}).volume
        self.assertEqual([dict(t.segments) for t in made.accessible_topology], [{KEY: NODE}])
        self.call("Controller.DeleteVolume", volume_id=made.volume_id)
        self.refuses(Code.RESOURCE_EXHAUSTED, "Controller.CreateVolume", name="there",
                     volume_capabilities=[block()],
                     accessibility_requirements={"requisite": [there]})
        self.assertGreater(self.call("Controller.GetCapacity",
                                     accessible_topology=here).available_capacity, 0)
        self.assertEqual(self.call("Controller.GetCapacity",
                                   accessible_topology=there).available_capacity, 0)
        for place in (here, there):  # the scheduler looks at this alone
            found = self.call("Controller.GetCapacity", accessible_topology=place)
            self.assertEqual(found.maximum_volume_size.value, found.available_capacity)
        kinds = [c.service.type for c in self.call("Identity.GetPluginCapabilities").capabilities]
        self.assertIn(2, kinds)

    def test_a_group_over_several_nodes_says_what_is_where(self):
        here = self.create()
        there = "vol-0123456789abcdef"
        for volumes in ([here, there], [there, here]):
            text = self.refuses(Code.FAILED_PRECONDITION, "GroupController.CreateVolumeGroupSnapshot",
                                name="group", source_volume_ids=volumes)
            self.assertIn(f"volume '{here}' is on node '{NODE}' and '{there}' is not", text)
        self.refuses(Code.NOT_FOUND, "GroupController.CreateVolumeGroupSnapshot", name="group",
                     source_volume_ids=[there])

    def test_no_more_volumes_are_published_than_allowed(self):
        volumes = [self.create() for _ in range(3)]
        for volume in volumes[:2]:
            self.call("Controller.ControllerPublishVolume", volume_id=volume, node_id=NODE,
                      volume_capability=block())
            self.addCleanup(self.call, "Controller.ControllerUnpublishVolume", volume_id=volume,
                            node_id=NODE)
        third = {"volume_id": volumes[2], "node_id": NODE, "volume_capability": block()}
        self.refuses(Code.RESOURCE_EXHAUSTED, "Controller.ControllerPublishVolume", **third)
        self.call("Controller.ControllerUnpublishVolume", volume_id=volumes[0], node_id=NODE)
        self.call("Controller.ControllerPublishVolume", **third)
        self.call("Controller.ControllerUnpublishVolume", volume_id=volumes[2], node_id=NODE)

    def test_secrets_are_never_logged(self):
        secrets = {"password": SECRET}
        for service in MODULES:
            for method in service_of(service).methods:
                if "secrets" not in method.input_type.fields_by_name:
                    continue
                name = f"{service}.{method.name}"
                self.assertIsNotNone(self.driver.peer.method(name))
                known = method.input_type.fields_by_name
                fields = {k: v for k, v in {
                    "name": "secret", "volume_id": "vol-0123456789abcdef",
                    "volume_capabilities": [block()], "volume_capability": mount()}.items()
                    if k in known}
                run = self.stream if method.server_streaming else self.call
                try:
                    run(name, secrets=secrets, **fields)
                except Exception as failed:  # pylint: disable=broad-except
                    self.assertNotIn(SECRET, str(failed))
        self.assertNotIn(SECRET, self.driver.log.read_text(encoding="utf-8"))
        for volume in self.call("Controller.ListVolumes").entries:
            if volume.volume.volume_id:
                self.call("Controller.DeleteVolume", volume_id=volume.volume.volume_id)

    def test_a_second_driver_on_the_socket_is_refused_and_the_first_goes_on(self):
        second = subprocess.run(self.driver.command[:-len(self.driver_args)], capture_output=True, text=True,
                                timeout=TIMEOUT)
        self.assertEqual(second.returncode, EXISTS, second.stderr)
        self.assertIn("another process", second.stderr)
        self.call("Identity.Probe")

    def test_names_are_not_ids(self):
        volume = self.create()
        self.refuses(Code.INVALID_ARGUMENT, "Controller.CreateVolume", name=volume,
                     volume_capabilities=[block()], capacity_range={"required_bytes": SMALL})


class Pools(ServiceTest):
    @classmethod
    def make_pool(cls, name):
        cls.other = super().make_pool("pool-other")
        cls.port = free_port()
        cls.driver_args = ("--pools", f"other={cls.other}", "--http-endpoint",
                           f"127.0.0.1:{cls.port}")
        return super().make_pool(name)

    def names_in(self, pool):
        return subprocess.run([BIN, "--pool", pool, "volume", "list"], check=True,
                              capture_output=True, text=True).stdout

    def test_a_pool_of_any_name_is_counted_once(self):
        self.check_space({"default": self.pool, "other": self.other})

    def test_a_parameter_chooses_the_pool(self):
        first, second = self.create(name="first"), self.create(name="second",
                                                               parameters={"pool": "other"})
        self.assertIn("first", self.names_in(self.pool))
        self.assertNotIn("second", self.names_in(self.pool))
        self.assertIn("second", self.names_in(self.other))
        self.refuses(Code.INVALID_ARGUMENT, "Controller.CreateVolume", name="third",
                     volume_capabilities=[block()], parameters={"pool": "none"})
        self.refuses(Code.ALREADY_EXISTS, "Controller.CreateVolume", name="first",
                     volume_capabilities=[block()], parameters={"pool": "other"},
                     capacity_range={"required_bytes": SMALL})
        self.refuses(Code.FAILED_PRECONDITION, "GroupController.CreateVolumeGroupSnapshot",
                     name="both", source_volume_ids=[first, second])
        listed = [e.volume.volume_id for e in self.call("Controller.ListVolumes").entries]
        self.assertEqual(sorted(listed), sorted([first, second]))
        page = self.call("Controller.ListVolumes", max_entries=1)
        rest = self.call("Controller.ListVolumes", starting_token=page.next_token)
        self.assertEqual([e.volume.volume_id for e in [*page.entries, *rest.entries]], listed)
        cut = self.snapshot(second, "cut")
        self.refuses(Code.ALREADY_EXISTS, "Controller.CreateSnapshot", source_volume_id=first,
                     name="cut")
        one = {"snapshot_id": cut}
        self.assertEqual(len(self.call("Controller.ListSnapshots", **one).entries), 1)
        self.assertEqual(len(self.call("Controller.ListSnapshots", source_volume_id=first,
                                       **one).entries), 0)
        self.assertEqual(len(self.stream("SnapshotMetadata.GetMetadataAllocated", **one)), 1)

    def test_options_are_checked(self):
        link = self.scratch / "link"
        link.symlink_to(self.pool)
        for code, extra in (
                *((INVALID, ["--pools", pools]) for pools in (
                    f"default={self.other}", "x", "", "=x", "x=", f"again={self.pool}",
                    f"again={link}/", f"a={self.other},b={self.other}")),
                (INVALID, ["--fixed-length", "1000"]),
                *((INVALID, ["--driver-name", name]) for name in (
                    "", "9", "a", "a b", ".a", "a.", "a/b", "a" * 64)),
                *((INVALID, ["--node-id", node]) for node in ("", "n" * 257, "a\nb", "\x7f")),
                *((INVALID, ["--topology", "--node-id", node]) for node in (
                    "n" * 64, "a b", "-a", "a.", "ä", "a/b")),
                (INVALID, ["--max-volumes", str(1 << 63)]), (USAGE, ["--max-volumes", "-1"]),
                (INVALID, ["--http-endpoint", "nonsense"]),
                (INVALID, ["--http-endpoint", "127.0.0.1:99999"]),
                (USAGE, ["--drain-time", "soon"]), (USAGE, ["--endpoint", "tcp://127.0.0.1:1"]),
                (USAGE, ["--endpoint", "relative.sock"]),
                (USAGE, ["--endpoint-group", "nobody"]),
                (USAGE, ["--endpoint-group", str((1 << 32) - 1)]),
                (INVALID, ["--endpoint", f"unix:///{'x' * 120}"]),
                (EXISTS, ["--endpoint", f"unix://{self.pool}/cairn.pool"]),
                (NOT_FOUND, ["--endpoint", f"unix://{self.scratch}/none/s"]),
                (NOT_FOUND, ["--pools", f"a={self.scratch}/none"]),
                (USAGE, ["--kubelet-registration-path", "relative"]),
                (NOT_FOUND, ["--kubelet-registration-path", "/x", "--registration-dir",
                             f"{self.scratch}/none"]),
                (USAGE, ["more"])):
            with self.subTest(extra=extra):
                bad = subprocess.run([BIN, "driver", "--pool", self.pool, "--node-id", NODE,
                                      "--endpoint", f"unix://{self.scratch}/other.sock", *extra],
                                     capture_output=True, text=True, timeout=TIMEOUT)
                self.assertEqual(bad.returncode, code, bad.stderr)
                self.assertTrue(bad.stderr.startswith("cairn: "), bad.stderr)
                self.assertFalse((self.scratch / "other.sock").exists())


class FixedLength(ServiceTest):
    driver_args = ("--fixed-length", "64K")

    def test_every_block_has_that_length_or_they_are_extents(self):
        for size, kind in ((SMALL, 1), (SMALL + MIB // 2, 1), (SMALL + 512, 2)):
            volume = self.create(size)
            base = self.snapshot(volume)
            for offset in (0, 70000, SMALL - 4096):
                self.write(volume, offset, b"x" * 100)
            target = self.snapshot(volume)
            messages = self.stream("SnapshotMetadata.GetMetadataDelta", base_snapshot_id=base,
                                   target_snapshot_id=target, starting_offset=5000)
            self.assertEqual({(m.block_metadata_type, m.volume_capacity_bytes)
                              for m in messages}, {(kind, size)})
            found = [(b.byte_offset, b.size_bytes) for m in messages for b in m.block_metadata]
            if kind == 1:
                # The block that the start lies in is reported as a whole.
                self.assertEqual(found, [(0, 65536), (65536, 65536), (SMALL - 65536, 65536)])
            else:
                self.assertTrue(all(end <= size for end in map(sum, found)))


class Registration(ServiceTest):
    @classmethod
    def make_pool(cls, name):
        cls.registry = cls.scratch / "registry"
        cls.registry.mkdir()
        cls.port = free_port()
        cls.driver_args = ("--kubelet-registration-path", "/plugins/cairn/csi.sock",
                           "--registration-dir", str(cls.registry),
                           "--http-endpoint", f"127.0.0.1:{cls.port}")
        return super().make_pool(name)

    def test_the_kubelet_learns_who_it_is_and_says_whether_it_likes_it(self):
        kubelet = Peer(self.registry / "cairn.csi.dev-reg.sock")
        self.addCleanup(kubelet.close)
        info = kubelet.call("Registration.GetInfo")
        self.assertEqual((info.type, info.name, info.endpoint, list(info.supported_versions)),
                         ("CSIPlugin", "cairn.csi.dev", "/plugins/cairn/csi.sock", ["1.0.0"]))
        kubelet.call("Registration.NotifyRegistrationStatus", plugin_registered=True)
        self.assertEqual(self.get("/readyz")[0], 200)
        kubelet.call("Registration.NotifyRegistrationStatus", plugin_registered=False,
                     error="no thanks")
        status, text = self.get("/readyz")
        self.assertEqual(status, 503)
        self.assertIn("kubelet", text)
        self.assertIn("no thanks", self.driver.log.read_text(encoding="utf-8"))


class Condition(ServiceTest):
    """Damage is reported, and no longer when it is repaired."""

    def conditions(self, volume):
        got = self.call("Controller.ControllerGetVolume", volume_id=volume).status
        listed = [e.status for e in self.call("Controller.ListVolumes").entries
                  if e.volume.volume_id == volume]
        self.assertEqual([s.volume_condition for s in listed], [got.volume_condition])
        return got.volume_condition

    def damaged(self, path, volume, words):
        self.assertFalse(self.conditions(volume).abnormal)
        aside = self.scratch / "aside"
        path.rename(aside)
        found = self.conditions(volume)
        self.assertTrue(found.abnormal, path)
        self.assertIn(words, found.message)
        aside.rename(path)
        self.assertFalse(self.conditions(volume).abnormal)

    def test_missing_files_are_told(self):
        volume = self.create()
        other = self.create()
        first = self.snapshot(volume)
        self.write(volume, 0, b"x")
        second = self.snapshot(volume)
        self.stream("SnapshotMetadata.GetMetadataDelta", base_snapshot_id=first,
                    target_snapshot_id=second)
        self.damaged(self.pool / "volumes" / volume / "disk", volume, "the volume's data")
        self.damaged(self.pool / "snapshots" / first / "disk", volume, "snapshot 'object")
        for file in (self.pool / "sets").iterdir():
            self.damaged(file, volume, "change set")
        self.assertFalse(self.conditions(other).abnormal)

    def test_data_that_is_too_short_is_told(self):
        volume = self.create()
        path = self.pool / "volumes" / volume / "disk"
        os.truncate(path, SMALL // 2)
        self.assertIn("bytes of data only", self.conditions(volume).message)
        os.truncate(path, SMALL)
        self.assertFalse(self.conditions(volume).abnormal)


class ReadOnly(Condition):
    backend = "btrfs"
    test_missing_files_are_told = test_data_that_is_too_short_is_told = None

    def remount(self, how):
        """Not under a driver, which has files open for writing."""
        self.driver.stop()
        subprocess.run(["mount", "-o", f"remount,{how}", self.pool / "data"], check=True)
        self.driver.start()

    def test_a_read_only_filesystem_is_told(self):
        volume = self.create()
        self.assertFalse(self.conditions(volume).abnormal)
        self.remount("ro")
        found = self.conditions(volume)
        self.remount("rw")
        self.assertTrue(found.abnormal)
        self.assertIn("read-only", found.message)
        self.assertFalse(self.conditions(volume).abnormal)


class Unread(ServiceTest):
    """A stream of many small messages that its caller does not read."""

    def begin(self):
        volume = self.create()
        for offset in range(0, SMALL, 8 * MIB):
            self.write(volume, offset, os.urandom(8 * MIB))
        cut = self.snapshot(volume)
        reader = Peer(self.driver.socket, ("grpc.http2.bdp_probe", 0),
                      ("grpc.http2.lookahead_bytes", 65535))
        self.addCleanup(reader.close)
        return reader.begin_stream("SnapshotMetadata.GetMetadataAllocated", snapshot_id=cut,
                                   max_results=1)


class Ending(Unread):
    driver_args = ("--fixed-length", "512", "--drain-time", "10m")

    def test_a_slow_stream_ends_whole_before_the_driver_does(self):
        stream = self.begin()
        next(stream)
        self.driver.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in self.driver.log.read_text(encoding="utf-8"))
        self.assertEqual(sum(len(m.block_metadata) for m in stream) + 1, SMALL // 512)
        self.assertEqual(stream.code(), grpc.StatusCode.OK)
        self.assertEqual(self.driver.process.wait(TIMEOUT), 0)
        self.assertFalse(self.driver.socket.exists())
        self.driver.peer.close()
        self.driver.start()


class CutOff(Unread):
    driver_args = ("--fixed-length", "512", "--drain-time", "200ms")

    def test_a_stream_that_outlasts_the_drain_time_is_cut_off_and_not_ok(self):
        stream = self.begin()
        next(stream)
        self.driver.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.driver.process.wait(TIMEOUT), 0)
        told = 1
        with self.assertRaises(grpc.RpcError):
            for message in stream:
                told += len(message.block_metadata)
        self.assertEqual(stream.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertLess(told, SMALL // 512)
        self.assertIn("cut off", self.driver.log.read_text(encoding="utf-8"))
        self.assertFalse(self.driver.socket.exists())
        self.driver.peer.close()
        self.driver.start()


if __name__ == "__main__":
    main()
