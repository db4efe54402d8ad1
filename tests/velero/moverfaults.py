# SPDX-License-Identifier: Apache-2.0
"""A stock Velero server with the data mover, whose object store fails on demand, and what tests of
faults ask of it."""
import moverbed
import node
from moverbed import NAMESPACE, wait_until
from s3faults import FaultyStore

DATA = "dd if=/dev/urandom of=/dev/raw bs=1M count=16 conv=fsync 2>/dev/null; sync"
SUMS = "sha256sum /dev/raw"
ENDED = ("Completed", "PartiallyFailed", "Failed")
LIMIT = 300


class Velero(moverbed.Velero):
    """Its object store fails on demand."""

    def start_store(self):
        super().start_store()
        self.faults = FaultyStore(node.ADDRESS, (node.ADDRESS, self.port))

    def location(self):
        made = super().location()
        made["spec"]["config"]["s3Url"] = \
            f"http://{node.ADDRESS}:{self.faults.server_address[1]}"
        return made


class FaultTest(moverbed.MoverTest):
    VELERO = Velero

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.addClassCleanup(cls.velero.faults.close)

    def setUp(self):
        self.faults = self.velero.faults
        self.addCleanup(self.faults.end)

    def place(self, space):
        self.application(space, {"raw": "Block"})
        self.execute(space, DATA)
        return self.execute(space, SUMS)

    def begin(self, name, *words):
        self.velero.run("backup", "create", name, "--include-namespaces", name,
                        "--snapshot-move-data", "--data-mover", "cairn", *words)

    def status(self, name, kind="backups"):
        found = self.kube.get("-n", NAMESPACE, f"{kind}.velero.io", name)
        return (found or {}).get("status", {})

    def wait_phase(self, name, *phases, kind="backups"):
        last = {*phases, *ENDED}
        return wait_until(lambda: self.status(name, kind).get("phase") in last
                          and self.status(name, kind)["phase"], LIMIT, f"{name} is {phases}")

    def wait_upload(self, name, *phases):
        def is_so():
            upload = self.uploads(name).get("raw", {})
            return upload.get("status", {}).get("phase") in phases and upload
        return wait_until(is_so, LIMIT, f"the DataUpload of {name} is {phases}")

    def end_of(self, name):
        return self.wait_phase(name, "Completed")

    def check_right(self, name, sums):
        """It is restored to another namespace, and then deleted."""
        self.assertEqual(self.end_of(name), "Completed", self.everything(name))
        copy = f"{name}-copy"
        status = self.velero.restore(name, name, "--namespace-mappings", f"{name}:{copy}")
        self.assertEqual(status["phase"], "Completed", f"{status}\n{self.everything(copy)}")
        self.wait_running(copy)
        self.assertEqual(self.execute(copy, SUMS), sums)
        self.kube.delete("namespace", copy)
        self.remove(name)

    def kept(self, name):
        """Backups in the repository, which may not have been made."""
        place = self.velero.store / moverbed.BUCKET / "restic" / name / "config"
        return self.snapshots(name) if place.exists() else []

    def remove(self, name):
        self.velero.delete(name)
        wait_until(lambda: not self.kept(name), LIMIT, "the repository is empty")
        self.assert_nothing_left()
        self.kube.delete("namespace", name)
        wait_until(lambda: not self.volumes(), LIMIT, "no volume is left")

    def check_failed(self, name, *phases):
        self.assertIn(self.end_of(name), phases, self.everything(name))
        self.remove(name)
