# SPDX-License-Identifier: Apache-2.0
"""The images of scripts/image: equal when built twice, listed by their SBOM, loaded by containerd."""
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import time
import unittest

import packages
from debian_root import run

TREE = packages.TREE
IMAGES = ("cairn", "cairn-velero-plugin")
CONTAINERD = """version = 2
root = "{place}/root"
state = "{place}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.overlayfs"]
[grpc]
  address = "{place}/sock"
[ttrpc]
  address = "{place}/sock.ttrpc"
"""


def make(directory, made_from):
    """The images from a directory of packages."""
    run(TREE / "scripts/image", "--packages", made_from, directory,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})


def setUpModule():
    global FIRST, AGAIN  # pylint: disable=global-statement
    made_from = next(iter(packages.built().values())).parent
    FIRST, AGAIN = packages.scratch() / "images", packages.scratch() / "again"
    make(FIRST, made_from)
    os.umask(0o077)  # another user's habits
    make(AGAIN, made_from)
    os.umask(0o022)


class Image:
    def __init__(self, path):
        with tarfile.open(path) as archive:
            self.files = {entry.name: archive.extractfile(entry).read() for entry in archive}
        self.index = json.loads(self.files["index.json"])
        self.manifest = self.blob_json(self.index["manifests"][0])
        self.config = self.blob_json(self.manifest["config"])

    def blob(self, descriptor):
        data = self.files[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert len(data) == descriptor["size"]
        return data

    def blob_json(self, descriptor):
        return json.loads(self.blob(descriptor))

    def layers(self):
        return [gzip.decompress(self.blob(layer)) for layer in self.manifest["layers"]]

    def contents(self):
        """{path: (entry, bytes)} of all layers."""
        found = {}
        for layer in self.layers():
            with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
                for entry in archive:
                    data = archive.extractfile(entry).read() if entry.isreg() else b""
                    found[entry.name] = (entry, data)
        return found


class Images(unittest.TestCase):
    def test_two_builds_are_equal(self):
        for name in IMAGES:
            for suffix in ("tar", "spdx.json"):
                with self.subTest(f"{name}.{suffix}"):
                    self.assertTrue((FIRST / f"{name}.{suffix}").read_bytes() ==
                                    (AGAIN / f"{name}.{suffix}").read_bytes())

    def test_the_layout_is_consistent(self):
        for name in IMAGES:
            image = Image(FIRST / f"{name}.tar")
            for path, data in image.files.items():
                if path.startswith("blobs/"):
                    self.assertEqual(path, f"blobs/sha256/{hashlib.sha256(data).hexdigest()}")
            diffs = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in image.layers()]
            self.assertEqual(image.config["rootfs"]["diff_ids"], diffs)
            self.assertEqual(image.config["config"]["User"], "65532:65532")
            docker = json.loads(image.files["manifest.json"])[0]
            self.assertIn(docker["Config"], image.files)
            for path in docker["Layers"]:
                self.assertIn(path, image.files)
            for path, (entry, _) in image.contents().items():
                self.assertEqual((entry.uid, entry.gid, entry.mtime), (0, 0, 1700000000), path)
                self.assertFalse(path.startswith(("/", "..")), path)

    def test_the_sbom_lists_what_is_in_it(self):
        for name in IMAGES:
            sbom = json.loads((FIRST / f"{name}.spdx.json").read_text())
            self.assertEqual(sbom["spdxVersion"], "SPDX-2.3")
            listed = {entry["fileName"]: {sum_["algorithm"]: sum_["checksumValue"]
                                          for sum_ in entry["checksums"]} for entry in sbom["files"]}
            inside = {f"./{path}": hashlib.sha256(data).hexdigest()
                      for path, (entry, data) in Image(FIRST / f"{name}.tar").contents().items()
                      if entry.isreg()}
            records = ("./var/lib/dpkg/status.d/", "./usr/share/doc/", "./usr/share/sbom/")
            inside = {path: digest for path, digest in inside.items()
                      if not path.startswith(records)}
            self.assertEqual({path: sums["SHA256"] for path, sums in listed.items()}, inside)
            owned = {relation["relatedSpdxElement"] for relation in sbom["relationships"]
                     if relation["relationshipType"] == "CONTAINS"}
            self.assertEqual(owned, {entry["SPDXID"] for entry in sbom["files"]})
            names = {package["name"] for package in sbom["packages"]}
            self.assertLessEqual({"cairn", "libssl3", "zlib1g"}, names)

    def test_it_runs_with_nothing_else(self):
        """In a root that has only the image."""
        root = packages.scratch() / "root"
        root.mkdir()
        for path, (entry, data) in Image(FIRST / "cairn.tar").contents().items():
            place = root / path
            if entry.isdir():
                place.mkdir(parents=True, exist_ok=True)
            elif entry.issym():
                place.symlink_to(entry.linkname)
            else:
                place.write_bytes(data)
                place.chmod(entry.mode)
        for words in (["/usr/bin/cairn", "--version"], ["/usr/bin/cairn", "driver", "--help"],
                      ["/usr/libexec/cairn/cairn-sidecar", "sidecar", "--help"],
                      ["/usr/libexec/cairn/cairn-backup", "backup", "--help"],
                      ["/usr/sbin/mkfs.ext4", "-V"], ["/usr/sbin/mkfs.btrfs", "--version"],
                      ["/usr/sbin/mkfs.xfs", "-V"]):
            with self.subTest(words):
                run("chroot", root, *words, env={"PATH": "/usr/bin:/usr/sbin:/bin:/sbin"})

    def test_the_plugins_image_copies_the_plugin(self):
        image = Image(FIRST / "cairn-velero-plugin.tar")
        self.assertEqual(image.config["config"]["Entrypoint"],
                         ["/bin/busybox", "cp", "-a", "/plugins/.", "/target/"])
        found = image.contents()
        self.assertTrue(found["plugins/cairn-velero-plugin"][0].mode & 0o111)
        for path, (entry, _) in found.items():
            if path.startswith("plugins/lib"):
                self.assertFalse(entry.mode & 0o111, path)
        static = packages.scratch() / "busybox"
        static.write_bytes(found["bin/busybox"][1])
        said = subprocess.run(["file", static], capture_output=True, text=True, check=False)
        self.assertNotIn("dynamically", said.stdout)

    @unittest.skipUnless(shutil.which("containerd", path=f"{os.environ['PATH']}:/usr/sbin"),
                         "containerd is not installed (scripts/deps peers)")
    def test_containerd_loads_them(self):
        place = packages.scratch() / "containerd"
        place.mkdir()
        config = place / "config.toml"
        config.write_text(CONTAINERD.format(place=place))
        with open(place / "log", "wb") as log:
            server = subprocess.Popen(["containerd", "--config", config], stdout=log, stderr=log)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        ctr = ["ctr", "--address", place / "sock", "images"]
        for _ in range(600):
            if subprocess.run([*ctr, "list"], capture_output=True, check=False).returncode == 0:
                break
            self.assertIsNone(server.poll(), (place / "log").read_text()[-2000:])
            time.sleep(0.2)
        for name in IMAGES:
            run(*ctr, "import", "--snapshotter", "native", FIRST / f"{name}.tar")
            digest = Image(FIRST / f"{name}.tar").index["manifests"][0]["digest"]
            self.assertRegex(run(*ctr, "list"), rf"localhost/{name}:\S+ +\S+ +{digest}")


if __name__ == "__main__":
    unittest.main()
