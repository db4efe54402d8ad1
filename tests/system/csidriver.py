# SPDX-License-Identifier: Apache-2.0
"""What the tests of `cairn driver` share: a driver on a scratch pool, and calls.

Messages come from the .proto files of the tree, through protoc; calls go through
grpcio, which is not ours. A program without them is skipped as a whole.
"""
import importlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from cairncli import BIN, CAN_MOUNT, MIB, REPOSITORY, TIMEOUT

try:
    import grpc
    import google.protobuf  # noqa: F401 - the generated modules need it
except ImportError as why:
    print(f"skipped: {why}; install python3-grpcio and python3-protobuf")
    sys.exit(77)
if not shutil.which("protoc"):
    print("skipped: protoc is not installed")
    sys.exit(77)

SERVICES = {"Identity": "csi_identity", "Controller": "csi_controller", "Node": "csi_node",
            "GroupController": "csi_group", "SnapshotMetadata": "csi_metadata",
            "Registration": "kubelet_registration", "DifferentialSnapshot": "csi_differential",
            "SnapshotData": "cairn_data"}
SESSION = "Session"  # SnapshotMetadata as snapshot sessions know it
PROTO = REPOSITORY / "src/proto"
NODE = "here"
SMALL = 64 * MIB   # ext4
LARGE = 320 * MIB  # xfs and btrfs have a smallest size


def load(*names):
    """Modules of messages, made from the .proto files of the tree."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(["protoc", "-I", PROTO, f"--python_out={out}", *PROTO.glob("*.proto")],
                       check=True)
        sys.path.insert(0, out)
        try:
            return [importlib.import_module(f"{name}_pb2") for name in names]
        finally:
            sys.path.remove(out)


# {service: module of its messages}
MODULES = dict(zip((*SERVICES, SESSION), load(*SERVICES.values(), "snapshot_session")))
Code = grpc.StatusCode


def service_of(name):
    return MODULES[name].DESCRIPTOR.services_by_name[
        "SnapshotMetadata" if name == SESSION else name]


class Failed(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code.name}: {text}")
        self.code, self.text = code, text


class Peer:
    """Calls to one socket."""

    def __init__(self, socket, *options):
        self.channel = grpc.insecure_channel(f"unix://{socket}",
                                             options=[("grpc.enable_retries", 0), *options])

    def close(self):
        self.channel.close()

    @staticmethod
    def method(name):
        service, method = name.split(".")
        found = service_of(service)
        path = f"/{found.full_name}/{method}"
        found = found.methods_by_name[method]
        # pylint: disable=protected-access
        return path, found.input_type._concrete_class, found.output_type._concrete_class

    def call(self, name, /, **fields):
        path, request, response = self.method(name)
        run = self.channel.unary_unary(path, request.SerializeToString, response.FromString)
        try:
            return run(request(**fields), timeout=TIMEOUT, wait_for_ready=True)
        except grpc.RpcError as failed:
            raise Failed(failed.code(), failed.details()) from None

    def begin_stream(self, name, /, **fields):
        path, request, response = self.method(name)
        run = self.channel.unary_stream(path, request.SerializeToString, response.FromString)
        return run(request(**fields), timeout=TIMEOUT, wait_for_ready=True)

    def stream(self, name, /, **fields):
        try:
            return list(self.begin_stream(name, **fields))
        except grpc.RpcError as failed:
            raise Failed(failed.code(), failed.details()) from None


class Driver:
    """`cairn driver`, started and stopped."""

    def __init__(self, scratch, pool, *args):
        self.socket, self.log = scratch / "csi.sock", scratch / "log"
        self.command = [BIN, "driver", "--pool", str(pool), "--endpoint", f"unix://{self.socket}",
                        "--node-id", NODE, "--log-level", "debug", *args]
        self.process = self.peer = None

    def start(self):
        with open(self.log, "ab") as log:
            # A path that should have been refused must not lead anywhere else.
            self.process = subprocess.Popen(self.command, stderr=log, stdout=log,
                                            cwd=self.socket.parent)
        self.peer = Peer(self.socket)
        self.peer.call("Identity.Probe")

    def stop(self):
        """Its exit status after SIGTERM."""
        self.peer.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.peer.close()

    def restart(self):
        self.kill()
        self.start()


def block(mode="SINGLE_NODE_WRITER"):
    return {"block": {}, "access_mode": {"mode": mode}}


def mount(fs="", mode="SINGLE_NODE_WRITER", flags=()):
    return {"mount": {"fs_type": fs, "mount_flags": flags}, "access_mode": {"mode": mode}}


class DriverTest(unittest.TestCase):
    """One pool and driver for all tests of a class; each cleans up after itself."""

    backend = "btrfs"
    driver_args = ()

    @classmethod
    def setUpClass(cls):
        if cls.backend != "copy" and not CAN_MOUNT:
            raise unittest.SkipTest("needs root and loop devices")
        cls.scratch = pathlib.Path(tempfile.mkdtemp(prefix="cairn-driver-"))
        cls.addClassCleanup(cls.remove)
        cls.pool = cls.make_pool("pool")
        cls.driver = Driver(cls.scratch, cls.pool, *cls.driver_args)
        cls.driver.start()
        cls.counter = 0

    @classmethod
    def make_pool(cls, name):
        size = [] if cls.backend == "copy" else ["--size", "4G", "--thin"]
        subprocess.run([BIN, "pool", "create", "--quiet", "--backend", cls.backend, *size,
                        cls.scratch / name], check=True)
        return cls.scratch / name

    @classmethod
    def tearDownClass(cls):
        status = cls.driver.stop()
        assert status == 0, f"the driver ended with {status}"
        subprocess.run([BIN, "--pool", cls.pool, "pool", "check", "--quiet"], check=True)

    @classmethod
    def remove(cls):
        driver = getattr(cls, "driver", None)
        if driver and driver.process and driver.process.poll() is None:
            driver.kill()
        for where in reversed(mounts_below(cls.scratch / "at")):
            subprocess.run(["umount", where], check=False)
        for pool in cls.scratch.glob("pool*"):
            subprocess.run([BIN, "pool", "destroy", "--yes", "--quiet", pool], check=False)
        if not mounts_below(cls.scratch):
            shutil.rmtree(cls.scratch)

    def setUp(self):
        self.at = self.scratch / "at"
        self.at.mkdir(exist_ok=True)

    # ---- calls ----

    def call(self, name, /, **fields):
        return self.driver.peer.call(name, **fields)

    def stream(self, name, /, **fields):
        return self.driver.peer.stream(name, **fields)

    def refuses(self, code, name, /, **fields):
        with self.assertRaises(Failed) as caught:
            self.call(name, **fields)
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertTrue(caught.exception.text)
        return caught.exception.text

    def name(self):
        type(self).counter += 1
        return f"object {self.counter}"

    def create(self, size=SMALL, capability=None, **fields):
        """A volume's id; it is deleted after the test."""
        fields.setdefault("name", self.name())
        made = self.call("Controller.CreateVolume", capacity_range={"required_bytes": size},
                         volume_capabilities=[capability or block()], **fields).volume.volume_id
        self.addCleanup(self.insist, "Controller.DeleteVolume", volume_id=made)
        return made

    def snapshot(self, volume, name=None):
        made = self.call("Controller.CreateSnapshot", source_volume_id=volume,
                         name=name or self.name()).snapshot.snapshot_id
        self.addCleanup(self.delete_snapshot, made)
        return made

    def delete_snapshot(self, snapshot):
        self.insist("Controller.DeleteSnapshot", snapshot_id=snapshot)

    def delete_group(self, group):
        self.insist("GroupController.DeleteVolumeGroupSnapshot", group_snapshot_id=group)

    def insist(self, name, /, **fields):
        """Again while somebody else is at it, as the sidecars do."""
        end = time.monotonic() + TIMEOUT
        while True:
            try:
                return self.call(name, **fields)
            except Failed as failed:
                if failed.code != Code.ABORTED or time.monotonic() > end:
                    raise
            time.sleep(0.02)

    # ---- the pool behind the driver ----

    def path_of(self, kind, which):
        """The file of a "volume" or a "snapshot"."""
        return subprocess.run([BIN, "--pool", self.pool, kind, "path", which], check=True,
                              capture_output=True, text=True).stdout.strip()

    def write(self, volume, offset, data):
        with open(self.path_of("volume", volume), "r+b") as file:
            file.seek(offset)
            file.write(data)

    # ---- a volume on the node ----

    def staging(self, volume):
        return str(self.at / f"stage-{volume}")

    def stage(self, volume, capability):
        pathlib.Path(self.staging(volume)).mkdir(exist_ok=True)
        self.call("Node.NodeStageVolume", volume_id=volume, volume_capability=capability,
                  staging_target_path=self.staging(volume))

    def unstage(self, volume):
        """Again while the device is busy, as a kubelet does: another mount namespace may
        have a copy of the mount for a while."""
        def done():
            try:
                self.call("Node.NodeUnstageVolume", volume_id=volume,
                          staging_target_path=self.staging(volume))
                return True
            except Failed as failed:
                if "in use" not in failed.text:
                    raise
                return False
        wait_until(done, TIMEOUT)
        pathlib.Path(self.staging(volume)).rmdir()

    def target(self, volume, label=""):
        return str(self.at / f"target{label}-{volume}")

    def publish(self, volume, capability, label="", readonly=False):
        self.call("Node.NodePublishVolume", volume_id=volume, volume_capability=capability,
                  staging_target_path=self.staging(volume),
                  target_path=self.target(volume, label), readonly=readonly)
        return pathlib.Path(self.target(volume, label))

    def unpublish(self, volume, label=""):
        self.call("Node.NodeUnpublishVolume", volume_id=volume,
                  target_path=self.target(volume, label))
        self.assertFalse(os.path.lexists(self.target(volume, label)))

    def use(self, volume, capability, **how):
        """Stages and publishes; undone after the test."""
        self.stage(volume, capability)
        self.addCleanup(self.unstage, volume)
        path = self.publish(volume, capability, **how)
        self.addCleanup(self.unpublish, volume)
        return path


def blocks_of(offset, size, length=4096):
    """The numbers of the blocks that a range touches."""
    return set(range(offset // length, (offset + size + length - 1) // length))


def blocks_told(test, messages, limit):
    """The numbers of the blocks in messages of block metadata, of at most `limit` tuples."""
    found = set()
    for message in messages:
        test.assertLessEqual(len(message.block_metadata), limit)
        for entry in message.block_metadata:
            found |= blocks_of(entry.byte_offset, entry.size_bytes)
    return found


def mounts_below(directory):
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        places = [line.split()[4] for line in table]
    return [place for place in places if place.startswith(f"{directory}/")]


def write_device(path, offset, data):
    fd = os.open(path, os.O_WRONLY | os.O_SYNC)
    try:
        os.pwrite(fd, data, offset)
    finally:
        os.close(fd)


def read_device(path, offset, size):
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.pread(fd, size, offset)
    finally:
        os.close(fd)


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not happen in time")
        time.sleep(0.02)
