#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The same question to the flavours of the API, each the way an application asks it on a real
control plane: the shipped gRPC service, snapshot sessions, DifferentialSnapshot and
VolumeSnapshotDelta. All must tell the same blocks, and miss none."""
import base64
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

import cluster
from generations import BLOCK, DEPLOY, GROUP, HOST, MIB, OLDER, GenerationsTest, Roles, blocks
from processes import Failed, wait_until
from test_aggapi import Stack

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))
import grpc  # noqa: E402
from csidriver import blocks_told, load  # noqa: E402  pylint: disable=wrong-import-position

CLIENT = cluster.peers_or_skip("dynamic-client")["dynamic-client"]
TOOLS = cluster.peers_or_skip("grpcurl", "kubectl")
LIMITS = (1, 7, 256)
SHIPPED, SESSION = load("snapshotmetadata", "snapshot_session")


class FlavoursTest(GenerationsTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prepare_roles()
        cls.roles.start_all()
        cls.stack = Stack(cls.bed)
        cls.addClassCleanup(cls.stack.ports.close)
        cls.stack.start("--user-rate", "0")
        cls.kube.allow("app-deltas", "default:app", namespace="default",
                       role="cairn-volumesnapshotdelta-creator")
        roles = cls.roles
        cls.token, cls.https, cls.grpc_port = roles.token, roles.https, roles.grpc_port
        cls.app = cls.kube.kubeconfig_of_account("default", "app")
        credentials = grpc.ssl_channel_credentials(roles.authority.crt.read_bytes())
        cls.channel = grpc.secure_channel(f"{HOST}:{cls.grpc_port}", credentials)
        cls.addClassCleanup(cls.channel.close)
        grpc.channel_ready_future(cls.channel).result(timeout=60)
        cls.history("data")
        cls.history("other")

    def stream(self, module, method, /, **fields):
        service = module.DESCRIPTOR.services_by_name["SnapshotMetadata"]
        found = service.methods_by_name[method]
        # pylint: disable=protected-access
        call = self.channel.unary_stream(
            f"/{service.full_name}/{method}",
            request_serializer=found.input_type._concrete_class.SerializeToString,
            response_deserializer=found.output_type._concrete_class.FromString)
        return list(call(found.input_type._concrete_class(**fields), timeout=60))

    def refuses(self, code, *args, **fields):
        with self.assertRaises(grpc.RpcError) as caught:
            self.stream(*args, **fields)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        return caught.exception.details()

    def session(self, name, *snapshots):
        return self.roles.session(name, *snapshots)

    def tuples(self, messages, limit):
        return blocks_told(self, messages, limit)

    def shipped(self, base, target, limit):
        token = self.kube.token("default", "app", Roles.AUDIENCE)
        common = {"security_token": token, "namespace": "default", "max_results": limit}
        if base:
            return self.tuples(self.stream(
                SHIPPED, "GetMetadataDelta", base_snapshot_id=self.csi.snapshot_id(base),
                target_snapshot_name=target, **common), limit)
        return self.tuples(self.stream(SHIPPED, "GetMetadataAllocated", snapshot_name=target,
                                       **common), limit)

    def in_session(self, token, base, target, limit, volume=None):
        common = {"session_token": token, "max_results": limit,
                  "volume_id": volume or self.csi.volume_id("data")}
        if base:
            messages = self.stream(SESSION, "GetDelta", base_snapshot=base,
                                   target_snapshot=target, **common)
        else:
            messages = self.stream(SESSION, "GetAllocated", snapshot=target, **common)
        self.assertEqual({m.block_metadata_type for m in messages}, {1})
        self.assertEqual({m.volume_size_bytes for m in messages}, {16 << 20})
        return self.tuples(messages, limit)

    def works(self, token, *passing):
        """Blocks, or None while the sidecar or the driver is away, or fails with `passing`."""
        try:
            return self.in_session(token, "data-1", "data-2", 256)
        except grpc.RpcError as failed:
            self.assertIn(failed.code(), (grpc.StatusCode.UNAVAILABLE, *passing),
                          failed.details())
            return None

    def is_over(self, token):
        """Whether the session of "data-2" is known no more."""
        try:
            self.in_session(token, None, "data-2", 256)
            return False
        except grpc.RpcError as failed:
            return failed.code() == grpc.StatusCode.UNAUTHENTICATED

    def differential(self, base, target, limit):
        found, at = set(), ""
        query = f"target={target}" + (f"&base={base}" if base else "")
        while True:
            page = self.https.get(f"/namespaces/default/diff?{query}&maxEntries={limit}"
                                  + (f"&startOffset={at}" if at else ""), self.token)
            for entry in page["ChangeBlockList"]:
                found |= blocks(entry["Offset"], entry["Size"])
            at = page["NextOffset"]
            if not at:
                return found

    def deltas(self, base, target, limit):
        """Through the aggregated API server."""
        found, at = set(), 0
        spec = {"targetVolumeSnapshotName": target, "mode": "block", "limit": limit}
        if base:
            spec["baseVolumeSnapshotName"] = base
        while True:
            status = self.kube.request(
                "POST", f"/apis/{GROUP}/v1alpha1/namespaces/default/volumesnapshotdeltas",
                {"apiVersion": f"{GROUP}/v1alpha1", "kind": "VolumeSnapshotDelta",
                 "metadata": {"name": "flavours"}, "spec": {**spec, "offset": at}},
                token=self.token)["status"]
            entries = status.get("changedBlockDeltas", [])
            self.assertLessEqual(len(entries), limit)
            for entry in entries:
                size = entry["blockSizeBytes"]
                found |= blocks(entry["offset"] * size, size)
            if status["state"] != "Continue":
                self.assertEqual(status["state"], "Completed", status)
                return found
            self.assertGreater(status["continue"], at)
            at = status["continue"]

    def client_go(self, *words, kubeconfig=None):
        """The program on client-go's dynamic client: its finished process."""
        return subprocess.run(
            [CLIENT, "-kubeconfig", kubeconfig or self.app, "-ca", self.roles.authority.crt, *words],
            capture_output=True, text=True, timeout=90, check=False)


class Flavours(FlavoursTest):
    def test_each_tells_the_same_blocks(self):
        token = self.session("same", "data-1", "data-2")
        volume = self.csi.volume_id("data")
        for base in ("data-1", None):
            expected = self.truth(base, "data-2")
            self.assertTrue(expected)
            for limit in LIMITS:
                with self.subTest(base=base, limit=limit):
                    self.assertEqual(self.shipped(base, "data-2", limit), expected)
                    self.assertEqual(self.in_session(token, base, "data-2", limit), expected)
                    self.assertEqual(self.in_session(token, base, "data-2", limit, volume),
                                     expected)
                    self.assertEqual(self.differential(base, "data-2", limit), expected)
                    self.assertEqual(self.deltas(base, "data-2", limit), expected)

    def test_a_driver_that_speaks_only_the_shipped_flavour_is_translated(self):
        token = self.session("translated", "data-1", "data-2")
        direct = self.in_session(token, "data-1", "data-2", 7)
        command = self.bed.processes.commands["driver"][0]
        self.bed.processes.stop("driver")
        self.bed.processes.start("driver", [word for word in command if word not in OLDER])
        self.bed.processes.wait_ready("driver", self.csi.socket.exists)
        try:
            wait_until(lambda: self.works(token), 120, "the driver is back")
            for limit in LIMITS:
                self.assertEqual(self.in_session(token, "data-1", "data-2", limit), direct)
            self.refuses(grpc.StatusCode.OUT_OF_RANGE, SESSION, "GetDelta", session_token=token,
                         volume_id=self.csi.volume_id("data"), base_snapshot="data-1",
                         target_snapshot="data-2", starting_byte_offset=2**63 + 1)
        finally:
            self.bed.processes.stop("driver")
            self.bed.processes.start("driver", command)
            self.bed.processes.wait_ready("driver", self.csi.socket.exists)
            wait_until(lambda: self.works(token), 120, "the driver is back")

    def test_what_a_session_is_not_good_for(self):
        token = self.session("narrow", "data-1", "data-2")
        code = grpc.StatusCode
        delta = {"session_token": token, "base_snapshot": "data-1", "target_snapshot": "data-2",
                 "volume_id": self.csi.volume_id("data")}
        for wanted, fields in [
                (code.INVALID_ARGUMENT, {"session_token": ""}),
                (code.UNAUTHENTICATED, {"session_token": "0" * 64}),
                (code.UNAUTHENTICATED, {"session_token": token[:-1]}),
                (code.UNAUTHENTICATED, {"session_token": token.upper()}),
                (code.UNAUTHENTICATED, {"session_token": "x" * 5000}),
                (code.UNAUTHENTICATED, {"session_token": self.token}),
                (code.INVALID_ARGUMENT, {"volume_id": ""}),
                (code.INVALID_ARGUMENT, {"base_snapshot": ""}),
                (code.INVALID_ARGUMENT, {"target_snapshot": ""}),
                (code.PERMISSION_DENIED, {"base_snapshot": "other-1"}),
                (code.PERMISSION_DENIED, {"target_snapshot": "other-2"}),
                (code.NOT_FOUND, {"volume_id": self.csi.volume_id("other")}),
                (code.INVALID_ARGUMENT, {"base_snapshot": "data-2",
                                         "target_snapshot": "data-1"}),
                (code.OUT_OF_RANGE, {"starting_byte_offset": (16 << 20) + 1})]:
            with self.subTest(**fields):
                text = self.refuses(wanted, SESSION, "GetDelta", **{**delta, **fields})
                self.assertNotIn(token, text)
                for name in ("data-1", "data-2"):
                    self.assertNotIn(self.csi.snapshot_id(name), text, "a handle")
        mixed = self.session("mixed", "data-1", "other-2")
        text = self.refuses(code.INVALID_ARGUMENT, SESSION, "GetDelta", session_token=mixed,
                            volume_id=self.csi.volume_id("other"), base_snapshot="data-1",
                            target_snapshot="other-2")
        self.assertIn("'data-1' and 'other-2'", text)
        for name in ("sidecar", "manager", "driver", "diffsnap"):
            log = self.bed.processes.log_text(name)
            self.assertNotIn(token, log, f"{name} logs a session token")
            self.assertNotIn(self.token, log, f"{name} logs a token")

    def test_a_session_ends(self):
        token = self.session("ends", "data-2")
        self.assertTrue(self.in_session(token, None, "data-2", 256))
        self.kube.kubectl("delete", "snapshotsessionrequest", "ends")
        wait_until(lambda: self.is_over(token), 180, "the session is over")

    def test_the_example_of_a_shell_client(self):
        tools = self.bed.directory / "tools"
        tools.mkdir()
        for name, path in TOOLS.items():
            (tools / name).symlink_to(path)
        done = subprocess.run(
            [DEPLOY.parent / "examples/session-client.sh", "default", "data-1", "data-2"],
            env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "KUBECONFIG": str(self.app),
                 "HOME": str(self.bed.directory), "VOLUME": self.csi.volume_id("data"),
                 "PROTO": str(DEPLOY.parent / "src/proto")},
            capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        found, decoder, at = set(), json.JSONDecoder(), 0
        while done.stdout[at:].strip():
            at += len(done.stdout[at:]) - len(done.stdout[at:].lstrip())
            message, at = decoder.raw_decode(done.stdout, at)
            for entry in message.get("blockMetadata", ()):
                found |= blocks(int(entry.get("byteOffset", 0)), int(entry["sizeBytes"]))
        self.assertEqual(found, self.truth("data-1", "data-2"))

    def test_the_example_of_a_c_client(self):
        """With the rights of an application, which may delete its requests."""
        account = self.bed.directory / "account"
        account.mkdir()
        (account / "ca.crt").write_bytes(pathlib.Path(self.kube.authority).read_bytes())
        (account / "token").write_text(self.roles.token)
        host, _, port = self.kube.server.removeprefix("https://").rpartition(":")
        environment = {"ACCOUNT": str(account), "KUBERNETES_SERVICE_HOST": host,
                       "KUBERNETES_SERVICE_PORT": port, "VOLUME": self.csi.volume_id("data")}

        def run(*words):
            return subprocess.run([os.environ["CAIRN_SESSION_CLIENT"], *words], env=environment,
                                  capture_output=True, text=True, timeout=120, check=False)
        self.kube.allow("c-client", f"default:{self.roles.account}", namespace="default",
                        rules=[(GROUP, "snapshotsessionrequests", "delete")])
        done = wait_until(lambda: (lambda one: one.returncode == 0 and one)(
            run("default", "data-1", "data-2")), 180, "it may delete its request")
        found = set().union(*[blocks(*map(int, line.split())) for line in done.stdout.splitlines()])
        self.assertEqual(found, self.truth("data-1", "data-2"))
        # The order of snapshots is wrong: the service's own error is shown.
        done = run("default", "data-2", "data-1")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "status [39]:")
        done = run("default", "data-1", "nothing")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing", done.stderr)

    def test_an_application_on_client_go(self):
        expected = self.truth("data-1", "data-2")
        for limit in LIMITS:
            done = self.client_go("-limit", str(limit), "differential", f"go-{limit}", "data-2",
                                  "data-1")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(set().union(*[blocks(*b) for b in json.loads(done.stdout)]),
                             expected)
            done = self.client_go("-limit", str(limit), "delta", "go", "data-2", "data-1")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(set().union(*[blocks(*b) for b in json.loads(done.stdout)]),
                             expected)
        done = self.client_go("differential", "go-none", "none", "data-1")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no VolumeSnapshot 'default/none'", done.stderr)
        done = self.client_go("session", "go", "data-1", "data-2")
        self.assertEqual(done.returncode, 0, done.stderr)
        status = json.loads(done.stdout)
        self.assertEqual(status["sessionState"], "Ready")
        token = base64.b64decode(status["sessionToken"]).decode()
        self.assertEqual(self.in_session(token, "data-1", "data-2", 256), expected)
        done = self.client_go("session", "go-none", "none")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["sessionState"], "Failed")

    # ---- switched off and on ----

    COMPONENTS = {  # {name: (option of the driver, roles)}
        "sessions": ("--sessions", ("manager",)),
        "diffsnap": ("--differential-snapshots", ("diffsnap",)),
        "volumesnapshotdelta": ("--snapshot-deltas", ("aggapi", "cbt-http"))}

    def start_again(self, name, command):
        """A driver or sidecar with other options; controllers end when they lose the driver, and a
        kubelet would start them again."""
        processes = self.bed.processes
        processes.stop(name)
        processes.start(name, command)
        if name == "driver":
            processes.wait_ready("driver", self.csi.socket.exists)
            for one in ("csi-provisioner", "csi-resizer", "csi-snapshotter"):
                processes.restart(one)

    @staticmethod
    def without_sessions(command):
        words, left = iter(command), []
        for word in words:
            if word.startswith("--session-"):
                next(words)  # its value
            elif word != "--sessions":
                left.append(word)
        return left

    def switch_off(self, name, driver, sidecar):
        option, roles = self.COMPONENTS[name]
        for role in roles:
            self.bed.processes.stop(role)
        self.kube.kubectl("delete", "-k", DEPLOY / "components" / name, "--ignore-not-found",
                          "--timeout=120s", timeout=150)
        self.start_again("driver", [word for word in driver if word != option])
        if name == "sessions":
            self.start_again("sidecar", self.without_sessions(sidecar))

    def switch_on(self, name, driver, sidecar):
        self.roles.prepare()
        if name == "volumesnapshotdelta":
            self.stack.prepare()
        for account in ("cairn-manager", "cairn-diffsnap", "cairn-aggapi", "cairn-cbt-http"):
            self.kube.kubeconfig_of_account("cairn", account)  # accounts that are made anew
        self.start_again("driver", driver)
        if name == "sessions":
            self.start_again("sidecar", sidecar)
        for role in self.COMPONENTS[name][1]:
            self.bed.processes.start(role, self.bed.processes.commands[role][0])
        if name == "volumesnapshotdelta":
            self.stack.register()

    def asked(self, name, base, target, limit=256):
        """The blocks in the way of that component; None while it cannot be asked."""
        try:
            if name == "sessions":
                token = self.session(f"{target}-{time.monotonic_ns()}", base, target)
                return self.in_session(token, base, target, limit)
            return (self.differential if name == "diffsnap" else self.deltas)(base, target, limit)
        except (grpc.RpcError, AssertionError, OSError, Failed):
            return None

    def test_snapshots_made_while_one_is_off_answer_when_it_is_on_again(self):
        commands = [self.bed.processes.commands[name][0] for name in ("driver", "sidecar")]
        last = "data-2"
        for number, name in enumerate(self.COMPONENTS, 3):
            with self.subTest(off=name):
                self.switch_off(name, *commands)
                self.write("data", number * MIB + 8 * BLOCK, os.urandom(3 * BLOCK))
                made = f"data-{number}"
                self.csi.snapshot(made, "data")
                expected = self.truth(last, made)
                self.assertTrue(expected)
                wait_until(lambda: self.shipped(last, made, 256) == expected, 120,
                           "the shipped flavour answers meanwhile")
                self.assertIsNone(self.asked(name, last, made))
                self.switch_on(name, *commands)
                wait_until(lambda: self.asked(name, last, made) == expected, 120,
                           f"{name} answers for what was made meanwhile")
                last = made
        for name in self.COMPONENTS:
            wait_until(lambda: self.asked(name, "data-1", last) == self.truth("data-1", last), 120,
                       "all answer again, over all snapshots")

    def test_guesses_cost_no_call_to_the_api_server(self):
        def reads():
            text = self.kube.ask("GET", "/metrics")[1]
            return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                       if line.startswith("apiserver_request_total{") and
                       'resource="snapshotsessiondata"' in line and 'verb="GET"' in line)
        before = reads()
        for i in range(40):
            self.refuses(grpc.StatusCode.UNAUTHENTICATED, SESSION, "GetAllocated",
                         session_token=f"{i:064x}", snapshot="data-2", volume_id="any")
        self.assertEqual(reads(), before)

    def test_an_expired_session_is_refused_before_it_is_deleted(self):
        self.bed.processes.stop("manager")
        try:
            name = "f" * 64
            self.kube.apply({"apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionData",
                             "metadata": {"name": name, "namespace": "cairn"},
                             "spec": {"expiryTime": "2020-01-01T00:00:00Z",
                                      "snapshotNamespace": "default", "snapshots": ["data-2"]}})
            time.sleep(1)
            self.refuses(grpc.StatusCode.UNAUTHENTICATED, SESSION, "GetAllocated",
                         session_token=name, snapshot="data-2", volume_id="any")
        finally:
            self.bed.processes.start("manager", self.bed.processes.commands["manager"][0])


if __name__ == "__main__":
    unittest.main()
