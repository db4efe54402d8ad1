# SPDX-License-Identifier: Apache-2.0
"""Container images made from directories, as archives that containerd imports."""
import hashlib
import io
import json
import pathlib
import shutil
import tarfile
import tempfile

PATH = "PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin"


def add_bytes(archive, name, data):
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def owned_by_root(entry):
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def make_image(root, names, entrypoint, out):
    """The archive `out` of an image with the contents of `root` and all of `names`."""
    with tempfile.TemporaryFile() as layer:
        with tarfile.open(fileobj=layer, mode="w") as archive:
            archive.add(root, ".", filter=owned_by_root)
        layer.seek(0)
        digest = hashlib.sha256()
        while block := layer.read(1 << 20):
            digest.update(block)
        config = json.dumps({
            "architecture": "amd64", "os": "linux", "created": "1970-01-01T00:00:00Z",
            "config": {"Env": [PATH], "Entrypoint": entrypoint},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest.hexdigest()}"]},
            "history": [{"created": "1970-01-01T00:00:00Z"}]}).encode()
        config_name = f"{hashlib.sha256(config).hexdigest()}.json"
        with tarfile.open(out, mode="w") as archive:
            add_bytes(archive, "manifest.json", json.dumps([
                {"Config": config_name, "RepoTags": names, "Layers": ["layer.tar"]}]).encode())
            add_bytes(archive, config_name, config)
            entry = tarfile.TarInfo("layer.tar")
            entry.size = layer.tell()
            layer.seek(0)
            archive.addfile(entry, layer)


def image_of_program(program, name, out, entrypoint=None):
    """An image that holds one statically linked program."""
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        place = root / pathlib.Path(program).name
        shutil.copy(program, place)
        place.chmod(0o755)
        make_image(root, [name], entrypoint or [f"/{place.name}"], out)


def add_busybox(root):
    """Debian's busybox, as all of its commands that a test uses and that are not there."""
    shutil.copy("/bin/busybox", root / "bin/busybox")
    for command in BUSYBOX:
        if not (root / "bin" / command).exists():
            (root / "bin" / command).symlink_to("busybox")


def image_of_busybox(names, out, entrypoint):
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        for name in ("bin", "dev", "etc", "proc", "run", "sys", "tmp"):
            (root / name).mkdir()
        add_busybox(root)
        make_image(root, names, entrypoint, out)


BUSYBOX = """sh cat cp dd df echo grep head ls md5sum mkdir mount od rm sha256sum sleep sync stat
    tail test touch umount wc printf true blockdev cmp seq date""".split()
