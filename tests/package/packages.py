# SPDX-License-Identifier: Apache-2.0
"""The packages that the tests of this directory look at, built once a run."""
import atexit
import functools
import os
import pathlib
import shutil
import tempfile

from debian_root import run

TREE = pathlib.Path(__file__).resolve().parents[2]
NAMES = ["cairn", "cairn-driver", "cairn-kubernetes", "libcairn-client-dev", "libcairn-client0"]


def why_not():
    """What the machine lacks, or nothing."""
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        return "packages are installed as root, and pools need loop devices"
    for program in ("debootstrap", "lintian", "dh", "dpkg-buildpackage", "busybox"):
        if not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin"):
            return f"{program} is not installed (scripts/deps package)"
    return None


@functools.cache
def scratch():
    place = pathlib.Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, place)
    return place


@functools.cache
def built():
    """{name: file}; CAIRN_PACKAGES names a directory that has them already."""
    out = pathlib.Path(os.environ.get("CAIRN_PACKAGES", scratch() / "packages"))
    if not list(out.glob("*.deb")):
        run(TREE / "scripts/package", out,
            env={**os.environ, "DEB_BUILD_OPTIONS": "noautodbgsym"})
    found = {path.name.split("_")[0]: path for path in out.glob("*.deb")}
    return {name: path for name, path in found.items() if not name.endswith("-dbgsym")}
