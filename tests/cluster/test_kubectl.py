#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`kubectl cairn`, started by a real kubectl on a real control plane: what people see with the
rights of deploy/rbac, and what they are told where a right is missing."""
import fcntl
import json
import os
import pathlib
import pty
import struct
import subprocess
import sys
import termios
import unittest

from backupbed import BLOCK, MIB, SPACE, BackupTest
from processes import wait_until
from rights import ACCOUNT, Rights

USAGE, INVALID, DENIED = 2, 3, 7
DRIVER = "cairn.csi.dev"
COMPLETE = pathlib.Path(__file__).resolve().parents[2] / "completion" / "kubectl_complete-cairn"
VIEWER = ("cairn-viewer", "cairn-viewer-cluster")


class Plugin(BackupTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = cls.scratch / "bin"
        cls.path.mkdir()
        (cls.path / "kubectl-cairn").symlink_to(cls.bed.cairn)
        (cls.path / COMPLETE.name).symlink_to(COMPLETE)
        # One that may look everywhere, one that may look here, one that may nothing.
        for name in ("looker", "guest", "nobody"):
            cls.kube.service_account(SPACE, name)
        for role in VIEWER:
            cls.kube.allow(f"looker-{role}", f"{SPACE}:looker", role=role)
        cls.kube.allow("guest", f"{SPACE}:guest", role="cairn-viewer", namespace=SPACE)
        cls.configs = {name: cls.kube.kubeconfig_of_account(SPACE, name)
                       for name in ("looker", "guest", "nobody")}
        cls.configs["backup"] = cls.config
        cls.configs["admin"] = cls.kube.kubeconfig
        cls.make_history()

    @classmethod
    def make_history(cls):
        """Two snapshots of a claim: between them one block is written, and a written MiB freed."""
        cls.csi.claim("data", namespace=SPACE)
        cls.put(0, os.urandom(4 * MIB))
        cls.csi.snapshot("monday", "data", namespace=SPACE)
        cls.put(2 * MIB, os.urandom(BLOCK))
        with open(cls.csi.volume_file("data", SPACE), "r+b") as file:
            subprocess.run(["fallocate", "--punch-hole", "--offset", str(3 * MIB), "--length",
                            str(MIB), file.name], check=True)
            os.fsync(file.fileno())
        cls.csi.snapshot("tuesday", "data", namespace=SPACE)

    @classmethod
    def put(cls, offset, data):
        with open(cls.csi.volume_file("data", SPACE), "r+b") as file:
            file.seek(offset)
            file.write(data)
            os.fsync(file.fileno())

    # ---- kubectl ----

    def command(self, *words, user="looker"):
        environment = {**os.environ, "HOME": str(self.scratch), "LC_ALL": "C.UTF-8",
                       "PATH": f"{self.path}:{os.environ['PATH']}",
                       "KUBECONFIG": str(self.configs[user])}
        return [self.bed.programs["kubectl"], *map(str, words)], environment

    def cairn(self, *words, user="looker", status=0):
        words, environment = self.command("cairn", *words, user=user)
        done = subprocess.run(words, env=environment, text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def records(self, view, *words, **how):
        done = self.cairn(view, *words, "-o", "json", **how)
        return json.loads(done.stdout)[view]

    def on_terminal(self, *words, columns=80):
        """What a terminal of that width shows."""
        main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        words, environment = self.command("cairn", *words)
        with subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=other,
                              stderr=subprocess.PIPE) as process:
            os.close(other)
            seen = b""
            try:
                while chunk := os.read(main, 65536):
                    seen += chunk
            except OSError:  # the other end is closed
                pass
            os.close(main)
            self.assertEqual((process.wait(120), process.stderr.read()), (0, b""))
        return seen.decode().replace("\r\n", "\n")

    # ---- views ----

    def test_volumes_are_the_claims_of_the_driver(self):
        found, = self.records("volumes")
        self.assertEqual(
            (found["namespace"], found["claim"], found["driver"], found["size_bytes"],
             found["snapshots"], found["newest_snapshot"], found["handle"]),
            (SPACE, "data", DRIVER, 64 * MIB, 2, "tuesday", self.csi.volume_id("data", SPACE)))
        self.assertEqual(self.records("volumes", "-n", "default"), [])
        self.assertEqual([item["claim"] for item in self.records("volumes", "-A")], ["data"])
        self.assertEqual(self.records("volumes", "--driver", "another.example"), [])

    def test_snapshots_name_the_base_of_their_delta(self):
        monday, tuesday = self.records("snapshots")
        self.assertEqual((monday["name"], monday["base"], monday["ready"]), ("monday", None, True))
        self.assertEqual((tuesday["name"], tuesday["base"], tuesday["driver"], tuesday["claim"]),
                         ("tuesday", "monday", DRIVER, "data"))
        self.assertEqual(tuesday["handle"], self.csi.snapshot_id("tuesday", SPACE))

    def test_text_fits_a_terminal_of_80_columns(self):
        for view in ("nodes", "volumes", "snapshots", "backups"):
            help_text = self.cairn(view, "--help").stdout
            self.assertLessEqual(max(map(len, help_text.splitlines())), 86, help_text)
        for words in (("volumes",), ("volumes", "-A"), ("snapshots",), ("snapshots", "-A")):
            with self.subTest(words):
                shown = self.on_terminal(*words)
                self.assertLessEqual(max(map(len, shown.splitlines())), 80, shown)
                self.assertIn("data" if words[0] == "volumes" else "tuesday", shown)
        self.assertRegex(self.on_terminal("snapshots"), r"tuesday .*yes +monday")

    def test_nodes_without_a_driver_are_not_listed(self):
        self.kube.apply({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
                         "metadata": {"name": "one"},
                         "spec": {"drivers": [{"name": DRIVER, "nodeID": "one",
                                               "topologyKeys": []}]}})
        self.addCleanup(self.kube.delete, "csinode", "one")
        done = self.cairn("nodes", "-o", "json")
        found, = json.loads(done.stdout)["nodes"]
        self.assertEqual((found["node"], found["driver"], found["state"]), ("one", DRIVER, None))
        self.assertIn("may not list pods", done.stderr)
        found, = self.records("nodes", user="admin")
        self.assertEqual(found["state"], "no pod")
        self.assertEqual(self.records("nodes", "--driver", "another.example"), [])

    def test_backups_are_schedules_runs_and_bases(self):
        self.kube.allow("backup-here", f"{SPACE}:backup", role="cairn-backup", namespace=SPACE)
        self.kube.allow("backup-cluster", f"{SPACE}:backup", role="cairn-backup-cluster")
        self.kube.kubectl("apply", "-n", SPACE, "-f",
                          COMPLETE.parents[1] / "deploy" / "backup" / "cronjob.yaml")
        self.addCleanup(self.kube.delete, "-n", SPACE, "cronjob", "cairn-backup")
        done = subprocess.run(
            [self.bed.cairn, "backup", "create", "--csi-endpoint", f"unix://{self.csi.socket}",
             "--namespace", SPACE, "--pvc", "data", "--base", "keep", "-q"], text=True,
            env={**self.environment, "KUBECONFIG": str(self.config)}, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = {item["what"]: item for item in self.records("backups")}
        for item in found.values():
            self.assertEqual((item["namespace"], item["claim"]), (SPACE, "data"))
        self.assertEqual((found["schedule"]["name"], found["schedule"]["schedule"]),
                         ("cairn-backup", "15 2 * * *"))
        self.assertEqual(found["base"]["state"], "ready")
        self.kube.delete("-n", SPACE, "volumesnapshot", found["base"]["name"])

    # ---- blocks ----

    def test_a_delta_lists_what_was_written_between(self):
        want = [{"byte_offset": 2 * MIB, "size_bytes": BLOCK},
                {"byte_offset": 3 * MIB, "size_bytes": MIB}]
        for words in (("monday", "tuesday"), ("-n", SPACE, "monday", "tuesday"),
                      (f"{SPACE}/monday", f"{SPACE}/tuesday"), (f"{SPACE}/monday", "tuesday")):
            with self.subTest(words):
                told = json.loads(self.cairn("delta", *words, "-o", "json", user="backup").stdout)
                self.assertEqual(told["block_metadata"], want)
                self.assertEqual((told["namespace"], told["base"], told["target"],
                                  told["volume_capacity_bytes"]),
                                 (SPACE, "monday", "tuesday", 64 * MIB))
        text = self.cairn("delta", "monday", "tuesday", user="backup").stdout
        self.assertIn("2 extents: 1 MiB of 64 MiB changed", text)
        # The same blocks as those of the other command.
        other = self.cairn("list", "-n", SPACE, "-p", "monday", "-s", "tuesday", "-o", "ndjson",
                           user="backup").stdout.splitlines()
        self.assertEqual([json.loads(line) for line in other[1:-1]], want)
        alone = json.loads(self.cairn("delta", "monday", "-o", "json", user="backup").stdout)
        self.assertEqual(sum(block["size_bytes"] for block in alone["block_metadata"]), 4 * MIB)
        self.assertIsNone(alone["base"])

    def test_a_delta_of_nothing_is_empty(self):
        told = json.loads(self.cairn("delta", "tuesday", "tuesday", "-o", "json",
                                     user="backup").stdout)
        self.assertEqual(told["block_metadata"], [])

    def test_a_map_has_the_bytes_of_the_delta(self):
        told = json.loads(self.cairn("map", "monday", "tuesday", "-o", "json",
                                     user="backup").stdout)
        total = {key: sum(cell[f"{key}_bytes"] for cell in told["cells"])
                 for key in ("changed", "zeroed", "unchanged", "hole")}
        self.assertEqual(total, {"changed": BLOCK, "zeroed": MIB, "unchanged": 3 * MIB - BLOCK,
                                 "hole": 60 * MIB})
        picture = self.cairn("map", "monday", "tuesday", user="backup").stdout
        self.assertIn(f"{SPACE}/monday → {SPACE}/tuesday: 64 MiB", picture)
        self.assertLessEqual(max(map(len, picture.splitlines())), 80, picture)
        alone = json.loads(self.cairn("map", "monday", "-o", "json", user="backup").stdout)
        self.assertEqual(sum(cell["allocated_bytes"] for cell in alone["cells"]), 4 * MIB)

    def test_snapshots_of_two_namespaces_are_refused(self):
        self.assertIn("not in namespace", self.cairn("delta", f"{SPACE}/monday", "default/tuesday",
                                                     user="backup", status=USAGE).stderr)

    # ---- rights ----

    def test_a_missing_right_is_named(self):
        for view, kind in (("volumes", "persistentvolumeclaims"),
                           ("snapshots", "volumesnapshots.snapshot.storage.k8s.io"),
                           ("backups", "volumesnapshots"), ("nodes", "csinodes")):
            with self.subTest(view):
                said = self.cairn(view, user="nobody", status=DENIED).stderr
                self.assertIn(f"may not list {kind}", said)
                self.assertIn("cairn-viewer", said)
        self.assertIn("in all namespaces",
                      self.cairn("snapshots", "-A", user="guest", status=DENIED).stderr)
        # The kubeconfig's own user may not read the snapshot.
        self.assertIn("volumesnapshots", self.cairn("delta", "monday", "tuesday", user="nobody",
                                                    status=DENIED).stderr)

    def test_what_may_not_be_listed_is_unknown_and_not_absent(self):
        done = self.cairn("snapshots", "-o", "json", user="guest")
        _, tuesday = json.loads(done.stdout)["snapshots"]
        self.assertEqual((tuesday["driver"], tuesday["base"]), (None, None))
        for kind in ("volumesnapshotcontents", "snapshotmetadataservices"):
            self.assertIn(f"may not list {kind}", done.stderr)

    def test_a_person_names_the_account_whose_token_is_used(self):
        said = self.cairn("delta", "-n", SPACE, "monday", "tuesday", user="admin",
                          status=INVALID).stderr
        self.assertIn("--service-account", said)
        text = self.cairn("delta", "-n", SPACE, "monday", "tuesday", "--service-account", "backup",
                          "--service-account-namespace", SPACE, user="admin").stdout
        self.assertIn("2 extents", text)

    def test_each_right_of_the_viewers_is_used_and_none_is_missing(self):
        for view in ("nodes", "volumes", "snapshots", "backups"):
            self.cairn(view, *(() if view == "nodes" else ("-A",)))
        user = f"{ACCOUNT}{SPACE}:looker"

        def rights_in_vain():
            return Rights(self.kube, self.audit).in_vain(VIEWER)
        wait_until(lambda: not rights_in_vain(), 180, f"used; left are {rights_in_vain()}")
        refused = Rights(self.kube, self.audit).refused(user).get(user, [])
        self.assertEqual([line for line in refused if "resource='pods'" not in line], [])

    # ---- kubectl's own ----

    def test_kubectl_finds_and_completes_the_plugin(self):
        def told(*words):
            command, environment = self.command(*words)
            done = subprocess.run(command, env=environment, text=True, stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        self.assertIn(f"{self.path}/kubectl-cairn", told("plugin", "list"))
        self.assertIn("snapshots\n", told("__complete", "cairn", "snap"))
        self.assertIn("--all-namespaces\n", told("__complete", "cairn", "volumes", "--all"))
        self.assertIn("ndjson\n", told("__complete", "cairn", "volumes", "-o", "nd"))


if __name__ == "__main__":
    sys.exit(unittest.main())
