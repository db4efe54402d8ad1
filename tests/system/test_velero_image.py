# SPDX-License-Identifier: Apache-2.0
"""What the image for `velero plugin add` holds: an init container copies it to the server's plugin
directory, and the plugin runs there beside glibc, certificates and /tmp only, as any user."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from csidriver import grpc
from veleroplugin import PLUGIN, SHARED, method

ROOTFS = pathlib.Path(__file__).resolve().parents[2] / "deploy/velero/plugin-rootfs"
GLIBC = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2")
NOBODY = 65534
SECONDS = 180  # only a hang reaches it


class VeleroImage(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="cairn-image-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.directory.chmod(0o755)
        self.image, self.server = self.directory / "image", self.directory / "server"
        subprocess.run([ROOTFS, PLUGIN, self.image], check=True, timeout=SECONDS)

    def fill_server(self):
        """As little as Velero's own image has."""
        for part in ("lib64", "lib/x86_64-linux-gnu", "etc/ssl/certs", "tmp", "plugins"):
            (self.server / part).mkdir(parents=True)
        (self.server / "tmp").chmod(0o1777)
        listed = subprocess.run(["ldd", PLUGIN], capture_output=True, text=True, check=True).stdout
        known = {line.split()[0].rsplit("/", 1)[-1]: line.split("=>")[-1].split()[0]
                 for line in listed.splitlines() if "/" in line}
        loader = next(path for name, path in known.items() if name.startswith("ld-linux"))
        target = self.server / loader.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(loader, target)
        for name in GLIBC:
            if name in known:
                place = self.server / pathlib.Path(known[name]).parent.relative_to("/")
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(known[name], place)

    def copy_plugins(self):
        """What the init container does: its volume is mounted at /target."""
        target = self.image / "target"
        target.mkdir()
        subprocess.run(["/bin/busybox", "cp", "-a", "/plugins/.", "/target/"], check=True,
                       timeout=SECONDS, preexec_fn=lambda: os.chroot(self.image))
        for file in target.iterdir():
            shutil.copy(file, self.server / "plugins")  # with its mode

    def test_the_plugin_runs_beside_glibc_certificates_and_tmp_only(self):
        self.fill_server()
        self.copy_plugins()
        # Velero runs every executable file there as a plugin.
        self.assertEqual([file.name for file in (self.server / "plugins").iterdir()
                          if file.stat().st_mode & 0o111], ["cairn-velero-plugin"])
        # The engine of pools is no part of it: each start would load it.
        self.assertEqual(list((self.server / "plugins").glob("libsqlite*")), [])

        def become():
            os.chroot(self.server)
            os.chdir("/")
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        with subprocess.Popen(
                ["/plugins/cairn-velero-plugin", "--log-level", "info"], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=become,
                env={"VELERO_PLUGIN": "hello", "PLUGIN_PROTOCOL_VERSIONS": "2",
                     "LD_LIBRARY_PATH": "/plugins"}) as process:
            self.addCleanup(process.kill)
            line = process.stdout.readline()
            self.assertTrue(line.startswith("1|2|unix|/tmp/"), line or process.stderr.read())
            # The path of a socket is short, that of the scratch directory may not be.
            socket = pathlib.Path("/tmp") / f"cairn-image-{os.getpid()}"
            os.symlink(self.server / line.split("|")[3].lstrip("/"), socket)
            self.addCleanup(socket.unlink)
            with grpc.insecure_channel(f"unix://{socket}") as channel:
                path, request, response = method(SHARED, "PluginLister", "ListPlugins")
                listed = channel.unary_unary(path, request.SerializeToString, response.FromString)(
                    request(), timeout=SECONDS)
            self.assertIn("cairn.csi.dev/csi-pvc", {one.name for one in listed.plugins})
            process.kill()


if __name__ == "__main__":
    if os.geteuid() != 0 or not os.access("/bin/busybox", os.X_OK):
        print("skipped: needs root and busybox-static")
        sys.exit(77)
    unittest.main(verbosity=2)
