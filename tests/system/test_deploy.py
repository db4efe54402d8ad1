#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What an overlay of deploy/ replaces keeps what the base has."""
import pathlib
import sys
import unittest

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(77)

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"


def containers(path):
    """The containers of all workloads in a file, by name."""
    found = {}
    for item in yaml.safe_load_all((DEPLOY / path).read_text()):
        pod = item["spec"].get("jobTemplate", item)["spec"].get("template", {}).get("spec", {}) \
            if item and item.get("spec") else {}
        found.update({c["name"]: c for c in pod.get("containers", [])})
    return found


class Overlays(unittest.TestCase):
    def test_the_snapshotter_of_groups_has_every_option_of_the_base(self):
        """A list in a strategic merge patch replaces the whole list."""
        base = containers("base/driver.yaml")["snapshotter"]["args"]
        group = containers("overlays/group-snapshots/snapshotter.yaml")["snapshotter"]["args"]
        self.assertEqual([arg for arg in base if arg not in group], [])

    def test_the_image_of_backups_stands_in_one_place(self):
        """`images:` of kustomize reaches the image of containers, and no variable."""
        backup = containers("backup/cronjob.yaml")["backup"]
        variables = {entry["name"]: entry.get("value") for entry in backup["env"]}
        self.assertNotIn(backup["image"], variables.values())
        self.assertIn("CAIRN_POD", variables)


if __name__ == "__main__":
    unittest.main()
