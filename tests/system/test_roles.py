#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every role that talks to an API server, from its start to SIGTERM, with an API server that
is played by the test: it ends in order, leading and not leading, with nothing that a sanitizer
reports."""
import json
import os
import pathlib
import platform
import re
import signal
import socket
import subprocess
import threading
import time
import unittest

import grpc

from rolesbed import BIN, GROUP, HOST, SECONDS, RolesTest, wait_until
from fakekube import now
from veleromanager import ManagerTest

LEASES = "/apis/coordination.k8s.io/v1/namespaces/cairn/leases"


class Load:
    """Threads that call, each again and again, while the block runs."""

    def __init__(self, call, n):
        self.over, self.failed = threading.Event(), []
        self.threads = [threading.Thread(target=self.run, args=(call, number))
                        for number in range(n)]

    def run(self, call, number):
        try:
            while not self.over.is_set():
                call(number)
        except Exception as failed:  # pylint: disable=broad-except
            self.failed.append(failed)

    def __enter__(self):
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()
        if self.failed:
            raise self.failed[0]


class Elected(RolesTest):
    def hold_lease(self, ns, name):
        """Another leads."""
        self.kube.put(f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases", {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": ns},
            "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600,
                     "acquireTime": now(), "renewTime": now()}})

    def wait_lease(self, ns, name):
        path = f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/{name}"
        wait_until(lambda: ("GET", path, None) in self.kube.requests, SECONDS,
                   "the lease is looked at")


class VeleroManager(Elected, ManagerTest):
    """`cairn manager --velero`."""

    def work(self, number):
        """Backups begin and end, with snapshots that nobody needs."""
        with self.lock:
            self.made += 1
            name = f"b{self.made}"
        self.backup(name, phase="InProgress" if number else "Completed")
        self.snapshot(f"s-{name}", backup=name if number else "none", old=True)
        self.progress(backup=name, volume=name)
        self.set_phase("backups", name, "Completed")
        time.sleep(0.02)

    def setUp(self):
        super().setUp()
        self.lock, self.made = threading.Lock(), 0

    def records(self):
        return list(self.backups.glob("*/*.json.gz"))

    def test_a_leader_stops_under_load(self):
        self.start("manager", "manager", "--velero", "--velero-directories", self.root)
        self.said("manager", '"leading"')
        with Load(self.work, 2):
            wait_until(self.records, SECONDS, "it works")
            self.stop_in_order("manager")
        for lease in self.kube.list("/apis/coordination.k8s.io/v1/leases"):
            self.assertFalse(lease["spec"].get("holderIdentity"), "the lease was not given back")

    def test_one_that_does_not_lead_stops_under_load(self):
        self.hold_lease("velero", "cairn-velero")
        self.start("manager", "manager", "--velero", "--velero-directories", self.root)
        self.wait_lease("velero", "cairn-velero")
        with Load(self.work, 2):
            wait_until(lambda: self.made > 10, SECONDS, "there is work")
            self.stop_in_order("manager")
        self.assertEqual(self.records(), [])


class Manager(Elected):
    def make_work(self, n):
        """Requests of sessions, each of which costs the leader several writes."""
        for i in range(n):
            self.kube.put(f"/apis/{GROUP}/v1alpha2/namespaces/app/snapshotsessionrequests", {
                "apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionRequest",
                "metadata": {"name": f"r{i}"}, "spec": {"snapshots": ["absent"]}})

    def test_a_leader_stops_in_order(self):
        self.make_work(40)
        self.start("manager", "manager")
        self.said("manager", '"leading"')
        wait_until(lambda: self.kube.list(LEASES), SECONDS, "the lease is held")
        self.make_work(80)
        self.stop_in_order("manager")
        lease = self.kube.list(LEASES)[0]
        self.assertFalse(lease["spec"].get("holderIdentity"), "the lease was not given back")

    def test_a_leader_of_discoveries_only_stops_in_order(self):
        self.start("manager", "manager", "--no-sessions")
        self.said("manager", '"leading"')
        with open(f"/proc/{self.processes.pid('manager')}/limits", encoding="ascii") as limits:
            self.assertRegex(limits.read(), r"Max core file size +0 +0 ")
        self.stop_in_order("manager")

    def test_one_that_does_not_lead_stops_in_order(self):
        self.hold_lease("cairn", "cairn-manager")
        self.make_work(20)
        self.start("manager", "manager")
        self.said("manager", '"serving"')
        self.wait_lease("cairn", "cairn-manager")
        self.stop_in_order("manager")

    def test_a_leader_with_a_webhook_stops_under_load(self):
        secret = self.directory / "webhook-secret"
        secret.write_text("0123456789abcdef0123456789abcdef")
        port = self.serve("manager", "manager", "--webhook", f"{HOST}:PORT", "--webhook-secret",
                          secret)
        self.said("manager", '"leading"')
        paths = ("/", f"/{secret.read_text()}", "/bad")
        with Load(lambda number: self.ask(port, "POST", paths[number % 3], {}), 3):
            self.make_work(20)
            self.stop_in_order("manager")

    def test_a_keeper_of_certificates_stops_in_order(self):
        """It leaves what others made alone, completes what is empty, makes what is not there, and
        gives its lease back."""
        secrets = "/api/v1/namespaces/cairn/secrets"
        theirs = {"tls.crt": "bm90IFBFTQ==", "other": "eA=="}
        for name, data in (("cairn-diffsnap-tls", theirs),
                           ("cairn-aggapi-tls", {"tls.crt": "", "tls.key": ""})):
            self.kube.put(secrets, {"apiVersion": "v1", "kind": "Secret", "data": data,
                                    "metadata": {"name": name, "namespace": "cairn"}})
        self.start("manager", "manager", "--certificates=all", "--certificate-life=10s",
                   "--certificate-overlap=1s")
        wait_until(lambda: len(self.kube.list(secrets)) == 5, SECONDS, "the Secrets are made")
        wait_until(lambda: self.processes.log_text("manager").count("certificate renewed") >= 4,
                   SECONDS, "they are renewed")
        self.stop_in_order("manager")
        for secret in self.kube.list(secrets):
            if secret["metadata"]["name"] == "cairn-diffsnap-tls":
                self.assertEqual(secret["data"], theirs)
            else:
                self.assertLessEqual({"tls.crt", "tls.key", "ca.crt"}, set(secret["data"]))
                self.assertTrue(all(secret["data"].values()))
        self.assertIn("was not made by cairn and is left alone",
                      self.processes.log_text("manager"))
        self.assertNotRegex(self.processes.log_text("manager"), "PRIVATE KEY|BEGIN CERT")
        self.assertFalse(self.kube.list(LEASES)[0]["spec"].get("holderIdentity"))

    def test_a_keeper_of_certificates_stops_under_load(self):
        """All that it keeps is taken away again and again."""
        secrets = "/api/v1/namespaces/cairn/secrets"
        self.start("manager", "manager", "--certificates=all", "--certificate-life=10s",
                   "--certificate-overlap=1s")
        wait_until(lambda: len(self.kube.list(secrets)) == 5, SECONDS, "the Secrets are made")

        def remove(_number):
            for secret in self.kube.list(secrets):
                self.kube.delete({"group": None, "plural": "secrets", "ns": "cairn",
                                  "name": secret["metadata"]["name"], "sub": None})
            time.sleep(0.05)
        with Load(remove, 1):
            wait_until(lambda: self.processes.log_text("manager").count("certificate") > 10,
                       SECONDS, "they are made again")
            self.stop_in_order("manager")

    def test_a_keeper_of_certificates_that_does_not_lead_stops_in_order(self):
        self.hold_lease("cairn", "cairn-certificates")
        self.start("manager", "manager", "--certificates=all")
        self.wait_lease("cairn", "cairn-certificates")
        self.stop_in_order("manager")
        self.assertEqual(self.kube.list("/api/v1/namespaces/cairn/secrets"), [])

    def test_without_an_election_it_stops_in_order(self):
        self.make_work(20)
        self.start("manager", "manager", "--leader-election=false")
        self.said("manager", '"leading"')
        self.stop_in_order("manager")


class Servers(RolesTest):
    """The roles beside a driver, under load when the signal comes."""

    def setUp(self):
        super().setUp()
        self.start_driver()
        self.put_front_proxy("[]")

    def stop_under_load(self, name, port, path, method="GET", body=None):
        """Callers with bad tokens, good ones and none, until the server has gone."""
        token = self.kube.account("app", "reader")

        def call(number):
            self.ask(port, method, path, body, token=(None, f"bad-{number}", token)[number % 3])
        with Load(call, 6):
            wait_until(lambda: len(self.kube.token_reviews) > 3, SECONDS, "tokens are reviewed")
            self.stop_in_order(name)

    def test_diffsnap(self):
        port = self.serve("diffsnap", "diffsnap", "--csi-address", f"unix://{self.socket}",
                          "--listen", f"{HOST}:PORT", "--advertise", f"{HOST}:PORT")
        self.stop_under_load("diffsnap", port, "/namespaces/app/diff?target=after")

    def test_aggapi(self):
        port = self.serve("aggapi", "aggapi", "--listen", f"{HOST}:PORT")
        self.stop_under_load("aggapi", port, f"/apis/{GROUP}/v1alpha1")

    def test_cbt_http_that_leads_and_one_that_does_not(self):
        ports = [self.serve(name, "cbt-http", "--csi-address", f"unix://{self.socket}",
                            "--listen", f"{HOST}:PORT", "--publish-url", f"https://{HOST}:PORT",
                            "--leader-election") for name in ("one", "two")]
        wait_until(lambda: self.kube.list(LEASES), SECONDS, "one leads")
        for name, port in zip(("two", "one"), reversed(ports)):
            self.ask(port, "POST", "/v1/block", {"token": "x"}, token="bad")
            self.kube.token_reviews.clear()
            self.stop_under_load(name, port, "/v1/deltas", "POST", {})

    def test_sidecar(self):
        port = self.ports.take()
        self.start("sidecar", "sidecar", "--csi-address", self.socket, "--port", str(port),
                   "--bind-address", HOST, "--tls-cert", self.cert, "--tls-key", self.key,
                   "--audience", "a", "--http-endpoint", "", "--sessions",
                   "--session-namespace", "cairn")
        self.said("sidecar", "the CSI driver is ready")
        self.stop_in_order("sidecar")

    def reflected(self, *more):
        """What a sidecar with these options says of its services, and of the one of sessions."""
        name, port = f"sidecar{len(more)}", self.ports.take()
        self.start(name, "sidecar", "--csi-address", self.socket, "--port", str(port),
                   "--bind-address", HOST, "--tls-cert", self.cert, "--tls-key", self.key,
                   "--audience", "a", "--http-endpoint", "", *more)
        self.said(name, "the CSI driver is ready")
        trusted = grpc.ssl_channel_credentials(self.authority.crt.read_bytes())
        with grpc.secure_channel(f"{HOST}:{port}", trusted) as channel:
            ask = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
            questions = (b"\x3a\x01*", b"\x22\x10SnapshotMetadata")  # list_services, a symbol
            return list(ask(iter(questions), timeout=SECONDS))

    def test_reflection_of_the_sidecar_only_on_request(self):
        services, file = self.reflected("--sessions", "--session-namespace", "cairn",
                                        "--reflection")
        for service in (b"SnapshotMetadata", b"snapshotmetadata.SnapshotMetadata"):
            self.assertIn(bytes([len(service)]) + service, services)
        self.assertIn(b"snapshot_session.proto", file)
        self.assertNotIn(b"\x10SnapshotMetadata", self.reflected("--reflection")[0])
        with self.assertRaises(grpc.RpcError) as refused:
            self.reflected()
        self.assertIs(refused.exception.code(), grpc.StatusCode.UNIMPLEMENTED)

    def test_sidecar_and_driver_under_load(self):
        """Streams with good tokens and bad ones; the driver goes first."""
        port = self.ports.take()
        self.start("sidecar", "sidecar", "--csi-address", self.socket, "--port", str(port),
                   "--bind-address", HOST, "--tls-cert", self.cert, "--tls-key", self.key,
                   "--audience", "a", "--http-endpoint", "", "--sessions",
                   "--session-namespace", "cairn")
        token = self.kube.account("app", "reader", ["a"])
        self.kube.allow("system:serviceaccount:app:reader", "get", "volumesnapshots")
        served = threading.Event()
        files = [self.directory / f"token-{port}-{number}" for number in range(2)]
        for file, text in zip(files, (token, "bad")):
            file.write_text(text)

        def call(number):
            done = subprocess.run(
                [BIN, "list", "-n", "app", "-s", "after", "-p", "before", "--no-retry",
                 "--address", f"{HOST}:{port}", "--ca-file", self.authority.crt,
                 "--token-file", files[number % 2], "--kubeconfig", self.config],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=SECONDS)
            self.assertNotIn(b"Sanitizer", done.stdout)
            if done.returncode == 0:
                served.set()
        with Load(call, 4):
            self.assertTrue(served.wait(SECONDS), self.processes.log_text("sidecar")[-3000:])
            self.stop_in_order("driver")
            self.stop_in_order("sidecar")

    def test_sidecar_under_load_of_sessions(self):
        """Streams with the tokens of a good session, of one that is over and of none."""
        port, name = self.ports.take(), "0" * 63
        for token, year in ((name + "1", 2100), (name + "2", 2000)):
            self.kube.put(f"/apis/{GROUP}/v1alpha2/namespaces/cairn/snapshotsessiondata", {
                "apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionData",
                "metadata": {"name": token, "namespace": "cairn"},
                "spec": {"expiryTime": f"{year}-01-01T00:00:00Z", "snapshotNamespace": "app",
                         "snapshots": ["before", "after"]}})
        self.start("sidecar", "sidecar", "--csi-address", self.socket, "--port", str(port),
                   "--bind-address", HOST, "--tls-cert", self.cert, "--tls-key", self.key,
                   "--audience", "a", "--http-endpoint", "", "--sessions",
                   "--session-namespace", "cairn")
        self.said("sidecar", "the CSI driver is ready")
        volume = json.loads(self.cairn("volume", "list", "--output", "json"))["volumes"][0]["id"]
        trusted = grpc.ssl_channel_credentials(self.authority.crt.read_bytes())
        served = threading.Event()

        def call(number):
            text = {1: f"{name}{number % 3 + 1}", 2: volume, 3: "before", 4: "after"}
            request = b"".join(bytes((field << 3 | 2, len(value))) + value.encode()
                               for field, value in text.items())
            with grpc.secure_channel(f"{HOST}:{port}", trusted) as channel:
                try:
                    run = channel.unary_stream("/SnapshotMetadata/GetDelta")
                    if list(run(request, timeout=SECONDS)):
                        self.assertEqual(number % 3, 0, "a bad session was served")
                        served.set()
                except grpc.RpcError:
                    pass
        with Load(call, 6):
            self.assertTrue(served.wait(SECONDS), self.processes.log_text("sidecar")[-3000:])
            self.stop_in_order("sidecar")

    def test_driver(self):
        self.stop_in_order("driver")

    def test_a_backup_is_stopped_while_it_pushes_its_metrics(self):
        """The gateway takes the request and never answers."""
        gateway = socket.create_server((HOST, 0))
        self.addCleanup(gateway.close)
        repository = self.directory / f"repository-{gateway.getsockname()[1]}"
        env = {**os.environ, "CAIRN_REPOSITORY": str(repository), "RESTIC_PASSWORD": "secret"}
        subprocess.run([BIN, "backup", "init"], env=env, check=True, timeout=SECONDS,
                       stdout=subprocess.DEVNULL)
        with subprocess.Popen(
                [BIN, "--pool", self.pool, "backup", "create", "vol@after", "--push-gateway",
                 f"http://{HOST}:{gateway.getsockname()[1]}"],
                env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as backup:
            gateway.settimeout(SECONDS)
            gateway.accept()[0].recv(1)
            backup.send_signal(signal.SIGTERM)
            said = backup.communicate(timeout=SECONDS)[0]
        self.assertNotIn(b"Sanitizer", said)
        self.assertGreaterEqual(backup.returncode, 0, said)


class Private(RolesTest):
    """The memory of servers, which holds tokens, keys and data, cannot be read by other processes
    of the same user, and is in no core file."""

    # Without capabilities root is a user like any other.
    prefix = ("setpriv", "--bounding-set", "-all") if os.geteuid() == 0 else ()

    def is_readable(self, pid):
        return subprocess.run([*self.prefix, "cat", f"/proc/{pid}/environ"], check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=SECONDS).returncode == 0

    @unittest.skipIf(b"__asan_init" in pathlib.Path(BIN).read_bytes(),
                     "a leak sanitizer reads its own memory")
    def test_every_server(self):
        self.start_driver()
        self.put_front_proxy("[]")
        for name, words in {
                "diffsnap": ("--listen", f"{HOST}:PORT", "--advertise", f"{HOST}:PORT"),
                "cbt-http": ("--listen", f"{HOST}:PORT", "--publish-url", f"https://{HOST}:PORT")
                }.items():
            self.serve(name, name, "--csi-address", f"unix://{self.socket}", *words)
        self.serve("aggapi", "aggapi", "--listen", f"{HOST}:PORT")
        self.start("manager", "manager")
        self.said("manager", '"leading"')
        self.start("sidecar", "sidecar", "--csi-address", self.socket, "--port",
                   str(self.ports.take()), "--bind-address", HOST, "--tls-cert", self.cert,
                   "--tls-key", self.key, "--audience", "a", "--http-endpoint", "")
        self.said("sidecar", "the CSI driver is ready")
        self.processes.start("other", [*self.prefix, "sleep", str(SECONDS)])
        wait_until(lambda: self.is_readable(self.processes.pid("other")), SECONDS,
                   "other processes can be read")
        for name in ("driver", "diffsnap", "cbt-http", "aggapi", "manager", "sidecar"):
            pid = self.processes.pid(name)
            self.assertFalse(self.is_readable(pid), name)
            with open(f"/proc/{pid}/limits", encoding="ascii") as limits:
                self.assertRegex(limits.read(), r"Max core file size +0 +0 ", name)


class Hardened(unittest.TestCase):
    def test_programs_are_built_with_what_the_compiler_offers(self):
        folder = pathlib.Path(BIN).parent
        for program in (pathlib.Path(BIN), *filter(pathlib.Path.is_file,
                                                   sorted(folder.glob("roles/cairn-*")))):
            found = subprocess.run(["readelf", "-hdnW", "--dyn-syms", program], check=True,
                                   stdout=subprocess.PIPE, text=True, timeout=SECONDS).stdout
            if "san_init" in found:
                self.skipTest("sanitizers replace these")
            wanted = [r"Type: +DYN", "FLAGS.*NOW", "__stack_chk_fail",
                      r"__\w+_chk@"]  # the last of _FORTIFY_SOURCE
            if platform.machine() == "x86_64" and "gold" not in found:  # gold drops the mark
                wanted.append("IBT, SHSTK")
            self.assertEqual([text for text in wanted if not re.search(text, found)], [],
                             program.name)


if __name__ == "__main__":
    unittest.main()
