# SPDX-License-Identifier: Apache-2.0
"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler on loopback."""
import shutil
import socket
import urllib.error
import urllib.request

from pki import CLIENT, SERVER, Authority, make_signing_key
from processes import Failed

ISSUER = "https://kubernetes.default.svc.cluster.local"
SERVICE_RANGE = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"  # what pods find the API server at
LOOPBACK = "127.0.0.1"
LOCAL_NAMES = ["DNS:localhost", f"IP:{LOOPBACK}"]
SERVER_NAMES = LOCAL_NAMES + [f"IP:{SERVICE_ADDRESS}"] + [
    f"DNS:{name}" for name in ("kubernetes", "kubernetes.default", "kubernetes.default.svc",
                               "kubernetes.default.svc.cluster.local")]


def http_answers(url):
    try:
        with urllib.request.urlopen(url, timeout=20) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


class ControlPlane:
    def __init__(self, directory, processes, ports, programs, kube):
        self.directory, self.processes, self.ports = directory, processes, ports
        self.programs, self.kube = programs, kube
        self.pki = directory / "pki"
        self.authority = Authority(self.pki, "ca", "test bed")
        self.front = Authority(self.pki, "front-proxy-ca", "front proxy of the test bed")

    def make_files(self):
        issue = self.authority.issue
        issue("apiserver", "/CN=kube-apiserver", SERVER, SERVER_NAMES)
        issue("kubelet-client", "/O=system:masters/CN=apiserver-kubelet-client", CLIENT)
        self.front.issue("front-proxy", "/CN=front-proxy-client", CLIENT)
        make_signing_key(self.pki / "sa.key", self.pki / "sa.pub")
        self.kube.identity = issue("admin", "/O=system:masters/CN=test-admin", CLIENT)
        self.kube.kubeconfig_of_certificate("admin", *self.kube.identity)
        for name in ("kube-controller-manager", "kube-scheduler"):
            pair = issue(name, f"/CN=system:{name}", f"{CLIENT},{SERVER}", LOCAL_NAMES)
            self.kube.kubeconfig_of_certificate(name, *pair)

    def start_etcd(self):
        if not shutil.which("etcd"):
            raise Failed("etcd is not installed (scripts/deps peers)")
        client, peer = (f"http://{LOOPBACK}:{self.ports.take()}" for _ in range(2))
        self.processes.start("etcd", [
            "etcd", "--name=test", f"--data-dir={self.directory}/etcd", "--unsafe-no-fsync",
            "--logger=zap", "--log-level=warn", f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=test={peer}"])
        self.processes.wait_ready("etcd", lambda: http_answers(f"{client}/health"))
        return client

    def start_apiserver(self, etcd, address, port, gates, more):
        pki = self.pki
        self.processes.start("kube-apiserver", [
            self.programs["kube-apiserver"], f"--etcd-servers={etcd}",
            f"--bind-address={address}", f"--secure-port={port}",
            f"--advertise-address={LOOPBACK}", "--endpoint-reconciler-type=none",
            f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
            f"--client-ca-file={pki}/ca.crt", "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
            f"--service-cluster-ip-range={SERVICE_RANGE}", "--profiling=false",
            f"--service-account-issuer={ISSUER}", f"--api-audiences={ISSUER}",
            f"--service-account-key-file={pki}/sa.pub",
            f"--service-account-signing-key-file={pki}/sa.key",
            f"--kubelet-client-certificate={pki}/kubelet-client.crt",
            f"--kubelet-client-key={pki}/kubelet-client.key",
            # So that an APIService may lead to a Service of type ExternalName.
            "--enable-aggregator-routing=false",
            f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={pki}/front-proxy.crt",
            f"--proxy-client-key-file={pki}/front-proxy.key", *gates, *more])
        self.processes.wait_ready("kube-apiserver", lambda: self.kube.answers("/readyz"))

    def controller_words(self, name, port):
        """What the controller manager and the scheduler have in common."""
        config = f"{self.directory}/{name}.kubeconfig"
        return [self.programs[name], f"--kubeconfig={config}", "--leader-elect=false",
                f"--authentication-kubeconfig={config}", f"--authorization-kubeconfig={config}",
                f"--bind-address={LOOPBACK}", f"--secure-port={port}", "--profiling=false",
                f"--tls-cert-file={self.pki}/{name}.crt",
                f"--tls-private-key-file={self.pki}/{name}.key",
                # Slow by default, in order to spare a large cluster.
                "--kube-api-qps=1000", "--kube-api-burst=2000"]

    def start_controllers(self, scheduler, gates):
        name, port = "kube-controller-manager", self.ports.take()
        self.processes.start(name, [
            *self.controller_words(name, port), "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self.pki}/sa.key",
            f"--root-ca-file={self.pki}/ca.crt", f"--client-ca-file={self.pki}/ca.crt",
            f"--cluster-signing-cert-file={self.pki}/ca.crt",
            f"--cluster-signing-key-file={self.pki}/ca.key",
            f"--requestheader-client-ca-file={self.pki}/front-proxy-ca.crt", *gates])
        if scheduler:
            other, other_port = "kube-scheduler", self.ports.take()
            self.processes.start(other, [*self.controller_words(other, other_port), *gates])
            self.processes.wait_ready(other, lambda: accepts(other_port))
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.processes.wait_ready(name, lambda: self.kube.answers(account))

    def start(self, address, port, scheduler=False, feature_gates="", apiserver_args=()):
        gates = [f"--feature-gates={feature_gates}"] if feature_gates else []
        self.make_files()
        self.start_apiserver(self.start_etcd(), address, port, gates, apiserver_args)
        self.start_controllers(scheduler, gates)
