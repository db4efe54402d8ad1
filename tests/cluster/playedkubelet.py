# SPDX-License-Identifier: Apache-2.0
"""The part of a kubelet that the Jobs of backups need, for the nodes of nodesbed.py: pods that have a
node begin, their logs can be read through the API server, and they end as the test decides.

    kubelet = PlayedKubelet(bed)              # of all nodes; a context
    kubelet.hold()                            # pods begin and do not end
    kubelet.release()                         # … until here
    kubelet.fail("data-b", "NO_SPACE", "the repository is full")
"""
import collections
import datetime
import http.server
import json
import ssl
import threading
import time
import urllib.parse

from pki import SERVER

ROLE = "cairn.csi.dev/backup"
CLAIM = "cairn.csi.dev/claim-name"
PERIOD = 0.1  # seconds between looks at the pods


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class PlayedKubelet:
    def __init__(self, bed):
        self.bed, self.kube = bed, bed.kube
        self.lock = threading.Lock()
        self.logs = {}       # {(namespace, pod): text}
        self.summaries = {}  # {claim: what its backup says}
        self.failures = {}   # {claim: (code, message)}
        self.held = False
        self.most = collections.Counter()  # {node: pods at a time}, and {None: in all}
        self.backups = []    # (claim, node), in the order of their ends
        self.ended = threading.Event()
        self.servers = []

    def __enter__(self):
        crt, key = self.bed.authority.issue("played-kubelet", "/CN=kubelet", SERVER, ["DNS:kubelet"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(crt, key)
        for node in self.bed.nodes.values():
            server = http.server.ThreadingHTTPServer((node.address, 0), self.handler())
            server.socket = context.wrap_socket(server.socket, server_side=True)
            self.servers.append(server)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.status("nodes", node.name, {
                "addresses": [{"type": "InternalIP", "address": node.address}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": server.server_address[1]}}})
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def handler(self):
        kubelet = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                """/containerLogs/NAMESPACE/POD/CONTAINER"""
                parts = urllib.parse.urlsplit(self.path).path.split("/")
                with kubelet.lock:
                    body = kubelet.logs.get(tuple(parts[2:4]), "").encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass
        return Handler

    # ---- what tests say ----

    def hold(self):
        self.held = True

    def release(self):
        self.held = False

    def fail(self, claim, code, message):
        self.failures[claim] = (code, message)

    def forget(self):
        """What earlier tests said and did."""
        self.held = False
        for known in (self.summaries, self.failures, self.most, self.backups):
            known.clear()

    # ---- pods ----

    def status(self, kind, name, status, namespace=None):
        where = f"namespaces/{namespace}/" if namespace else ""
        self.kube.request("PATCH", f"/api/v1/{where}{kind}/{name}/status", {"status": status},
                          content_type="application/merge-patch+json")

    def begin(self, pod):
        meta = pod["metadata"]
        self.status("pods", meta["name"], {
            "phase": "Running", "startTime": now(), "containerStatuses": [{
                "name": "cairn", "image": "none", "imageID": "none", "ready": True, "restartCount": 0,
                "state": {"running": {"startedAt": now()}}}]}, meta["namespace"])

    def finish(self, pod):
        meta, claim = pod["metadata"], self.claim_of(pod)
        failure = self.failures.get(claim)
        said = {"error": failure[0], "message": failure[1]} if failure else {
            "event": "summary", "id": "ab" * 32, "volume": f"{meta['namespace']}/{claim}",
            "mode": "changed", "reason": None, "parent": "cd" * 32, "size_bytes": 1 << 26,
            "bytes_changed": 8192, "bytes_read": 4096, "bytes_stored": 1000,
            **self.summaries.get(claim, {})}
        with self.lock:
            self.logs[meta["namespace"], meta["name"]] = f"{now()} {json.dumps(said)}\n"
        code = 3 if failure else 0  # for good
        self.status("pods", meta["name"], {
            "phase": "Failed" if failure else "Succeeded", "containerStatuses": [{
                "name": "cairn", "image": "none", "imageID": "none", "ready": False, "restartCount": 0,
                "state": {"terminated": {"exitCode": code, "startedAt": now(), "finishedAt": now(),
                                         "reason": "Error" if failure else "Completed"}}}]},
            meta["namespace"])
        self.backups.append((claim, pod["spec"]["nodeName"]))

    def claim_of(self, pod):
        job = self.kube.get("-n", pod["metadata"]["namespace"], "job",
                            pod["metadata"]["labels"]["job-name"])
        return job["metadata"]["annotations"][CLAIM]

    def look(self):
        pods = [pod for pod in self.kube.request(
                    "GET", f"/api/v1/pods?labelSelector={ROLE}%3Dcreate")["items"]
                if "nodeName" in pod["spec"] and "deletionTimestamp" not in pod["metadata"]
                and pod["status"]["phase"] in ("Pending", "Running")]
        count = collections.Counter(pod["spec"]["nodeName"] for pod in pods)
        count[None] = len(pods)
        for node, number in count.items():
            self.most[node] = max(self.most[node], number)
        for pod in pods:
            if pod["status"]["phase"] == "Pending":
                self.begin(pod)
            elif not self.held:
                self.finish(pod)

    def remove_deleted(self):
        """What a kubelet does with pods that somebody deletes."""
        for pod in self.kube.request("GET", f"/api/v1/pods?labelSelector={ROLE}%3Dcreate")["items"]:
            if "deletionTimestamp" in pod["metadata"]:
                meta = pod["metadata"]
                self.kube.ask("DELETE", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
                                        "?gracePeriodSeconds=0")

    def run(self):
        while not self.ended.is_set():
            try:
                self.look()
                self.remove_deleted()
            except Exception:  # pylint: disable=broad-except
                pass  # a pod that is gone meanwhile, or an API server that is restarted
            time.sleep(PERIOD)
