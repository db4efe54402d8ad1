# SPDX-License-Identifier: Apache-2.0
"""Starting and calling `cairn-velero-plugin` as Velero does, with an API server that the test plays."""
import json
import os
import pathlib
import subprocess
import tempfile
import threading

from csidriver import Code, grpc, load
from rolesbed import SECONDS, RolesTest

PLUGIN = os.environ["CAIRN_VELERO_PLUGIN"]
SHARED, ACTIONS, BLOCKS, SNAPSHOTTER, HOST = load(
    "velero_shared", "velero_actions", "velero_blocks", "velero_snapshotter", "go_plugin")
PVC, VS, VSC, PV = (f"cairn.csi.dev/csi-{name}" for name in ("pvc", "vs", "vsc", "pv"))
SNAPSHOTS = "/apis/snapshot.storage.k8s.io/v1"
DRIVER = "d.io"
BACKUP = {"metadata": {"name": "b1", "namespace": "velero", "uid": "backup-uid"}, "spec": {}}


def method(module, service, name):
    found = module.DESCRIPTOR.services_by_name[service]
    call = found.methods_by_name[name]
    # pylint: disable=protected-access
    return (f"/{found.full_name}/{name}", call.input_type._concrete_class,
            call.output_type._concrete_class)


def claim(name="data", **spec):
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "shop", "generation": 9007199254740993},
            "spec": {"volumeName": "pv", "resources": {"requests": {"storage": "1Mi"}}, **spec},
            "status": {"phase": "Bound"}}


class Plugin:
    """A plugin process, and calls to it."""

    def __init__(self, *words, environment=None, scratch=None):
        self.scratch, self.seconds = scratch, SECONDS
        self.process = subprocess.Popen(
            [PLUGIN, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
            env={**os.environ, "VELERO_PLUGIN": "hello", "PLUGIN_PROTOCOL_VERSIONS": "2",
                 "TMPDIR": str(scratch), **(environment or {})})
        self.line = self.process.stdout.readline()
        self.channel = None
        if self.line:
            fields = self.line.split("|")
            self.socket = fields[3]
            self.channel = grpc.insecure_channel(f"unix://{self.socket}", options=[
                ("grpc.enable_retries", 0), ("grpc.max_receive_message_length", -1),
                ("grpc.max_send_message_length", -1)])
            path, request, response = method(HOST, "GRPCStdio", "StreamStdio")
            self.stdio = self.channel.unary_stream(path, request.SerializeToString,
                                                   response.FromString)(request())

    def call(self, module, service, name, /, **fields):
        path, request, response = method(module, service, name)
        return self.channel.unary_unary(path, request.SerializeToString, response.FromString)(
            request(**fields), timeout=self.seconds, wait_for_ready=True)

    def back_up(self, plugin, item, backup=None):
        return self.call(ACTIONS, "BackupItemAction", "Execute", plugin=plugin,
                         item=item if isinstance(item, bytes) else json.dumps(item).encode(),
                         backup=json.dumps(backup or BACKUP).encode())

    def end(self):
        """(exit status, lines of the log) after Velero's request to end."""
        self.call(HOST, "GRPCController", "Shutdown")
        self.channel.close()
        return self.ended()

    def ended(self):
        out, log = self.process.communicate(timeout=SECONDS)
        assert out == "", out
        return self.process.returncode, log.splitlines()


class PluginTest(RolesTest):
    def start_plugin(self, *words, **how):
        plugin = Plugin("--kubeconfig", self.config, "--log-level=debug", *words,
                        scratch=pathlib.Path(tempfile.mkdtemp(dir=self.directory)), **how)
        for step in (plugin.process.stderr.close, plugin.process.stdout.close,
                     plugin.process.wait, plugin.process.kill):  # the last one first
            self.addCleanup(step)
        return plugin

    def prepare_kube(self):
        self.handle, self.patched = "handle-1", []
        self.bound_to, self.policy = None, "Delete"  # None: the snapshot that names the content
        store = self.kube.store

        def with_controller(where, item, made=False):
            result = store(where, item, made)
            if made and where["plural"] == "volumesnapshots" and self.handle:
                threading.Thread(target=self.bind, args=(result,), daemon=True).start()
            if where["plural"] == "volumesnapshotcontents" and not made:
                self.patched.append(item["spec"]["deletionPolicy"])
            return result
        self.kube.store = with_controller
        self.kube.put("/api/v1/persistentvolumes", {
            "metadata": {"name": "pv"}, "spec": {"csi": {"driver": DRIVER, "volumeHandle": "v"}}})
        self.kube.put("/api/v1/persistentvolumes", {
            "metadata": {"name": "local"}, "spec": {"hostPath": {"path": "/x"}}})
        self.kube.put(f"{SNAPSHOTS}/volumesnapshotclasses", {
            "metadata": {"name": "fast"}, "driver": DRIVER, "deletionPolicy": "Delete"})

    def bind(self, made):
        """As the controllers do; readyToUse stays false."""
        name, ns = made["metadata"]["name"], made["metadata"]["namespace"]
        self.kube.put(f"{SNAPSHOTS}/volumesnapshotcontents", {
            "metadata": {"name": f"content-of-{name}"},
            "spec": {"driver": DRIVER, "deletionPolicy": self.policy,
                     "source": {"volumeHandle": "v"},
                     "volumeSnapshotRef": {"namespace": ns, "name": self.bound_to or name}},
            "status": {"snapshotHandle": self.handle, "restoreSize": 3 << 20,
                       "readyToUse": False}})
        where = {"group": "snapshot.storage.k8s.io", "plural": "volumesnapshots", "ns": ns,
                 "name": name, "sub": None}
        self.kube.change(where, {"status": {
            "boundVolumeSnapshotContentName": f"content-of-{name}",
            "creationTime": "2026-11-17T00:00:00Z", "readyToUse": False}}, True, None)

    def snapshots(self):
        return self.kube.list(f"{SNAPSHOTS}/volumesnapshots")

    def assert_refused(self, code, text, call, *words, **fields):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*words, **fields)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        self.assertIn(text, caught.exception.details())


__all__ = ["ACTIONS", "BACKUP", "BLOCKS", "Code", "DRIVER", "HOST", "PLUGIN", "PV", "PVC", "PluginTest", "SHARED",
           "SNAPSHOTS", "SNAPSHOTTER", "VS", "VSC", "claim"]
