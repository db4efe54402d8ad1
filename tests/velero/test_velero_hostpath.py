# SPDX-License-Identifier: Apache-2.0
"""`cairn-velero-plugin` in a stock Velero server with csi-driver-host-path, a driver that this project
did not write: item actions, and the volume snapshotter."""
import velerobed
from hostpathdriver import CLASS, NAME, objects
from velerobed import cluster, wait_until

LIMIT = 120


class HostPath(velerobed.VeleroTest):
    @classmethod
    def setUpClass(cls):
        programs = cluster.peers("hostpathplugin", "csi-provisioner", "csi-snapshotter")
        super().setUpClass()
        cls.socket, cls.state = cls.bed.directory / "hp.sock", cls.bed.directory / "hp"
        cls.state.mkdir()
        cls.kube.apply(objects({}))
        cls.bed.processes.start("hostpath", [
            programs["hostpathplugin"], "-drivername", NAME, "-endpoint", f"unix://{cls.socket}",
            "-nodeid", "localhost", "-statedir", cls.state, "-enable-topology=false", "-v=4"])
        cls.bed.processes.wait_ready("hostpath", cls.socket.exists)
        for name in ("csi-provisioner", "csi-snapshotter"):
            cls.bed.processes.start(f"hostpath-{name}", [
                programs[name], f"--kubeconfig={cls.kube.kubeconfig}",
                f"--csi-address={cls.socket}", "--leader-election=false", "--timeout=60s",
                "--retry-interval-start=100ms", "-v=2"])

    def place(self, space):
        """The directory of the claim's volume."""
        volume = self.kube.get("-n", space, "pvc", "data")["spec"]["volumeName"]
        return self.state / self.kube.get("pv", volume)["spec"]["csi"]["volumeHandle"]

    def snapshots(self):
        return sorted(entry.name for entry in self.state.glob("*.snap"))

    def check(self, name, space):
        self.kube.namespace(space)
        self.csi.claim("data", mode="Filesystem", namespace=space, storage_class=CLASS)
        (self.place(space) / "file").write_text("monday")
        status = self.velero.backup(name, "--include-namespaces", space)
        self.assertEqual(status["phase"], "Completed", self.velero.log(name))
        self.assertEqual(len(self.snapshots()), 1)
        (self.place(space) / "file").write_text("tuesday")
        status = self.velero.restore(name, name, "--namespace-mappings", f"{space}:{space}2")
        self.assertEqual(status["phase"], "Completed", status)
        self.wait_bound("data", f"{space}2")
        self.assertEqual((self.place(f"{space}2") / "file").read_text(), "monday")
        self.kube.delete("namespace", space, f"{space}2")
        self.assertEqual(len(self.snapshots()), 1)  # a deleted namespace keeps its backup
        self.velero.delete(name)
        wait_until(lambda: not self.snapshots(), LIMIT, "the storage snapshot is gone")
        wait_until(lambda: not self.kube.get("volumesnapshotcontent")["items"], LIMIT,
                   "no content is left")

    def test_item_actions_and_then_the_volume_snapshotter(self):
        self.check("h1", "shop")
        self.velero.progress_kinds()
        self.velero.stop()
        self.velero.start()
        self.check("h2", "store")


if __name__ == "__main__":
    velerobed.main()
