#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Each weakness of the Go sidecar, by its number: it fails where that can be shown, and
`cairn sidecar` does not. One control plane for all; a sidecar and a driver for each test."""
import random
import signal
import socket
import sys
import threading
import time
import unittest

import cluster
import wire
from bed import DRIVER, PROGRAMS, Bed, Client, eventually, grpc, three

cluster.peers_or_skip(*PROGRAMS)
SECONDS = 60  # for what a busy machine may take
OPERATIONS = "snapshot_metadata_controller_operations_seconds"


class Weaknesses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(Bed())
        cls.kube = cls.bed.kube

    def setUp(self):
        self.driver = self.bed.driver()
        self.addCleanup(self.driver.stop)

    def ready(self, sidecar, *more):
        """It, started before a driver that is there."""
        if not self.driver.server:
            self.driver.start()
        self.addCleanup(sidecar.close)
        sidecar.start(*more)
        sidecar.wait_ready()
        return sidecar

    def cairn(self, *more, **how):
        return self.ready(self.bed.cairn(self.driver, **how), *more)

    def upstream(self, *more):
        return self.ready(self.bed.upstream(self.driver), *more)

    def both(self):
        return self.cairn(), self.upstream()

    def ask(self, sidecar, snapshot, **more):
        return sidecar.client.allocated(self.bed.token, "one", snapshot, **more)

    def ends(self, outcome, code, text=""):
        self.assertEqual(outcome.code, code, outcome)
        self.assertIn(text, outcome.text)

    def delta_ends(self, sidecar, base, target, code):
        """As a client does, it asks again while the sidecar has not yet listed the snapshots."""
        end = time.monotonic() + SECONDS
        outcome = sidecar.client.delta(self.bed.token, "one", base, target)
        while outcome.code == "UNAVAILABLE" and time.monotonic() < end:
            time.sleep(0.2)
            outcome = sidecar.client.delta(self.bed.token, "one", base, target)
        self.ends(outcome, code)
        return outcome

    def test_01_a_snapshot_without_status_ends_the_process(self):
        new = self.bed.snapshot(status=False, content_status=False)
        half = self.bed.snapshot(content_status=False)
        good = self.bed.snapshot()
        cairn = self.cairn()
        self.ends(self.ask(cairn, new), "UNAVAILABLE", "the VolumeSnapshot is not yet ready")
        self.ends(self.ask(cairn, half), "UNAVAILABLE", "VolumeSnapshotContent is not yet ready")
        self.ends(self.ask(cairn, good), "OK")
        upstream = self.upstream()
        self.assertNotEqual(self.ask(upstream, new).code, "OK")
        upstream.wait_gone()
        self.assertIn("nil pointer", upstream.log())

    def test_02_a_delta_is_counted_as_allocated(self):
        snapshot = self.bed.snapshot()
        for sidecar in self.both():
            self.ends(sidecar.client.delta(self.bed.token, "one", "old", snapshot), "OK")
            counted = sidecar.metrics()
            self.assertEqual('method_name="MetadataDelta"' in counted, "cairn" in sidecar.name)
            self.assertEqual('method_name="MetadataAllocated"' in counted,
                             "cairn" not in sidecar.name)

    def test_03_anybody_can_make_series(self):
        cairn, upstream = self.both()
        grown = {}
        for sidecar in (cairn, upstream):
            sidecar.client.allocated("", "one", "first")
            before = sidecar.metrics()
            for _ in range(100):
                sidecar.client.allocated("", "one", f"random-{random.getrandbits(40)}")
            after = sidecar.metrics()
            grown[sidecar.name] = len(after.splitlines()) - len(before.splitlines())
            self.assertEqual("random-" in after, sidecar is upstream)
        self.assertEqual(grown[cairn.name], 0)
        self.assertGreater(grown[upstream.name], 1000)

    def test_04_the_documented_metric_does_not_exist(self):
        snapshot = self.bed.snapshot()
        for sidecar in self.both():
            self.ends(self.ask(sidecar, snapshot), "OK")
            documented = ("snapshot_metadata_controller_operation_total_seconds_count{"
                          'operation_name="MetadataAllocated",operation_status="OK"} 1')
            self.assertEqual(documented in sidecar.metrics(), "cairn" in sidecar.name)

    def test_05_calls_at_the_start_are_of_an_unknown_driver(self):
        for sidecar in self.both():
            found = sidecar.metrics()
            self.assertEqual("unknown-driver" in found, "cairn" not in sidecar.name)
        self.assertIn(f'{OPERATIONS}_count{{driver_name="{DRIVER}",method_name='
                      '"/csi.v1.Identity/GetPluginInfo",grpc_status_code="OK"} 1',
                      self.cairn().metrics())

    def test_06_messages_are_decoded_and_made_again(self):
        odd = wire.message([(0, 4096)], more=wire.number(1023, 7))
        self.driver.script = lambda *_: iter([odd])
        snapshot = self.bed.snapshot()
        cairn, upstream = self.both()
        self.assertEqual(self.ask(cairn, snapshot).messages, [odd])
        self.assertEqual([wire.read_message(m) for m in self.ask(upstream, snapshot).messages],
                         [wire.read_message(odd)])

    def test_07_every_stream_asks_the_api_server_everything(self):
        snapshot = self.bed.snapshot()
        cairn, upstream = self.cairn("--cache-time=60s"), self.upstream()
        for sidecar, least, most in ((cairn, 1, 3), (upstream, 8, 8)):
            before = self.bed.reviews()
            for _ in range(8):
                self.ends(self.ask(sidecar, snapshot), "OK")
            asked = self.bed.reviews() - before
            self.assertTrue(least <= asked <= most, f"{sidecar.name}: {asked} reviews")

    def test_08_the_loss_of_the_driver_ends_the_process(self):
        snapshot = self.bed.snapshot()
        cairn, upstream = self.cairn("--resume-timeout=1s"), self.upstream()
        for sidecar in (cairn, upstream):
            self.ends(self.ask(sidecar, snapshot), "OK")
        self.driver.stop()
        eventually(lambda: cairn.health() == 503)
        self.ends(self.ask(cairn, snapshot), "UNAVAILABLE")
        self.ask(upstream, snapshot)
        upstream.wait_gone()
        self.driver.start()
        eventually(lambda: cairn.health() == 200)
        self.ends(self.ask(cairn, snapshot), "OK")

    def test_09_streams_have_no_limit(self):
        release = threading.Event()
        self.addCleanup(release.set)

        def hold(_request, context):
            yield wire.message([(0, 4096)])
            while not release.wait(0.05) and context.is_active():
                pass
        self.driver.script = hold
        snapshot = self.bed.snapshot()
        cairn = self.cairn("--max-streams=4", "--max-streams-per-user=2", "--max-waiting=4")
        upstream = self.upstream()
        for sidecar, fit in ((upstream, 16), (cairn, 2)):
            self.driver.asked.clear()
            streams = [sidecar.client.start(self.bed.token, "one", snapshot)
                       for _ in range(16)]
            eventually(lambda fit=fit: len(self.driver.asked) == fit)
            if sidecar is cairn:  # one of the user's waits, the rest is refused
                eventually(lambda: cairn.metric("cairn_sidecar_streams_waiting") == 1)
                self.assertEqual(cairn.metric("cairn_sidecar_streams"), 2)
                self.bed.add_caller("other")
                other = self.kube.token("one", "other", "cairn-test-audience")
                stream = sidecar.client.start(other, "one", snapshot)
                next(stream)  # at once: another user's line does not hold it up
                streams.append(stream)
            for stream in streams:
                stream.cancel()
            eventually(lambda: not any(stream.is_active() for stream in streams))

    def test_10_a_stream_lasts_whole_minutes(self):
        def hold(_request, context):
            while context.is_active():
                yield wire.message([])
                threading.Event().wait(0.05)
        self.driver.script = hold
        snapshot = self.bed.snapshot()
        cairn = self.cairn("--max-streaming-duration=300ms")
        self.ends(self.ask(cairn, snapshot), "DEADLINE_EXCEEDED")
        endless = self.cairn("--max-streaming-duration=0", "-max-streaming-duration-min=1")
        self.ends(self.ask(endless, snapshot, timeout=2), "DEADLINE_EXCEEDED")  # the caller's own
        refused = self.bed.upstream(self.driver)
        self.addCleanup(refused.close)
        refused.start("--max-streaming-duration-min=0.1")
        refused.wait_gone()

    def test_11_a_message_may_have_4_mib(self):
        large = wire.message([(i * 8192, 4096) for i in range(450000)])
        self.assertGreater(len(large), 4 << 20)
        self.driver.script = lambda *_: iter([large])
        snapshot = self.bed.snapshot()
        cairn, upstream = self.both()
        outcome = self.ask(cairn, snapshot)
        self.ends(outcome, "OK")
        self.assertEqual(outcome.messages, [large])
        self.ends(self.ask(upstream, snapshot), "RESOURCE_EXHAUSTED")
        self.ends(self.ask(self.cairn("--max-message-size=1M"), snapshot), "RESOURCE_EXHAUSTED")

    def test_12_the_driver_is_believed_everything(self):
        first = wire.message([(0, 4096), (8192, 4096)])
        wrong = {
            "overlap": wire.message([(8192, 4096)]),
            "order": wire.message([(4096, 1)]),
            "no size": wire.message([(1 << 20, 0)]),
            "type": wire.message([(1 << 20, 4096)], kind=wire.FIXED),
            "capacity": wire.message([(1 << 20, 4096)], capacity=wire.CAPACITY + 1),
            "past the end": wire.message([(wire.CAPACITY, 4096)]),
            "too many": wire.message([((1 << 20) + i * 8192, 4096) for i in range(3)]),
        }
        snapshot = self.bed.snapshot()
        cairn, upstream = self.both()
        for what, second in wrong.items():
            with self.subTest(what):
                self.driver.script = lambda *_, second=second: iter([first, second])
                outcome = self.ask(cairn, snapshot, max_results=2)
                self.ends(outcome, "INTERNAL", "the CSI driver broke the protocol")
                self.assertEqual(outcome.messages, [first])
                self.ends(self.ask(upstream, snapshot, max_results=2), "OK")
        self.driver.script = three
        self.driver.asked.clear()
        self.ends(self.ask(cairn, snapshot, max_results=-5), "INVALID_ARGUMENT")
        self.ends(self.ask(cairn, snapshot, offset=-5), "OUT_OF_RANGE")
        self.assertEqual(self.driver.asked, [])
        self.ask(upstream, snapshot, max_results=-5, offset=-5)
        self.assertEqual((self.driver.asked[0]["max_results"], self.driver.asked[0]["offset"]),
                         (-5, -5))

    def test_13_what_is_missing_is_unavailable(self):
        bound = self.bed.snapshot(bound="no-such-content")
        cairn, upstream = self.both()
        for snapshot in ("no-such-snapshot", bound):
            self.ends(self.ask(cairn, snapshot), "NOT_FOUND")
            self.ends(self.ask(upstream, snapshot), "UNAVAILABLE")

    def test_14_the_base_is_anybodys(self):
        target = self.bed.snapshot(volume="vol-a")
        self.bed.snapshot(handle="base-good", volume="vol-a")
        self.bed.snapshot(handle="base-other-volume", volume="vol-b")
        self.bed.snapshot("two", handle="base-foreign", volume="vol-a")
        cairn, upstream = self.both()
        for base, code in (("base-good", "OK"), ("base-other-volume", "INVALID_ARGUMENT"),
                           ("base-foreign", "PERMISSION_DENIED"), ("forgotten", "OK")):
            outcome = self.delta_ends(cairn, base, target, code)
            self.assertNotIn("two", outcome.text)
            self.ends(upstream.client.delta(self.bed.token, "one", base, target), "OK")
        strict = self.cairn("--require-owned-base")
        self.delta_ends(strict, "forgotten", target, "NOT_FOUND")
        self.delta_ends(strict, "base-good", target, "OK")
        late = self.bed.snapshot(handle="base-late", volume="vol-a")
        self.assertTrue(late)  # known at once, though the watch may not have heard of it
        self.ends(strict.client.delta(self.bed.token, "one", "base-late", target), "OK")

    def test_15_a_content_need_not_refer_back(self):
        snapshot = self.bed.snapshot(refers_to="another")
        cairn, upstream = self.both()
        self.ends(self.ask(cairn, snapshot), "FAILED_PRECONDITION", "is not bound to")
        self.ends(self.ask(upstream, snapshot), "OK")

    def test_16_a_right_to_one_snapshot_is_none(self):
        mine, yours = self.bed.snapshot(), self.bed.snapshot()
        self.bed.add_caller("narrow", rules=False)
        rbac = "rbac.authorization.k8s.io"
        self.kube.apply([
            {"apiVersion": f"{rbac}/v1", "kind": "Role",
             "metadata": {"namespace": "one", "name": "narrow"},
             "rules": [{"apiGroups": ["snapshot.storage.k8s.io"], "verbs": ["get"],
                        "resources": ["volumesnapshots"], "resourceNames": [mine]}]},
            {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding",
             "metadata": {"namespace": "one", "name": "narrow"},
             "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "narrow"},
             "subjects": [{"kind": "ServiceAccount", "namespace": "one", "name": "narrow"}]}])
        token = self.kube.token("one", "narrow", "cairn-test-audience")
        cairn, upstream = self.both()
        self.ends(cairn.client.allocated(token, "one", mine), "OK")
        self.ends(cairn.client.allocated(token, "one", yours), "PERMISSION_DENIED",
                  "user does not have permissions to perform the operation")
        self.ends(upstream.client.allocated(token, "one", mine), "PERMISSION_DENIED")

    def test_17_a_class_is_needed_where_no_secret_is(self):
        snapshot = self.bed.snapshot(klass=None)
        cairn, upstream = self.both()
        self.ends(self.ask(cairn, snapshot), "OK")
        self.ends(self.ask(upstream, snapshot), "UNAVAILABLE", "no default VolumeSnapshotClass")
        gone = self.bed.snapshot(klass="gone")
        self.ends(self.ask(cairn, gone), "OK")
        self.ends(self.ask(upstream, gone), "UNAVAILABLE")

    def test_17b_a_secret_that_a_class_names_reaches_the_driver(self):
        self.kube.apply([
            {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
             "metadata": {"name": "secretive"}, "driver": DRIVER, "deletionPolicy": "Delete",
             "parameters": {
                 "csi.storage.k8s.io/snapshotter-secret-name": "for-${volumesnapshot.name}",
                 "csi.storage.k8s.io/snapshotter-secret-namespace":
                     "${volumesnapshot.namespace}"}},
            {"apiVersion": "v1", "kind": "Secret",
             "metadata": {"namespace": "one", "name": "for-secretive"},
             "stringData": {"user": "me", "password": "hush-hush-hush"}}])
        snapshot = self.bed.snapshot(name="secretive", klass="secretive")
        cairn = self.cairn()
        self.ends(self.ask(cairn, snapshot), "INTERNAL", "failed to get credentials")
        self.kube.allow("secret-reader", "sidecar-home:sidecar", [("", "secrets", "get")],
                        namespace="one")
        upstream = self.upstream()
        for sidecar in (cairn, upstream):
            eventually(lambda sidecar=sidecar: self.ask(sidecar, snapshot).code == "OK")
            self.assertEqual(self.driver.asked[-1]["secrets"],
                             {"user": "me", "password": "hush-hush-hush"})
        self.assertNotIn("hush-hush", cairn.log())

    def test_18_the_shipped_rights_are_not_the_needed_ones(self):
        # What the Go sidecar's own deploy/snapshot-metadata-cluster-role.yaml grants of use here.
        self.kube.service_account("sidecar-home", "shipped")
        self.kube.allow("shipped", "sidecar-home:shipped", [
            ("cbt.storage.k8s.io", "snapshotmetadataservices", "get list watch"),
            ("authentication.k8s.io", "tokenreviews", "create get"),
            ("authorization.k8s.io", "subjectaccessreviews", "create get"),
            ("snapshot.storage.k8s.io", "volumesnapshots", "get list"),
            ("snapshot.storage.k8s.io", "volumesnapshotcontents", "get list")])
        config = self.kube.kubeconfig_of_account("sidecar-home", "shipped")
        snapshot = self.bed.snapshot()
        upstream = self.upstream(f"--kubeconfig={config}")
        self.ends(self.ask(upstream, snapshot), "UNAVAILABLE", "forbidden")
        # Ours works with those, and with its own is refused nothing.
        poor = self.cairn(f"--kubeconfig={config}")
        self.ends(self.ask(poor, snapshot), "OK")
        self.ends(poor.client.delta(self.bed.token, "one", "x", snapshot), "OK")
        cairn = self.cairn()
        self.ends(self.ask(cairn, snapshot), "OK")
        self.ends(cairn.client.delta(self.bed.token, "one", "x", snapshot), "OK")
        self.assertNotIn("forbidden", cairn.log())

    def test_19_health_is_refused_before_the_driver_is_there(self):
        cairn, upstream = self.bed.cairn(self.driver), self.bed.upstream(self.driver)
        for sidecar in (cairn, upstream):
            self.addCleanup(sidecar.close)
            sidecar.start()
        eventually(lambda: cairn.health() == 503)
        self.assertEqual(cairn.http("/health"), (503, "not ready"))
        self.assertEqual(cairn.client.serving(), 2)
        self.ends(self.ask(cairn, "any"), "UNAVAILABLE", "the CSI driver is not yet ready")
        self.assertIsNone(upstream.health())
        self.driver.start()
        cairn.wait_ready()
        self.assertEqual(cairn.client.serving(), 1)
        self.assertEqual(cairn.http("/health"), (200, "ok"))

    def test_20_readiness_is_looked_at_once(self):
        cairn, upstream = self.both()
        self.driver.stop()
        eventually(lambda: cairn.health() == 503)
        self.assertIn("Unavailable", cairn.metrics())
        self.assertEqual(cairn.client.serving(), 2)
        self.assertIn(upstream.health(), (200, None))  # ok, or dead: never 503

    def test_21_a_slow_caller_holds_up_the_end(self):
        def endless(_request, context):
            at = 0
            while context.is_active():
                yield wire.message([((at + i) * 8192, 4096) for i in range(1024)])
                at += 1024
        self.driver.script = endless
        snapshot = self.bed.snapshot()
        cairn, upstream = self.cairn("--drain-time=500ms"), self.upstream()
        streams = [sidecar.client.start(self.bed.token, "one", snapshot)
                   for sidecar in (cairn, upstream)]
        for stream in streams:
            next(stream)
        for sidecar in (cairn, upstream):
            self.bed.processes.signal(sidecar.name, signal.SIGTERM)
        cairn.wait_gone()
        self.assertTrue(upstream.is_alive())
        for stream in streams:
            stream.cancel()

    def test_22_a_taken_http_port_is_the_end(self):
        snapshot = self.bed.snapshot()
        first = self.cairn()
        second, upstream = self.bed.cairn(self.driver), self.bed.upstream(self.driver)
        for sidecar in (second, upstream):
            self.addCleanup(sidecar.close)
            sidecar.start(f"--http-endpoint=127.0.0.1:{first.http_port}")
        upstream.wait_gone()
        eventually(lambda: self.ask(second, snapshot).code == "OK")
        # A request that never ends is given up, and nobody waits for it.
        with socket.create_connection(("127.0.0.1", first.http_port)) as slow:
            slow.sendall(b"GET /health HT")
            slow.settimeout(60)
            self.assertEqual(first.health(), 200)
            self.assertNotIn(b"200 OK", slow.recv(4096))

    def test_22b_health_and_metrics_over_tls(self):
        import ssl
        import urllib.request
        cairn = self.bed.cairn(self.driver)
        self.addCleanup(cairn.close)
        self.driver.start()
        cairn.start("--http-tls")
        context = ssl.create_default_context(cafile=str(self.bed.authority))
        url = f"https://127.0.0.1:{cairn.http_port}/healthz"

        def answers():
            try:
                with urllib.request.urlopen(url, context=context, timeout=60) as reply:
                    return reply.read() == b"ok"
            except OSError:
                return False
        eventually(answers)

    def test_23_streams_of_the_driver_are_not_measured(self):
        snapshot = self.bed.snapshot()
        for sidecar in self.both():
            self.ends(self.ask(sidecar, snapshot), "OK")
            self.assertEqual('method_name="/csi.v1.SnapshotMetadata/GetMetadataAllocated"' in
                             sidecar.metrics(), "cairn" in sidecar.name)

    def test_24_a_callers_deadline_does_not_end_its_questions(self):
        warm, cold = self.bed.snapshot(), self.bed.snapshot()
        cairn = self.cairn()
        self.ends(self.ask(cairn, warm), "OK")
        self.bed.processes.signal("kube-apiserver", signal.SIGSTOP)
        try:
            # Longer than a busy machine needs to send it, and shorter than the sidecar's own limit.
            self.ends(self.ask(cairn, cold, timeout=8), "DEADLINE_EXCEEDED")
            eventually(lambda: cairn.metric("cairn_sidecar_streams") == 0)
            # Whichever of the two sees the deadline first: the sidecar, or its caller.
            ended = [f'{OPERATIONS}_count{{driver_name="{DRIVER}",method_name='
                     f'"MetadataAllocated",grpc_status_code="{code}"}}'
                     for code in ("DeadlineExceeded", "Canceled")]
            eventually(lambda: any(cairn.metric(name) == 1 for name in ended))
        finally:
            self.bed.processes.signal("kube-apiserver", signal.SIGCONT)
        eventually(lambda: self.ask(cairn, cold).code == "OK")

    def test_25_it_listens_everywhere(self):
        snapshot = self.bed.snapshot()
        cairn, upstream = self.both()
        for sidecar in (cairn, upstream):
            elsewhere = Client(sidecar.port, self.bed.authority, host="127.0.0.2")
            outcome = elsewhere.allocated(self.bed.token, "one", snapshot)
            elsewhere.close()
            self.assertEqual(outcome.code, "UNAVAILABLE" if sidecar is cairn else "OK")
        silent = self.bed.cairn(self.driver, http=False)
        self.addCleanup(silent.close)
        silent.start("--http-endpoint=")
        eventually(lambda: self.ask(silent, snapshot).code == "OK")


class GoDriver(unittest.TestCase):
    """`cairn sidecar` before a driver that others' libraries serve: grpc-go."""

    NAME = "defectdriver.cairn.test"

    def setUp(self):
        self.bed = self.enterContext(Bed())
        program = cluster.peers("defectdriver")["defectdriver"]
        self.home = self.bed.directory / "volumes"
        self.home.mkdir()
        self.socket = self.bed.directory / "go.sock"
        self.bed.processes.start("go-driver", [program, f"--endpoint=unix://{self.socket}",
                                               f"--dir={self.home}"])
        self.bed.processes.wait_ready("go-driver", self.socket.exists)
        self.channel = grpc.insecure_channel(f"unix:{self.socket}")
        self.addCleanup(self.channel.close)

    def call(self, method, request):
        """The id in the answer's first field."""
        reply = self.channel.unary_unary(f"/csi.v1.Controller/{method}")(request, timeout=60)
        return dict(wire.fields(dict(wire.fields(reply))[1]))[2].decode()

    def test_a_listing_of_a_go_driver(self):
        block = wire.text(3, b"\x0a\x00" + wire.text(3, wire.number(1, 1)))
        volume = self.call("CreateVolume", wire.text(1, "v") + block)
        written = {3, 4, 100}
        with open(self.home / volume, "r+b") as file:
            for number in written:
                file.seek(number * 4096)
                file.write(b"x" * 4096)
        handle = self.call("CreateSnapshot", wire.text(1, volume) + wire.text(2, "s"))
        self.bed.add_service(self.NAME)
        snapshot = self.bed.snapshot(handle=handle, driver=self.NAME, klass=None)
        sidecar = self.bed.cairn(self.socket)
        self.addCleanup(sidecar.close)
        sidecar.start()
        sidecar.wait_ready()
        outcome = sidecar.client.allocated(self.bed.token, "one", snapshot)
        self.assertEqual(outcome.code, "OK", outcome)
        self.assertEqual({at // 4096 for offset, size in outcome.tuples
                          for at in range(offset, offset + size, 4096)}, written)
        outcome = sidecar.client.allocated(self.bed.token, "one", snapshot, offset=1 << 60)
        self.assertEqual(outcome.code, "OUT_OF_RANGE", outcome)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
