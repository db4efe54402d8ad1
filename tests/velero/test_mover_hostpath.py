#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The data mover and a stock Velero server with csi-driver-host-path, which has no SnapshotMetadata
service: volumes are read and compared with what is stored."""
import moverbed
from hostpathdriver import CLASS, HostPath
from moverbed import wait_until

MIB = 1 << 20
SUMS = "sha256sum /dev/raw"
LIMIT = 300


class OtherDriver(moverbed.MoverTest):
    STORAGE_CLASS = CLASS

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.driver = HostPath(cls.bed)
        cls.driver.start()

    def test_volumes_are_moved_and_restored(self):
        self.application("shop", {"raw": "Block"})
        self.execute("shop", "dd if=/dev/urandom of=/dev/raw bs=1M seek=2 count=8 conv=fsync "
                             "2>/dev/null")
        monday = self.execute("shop", SUMS)
        first = self.back_up("h1", "shop")["raw"]["status"]
        self.assertEqual(first["dataMoverResult"], {"mode": "full"})
        self.assert_nothing_left()
        self.execute("shop", "dd if=/dev/urandom of=/dev/raw bs=4k seek=9000 count=3 conv=fsync "
                             "2>/dev/null")
        tuesday = self.execute("shop", SUMS)
        before = self.stored("shop")
        self.back_up("h2", "shop")
        self.assertLess(self.stored("shop") - before, 4 * MIB)  # read whole, stored what changed
        self.assert_nothing_left()
        for name, backup, sums in (("old", "h1", monday), ("new", "h2", tuesday)):
            status = self.velero.restore(f"r-{name}", backup, "--namespace-mappings", f"shop:{name}")
            self.assertEqual(status["phase"], "Completed", f"{status}\n{self.everything(name)}")
            self.wait_running(name)
            self.assertEqual(self.execute(name, SUMS), sums)
        for name in ("h1", "h2"):
            self.velero.delete(name)
        wait_until(lambda: not self.snapshots("shop"), LIMIT, "the data are forgotten")
        self.kube.delete("namespace", "shop", "old", "new")
        self.assert_nothing_left()
        wait_until(lambda: not self.volumes() and not self.driver.files(), LIMIT,
                   "no volume is left")

    def stored(self, space):
        """Bytes of the repository."""
        place = self.velero.store / moverbed.BUCKET / "restic" / space
        return sum(entry.stat().st_size for entry in place.rglob("*") if entry.is_file())

    def test_a_volume_that_is_a_directory_is_refused(self):
        """Its blocks are an archive of the driver's, of which no restore makes a volume."""
        self.application("tree", {"files": "Filesystem"})
        self.execute("tree", "echo text >/files/a")
        status = self.velero.backup("t1", "--include-namespaces", "tree", "--snapshot-move-data",
                                    "--data-mover", "cairn")
        self.assertEqual(status["phase"], "PartiallyFailed")
        said = self.uploads("t1")["files"]["status"]
        self.assertEqual(said["phase"], "Failed")
        self.assertIn("holds no filesystem", said["message"])
        self.assert_nothing_left()
        self.velero.delete("t1")
        self.kube.delete("namespace", "tree")
        wait_until(lambda: not self.volumes() and not self.driver.files(), LIMIT,
                   "no volume is left")


if __name__ == "__main__":
    moverbed.main()
