#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Packages and images, compiled twice in different directories, are equal byte by byte."""
import hashlib
import os
import pathlib
import sys
import tempfile
import unittest

import packages
from debian_root import run


class Twice(unittest.TestCase):
    def test_two_builds_are_equal(self):
        with tempfile.TemporaryDirectory() as place:
            made = []
            for name in ("one", "another-directory"):
                out = pathlib.Path(place) / name
                run(packages.TREE / "scripts/package", out,
                    env={**os.environ, "CCACHE_DISABLE": "1", "DEB_BUILD_OPTIONS": "noautodbgsym"})
                run(packages.TREE / "scripts/image", "--packages", out, out / "images",
                    env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
                made.append({str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
                             for pattern in ("*.deb", "images/*") for path in out.glob(pattern)})
            self.assertEqual(made[0], made[1])
            self.assertGreater(len(made[0]), 8)


if __name__ == "__main__":
    reason = packages.why_not()
    if reason:
        print(reason)
        sys.exit(77)
    unittest.main()
