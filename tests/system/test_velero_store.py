# SPDX-License-Identifier: Apache-2.0
"""`cairn manager --velero` with an object store that fails: nothing is deleted that the store might
need, nothing half written is left, and the work is done when the store answers again."""
import base64
import gzip
import json
import pathlib
import sys
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "repo"))

# pylint: disable=wrong-import-position
import fakes3
from veleromanager import OLDER, SNAPSHOTS, VELERO, ManagerTest

KEY, SECRET = "AKIDTEST", "verysecretkey"


def error(code):
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>m</Message></Error>".encode()


class Handler(fakes3.Handler):
    def fails(self):
        """Answers in place of the store while it is out of order."""
        length = int(self.headers.get("Content-Length") or 0)
        fault = self.server.fault
        if fault is None or (fault == "full" and self.command != "PUT"):
            return False
        self.server.failed += 1
        if fault == "slow":
            time.sleep(1)
            return False
        self.rfile.read(length)
        status, code = {"500": (500, "InternalError"), "503": (503, "SlowDown"),
                        "full": (507, "InsufficientStorage"),
                        "credentials": (403, "SignatureDoesNotMatch")}[fault]
        self.answer(status, error(code))
        return True

    def do_GET(self):
        return self.fails() or super().do_GET()

    def do_PUT(self):
        return self.fails() or super().do_PUT()

    def do_DELETE(self):
        return self.fails() or super().do_DELETE()


class FaultyS3(fakes3.FakeS3):
    fault, failed = None, 0

    def finish_request(self, request, client_address):
        Handler(request, client_address, self)


class VeleroStore(ManagerTest):
    def prepare_kube(self):
        super().prepare_kube()
        self.store = FaultyS3()
        self.addCleanup(self.store.server_close)
        self.addCleanup(self.store.shutdown)
        self.kube.put(f"{VELERO}/backupstoragelocations", {
            "metadata": {"name": "default"}, "spec": {
                "provider": "aws", "objectStorage": {"bucket": "bkt", "prefix": "pre"},
                "credential": {"name": "keys", "key": "cloud"},
                "config": {"region": "us-east-1", "s3ForcePathStyle": "true",
                           "s3Url": f"http://127.0.0.1:{self.store.port()}"}}})
        text = f"[default]\naws_access_key_id={KEY}\naws_secret_access_key={SECRET}\n"
        self.kube.put("/api/v1/namespaces/velero/secrets", {
            "metadata": {"name": "keys"},
            "data": {"cloud": base64.b64encode(text.encode()).decode()}})

    def add(self, name):
        """A backup whose progress object is to be kept, and a leftover of another one."""
        for file, body in (("velero-backup.json", b"{}"), (
                f"{name}-volumesnapshots.json.gz", gzip.compress(json.dumps([OLDER]).encode()))):
            self.store.objects[f"pre/backups/{name}/{file}"] = body
        self.kube.put(f"{VELERO}/backups", {
            "metadata": {"name": name}, "spec": {"storageLocation": "default"},
            "status": {"phase": "Completed"}})
        made = self.progress(backup=name)
        made["metadata"]["name"] = f"velero-{name}"
        self.kube.put(f"{VELERO}/volumepluginbackups", made)
        self.snapshot(f"lost-{name}", backup=f"none-{name}", old=True)

    def kept(self, name):
        body = self.store.objects[f"pre/backups/{name}/{name}-volumesnapshots.json.gz"]
        return "kind" in json.loads(gzip.decompress(body))[0]

    def check(self, fault):
        name = f"b-{fault}"
        self.store.failed, self.store.fault = 0, fault
        self.add(name)
        self.start_manager("--velero-period", "2s")
        self.wait(lambda: self.store.failed >= 3, "the store was asked")
        if fault != "slow":
            self.assertFalse(self.kept(name))
        if fault not in ("slow", "full"):
            self.assertIn(f"lost-{name}", self.snapshots())
            self.assertIsNotNone(self.kube.get(
                f"{SNAPSHOTS}/volumesnapshotcontents/content-lost-{name}"))
        if fault == "credentials":
            self.said("manager", "SignatureDoesNotMatch")
        self.store.fault = None
        self.wait(lambda: self.kept(name), "the progress object is kept")
        self.wait(lambda: f"lost-{name}" not in self.snapshots(), "the leftover is gone")
        self.assertEqual([key for key in self.store.objects if not key.startswith("pre/backups/")],
                         [])
        self.assertNotIn(SECRET, self.processes.log_text("manager"))

    def test_the_store_answers_500(self):
        self.check("500")

    def test_the_store_answers_503(self):
        self.check("503")

    def test_the_store_is_slow(self):
        self.check("slow")

    def test_the_bucket_is_full(self):
        self.check("full")

    def test_the_credentials_are_wrong(self):
        self.check("credentials")


if __name__ == "__main__":
    unittest.main(verbosity=2)
