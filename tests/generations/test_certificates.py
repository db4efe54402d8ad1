#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cairn manager --certificates` on a real control plane, with certificates that live for a minute:
what it makes, what it repairs, and that nobody is refused while it renews."""
import base64
import json
import os
import pathlib
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import yaml

import cluster
import pki
from processes import Ports, wait_until
from rights import Audit, Rights

cluster.peers_or_skip(*cluster.CONTROL_PLANE, "snapshot-crds")
DEPLOY = cluster.REPOSITORY / "deploy"
GROUP = "cbt.storage.k8s.io"
ACCOUNT = "system:serviceaccount:cairn:cairn-certificates"
SERVICES = ("snapshot-metadata", "manager", "diffsnap", "cbt-http", "aggapi")
LIFE, OVERLAP = 60, 8  # seconds
EXPIRY = "cairn_certificates_expiry_timestamp_seconds"
KINDS = ("CustomResourceDefinition", "Namespace", "ServiceAccount", "Role", "ClusterRole",
         "RoleBinding", "ClusterRoleBinding", "FlowSchema", "ValidatingAdmissionPolicy",
         "ValidatingAdmissionPolicyBinding")


def built(directory):
    done = subprocess.run([cluster.peers("kubectl")["kubectl"], "kustomize", DEPLOY / directory],
                          capture_output=True, text=True, check=True, timeout=120)
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def text_of(secret, key):
    return base64.b64decode(secret["data"][key]).decode()


def times(pem):
    """(begin, end) of a certificate, in seconds since 1970."""
    said = subprocess.run(["openssl", "x509", "-noout", "-dates"], input=pem, text=True,
                          capture_output=True, check=True).stdout
    begin, end = (ssl.cert_time_to_seconds(line.partition("=")[2]) for line in said.splitlines())
    return begin, end


def chain(directory, host):
    """What a PKI with an intermediate authority puts into a Secret; ca.crt is the root alone."""
    top = pki.Authority(directory / "corporate", "root", "Corporate root")
    crt, key = directory / "corporate/issuing.crt", directory / "corporate/issuing.key"
    top.make(crt, key, "/CN=Corporate issuing CA 3",
             ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign"],
             ["-CA", top.crt, "-CAkey", top.key])
    server, server_key = pki.Authority(directory / "corporate", "issuing", "").issue(
        "server", f"/CN={host}", pki.SERVER, [f"DNS:{host}"])
    return {"tls.crt": server.read_text() + crt.read_text(), "tls.key": server_key.read_text(),
            "ca.crt": top.crt.read_text()}, (server, server_key)


class Mounts(threading.Thread):
    """As a kubelet: the Secrets as files, which a link switches from old to new."""

    def __init__(self, kube, directory, names):
        super().__init__(daemon=True)
        self.kube, self.directory, self.names = kube, directory, names
        self.seen, self.ended = {}, threading.Event()

    def look(self):
        for name in self.names:
            secret = self.kube.get("-n", "cairn", "secret", f"cairn-{name}-tls")
            version = secret["metadata"]["resourceVersion"] if secret else None
            if secret and self.seen.get(name) != version:
                self.put(name, version, secret)

    def put(self, name, version, secret):
        top = self.directory / name
        data = top / f"..{version}"
        data.mkdir(parents=True, exist_ok=True)
        for key in secret["data"]:
            (data / key).write_text(text_of(secret, key))
        (top / "..next").symlink_to(data.name)
        os.replace(top / "..next", top / "..data")
        for key in secret["data"]:
            if not (top / key).is_symlink():
                (top / key).symlink_to(f"..data/{key}")
        self.seen[name] = version

    def run(self):
        while not self.ended.wait(0.5):
            self.look()


class Certificates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="cairn-cert-"))
        cls.audit = Audit(directory)
        cls.bed = cls.enterClassContext(cluster.Cluster(directory, crds=True,
                                                        apiserver_args=cls.audit.words))
        cls.kube, cls.processes = cls.bed.kube, cls.bed.processes
        cls.ports = Ports()
        cls.addClassCleanup(cls.ports.close)
        cls.port = {name: cls.ports.take() for name in ("manager", "aggapi")}
        cls.objects = built("overlays/all-generations") + built("components/certificates")
        for kinds in (("Namespace", "CustomResourceDefinition"), KINDS):
            cls.kube.apply([item for item in cls.objects if item["kind"] in kinds],
                           "--server-side")
            cls.kube.wait_crds()
        cls.install()

    @classmethod
    def install(cls):
        """Webhook and APIService as they are shipped, at ports of here."""
        for name, port in cls.port.items():
            cls.kube.apply({"apiVersion": "v1", "kind": "Service",
                            "metadata": {"name": f"cairn-{name}", "namespace": "cairn"},
                            "spec": {"type": "ExternalName", "externalName": "localhost",
                                     "ports": [{"port": port}]}})
        for item in cls.objects:
            if item["kind"] == "ValidatingWebhookConfiguration":
                item["webhooks"][0]["clientConfig"]["service"]["port"] = cls.port["manager"]
                cls.kube.apply(item)
            if item["kind"] == "APIService":
                item["spec"]["service"]["port"] = cls.port["aggapi"]
                cls.kube.apply(item)

    def start_keeper(self, name="keeper", *more):
        config = self.kube.kubeconfig_of_account("cairn", "cairn-certificates")
        self.processes.start(name, [
            self.bed.cairn, "manager", "--kubeconfig", config, "--namespace", "cairn",
            "--certificates=all", f"--certificate-life={LIFE}s",
            f"--certificate-overlap={OVERLAP}s", *more])
        self.addCleanup(self.processes.stop, name)

    def start_roles(self):
        tls = self.bed.directory / "tls"
        self.mounts = Mounts(self.kube, tls, SERVICES)
        wait_until(lambda: self.mounts.look() or len(self.mounts.seen) == len(SERVICES), 60,
                   "the Secrets are made")
        self.mounts.start()
        self.addCleanup(self.mounts.ended.set)
        for name, words in (
                ("manager", ["--webhook", f"127.0.0.1:{self.port['manager']}",
                             "--webhook-secret", tls / "manager/webhook-secret"]),
                ("aggapi", ["--listen", f"127.0.0.1:{self.port['aggapi']}"])):
            self.processes.start(name, [
                self.bed.cairn, name, "--kubeconfig",
                self.kube.kubeconfig_of_account("cairn", f"cairn-{name}"),
                "--tls-cert", tls / name / "tls.crt", "--tls-key", tls / name / "tls.key", *words])

    def secret(self, name):
        return self.kube.get("-n", "cairn", "secret", f"cairn-{name}-tls")

    def bundles(self):
        """{service: base64 of the authorities that clients are told to trust}"""
        hook = self.kube.get("validatingwebhookconfiguration", "cairn-sessions")
        return {
            "manager": hook["webhooks"][0]["clientConfig"].get("caBundle"),
            "aggapi": self.kube.get("apiservice", f"v1alpha1.{GROUP}")["spec"].get("caBundle"),
            "snapshot-metadata": (self.kube.get("snapshotmetadataservice", "cairn.csi.dev") or
                                  {"spec": {}})["spec"].get("caCert")}

    def is_published(self):
        return all(bundle == self.secret(name)["data"]["ca.crt"]
                   for name, bundle in self.bundles().items())

    def ask(self):
        """None, or why a session or the aggregated API could not be had."""
        request = {"apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionRequest",
                   "metadata": {"generateName": "r-"}, "spec": {"snapshots": ["a"]}}
        for words in (("POST", f"/apis/{GROUP}/v1alpha2/namespaces/default/"
                       "snapshotsessionrequests?dryRun=All", request),
                      ("GET", f"/apis/{GROUP}/v1alpha1/driverdiscoveries")):
            status, text = self.kube.ask(*words)
            if status not in (200, 201):
                return text
        return None

    def test_they_are_made_renewed_and_repaired(self):
        self.assertEqual(self.bundles(), {name: None for name in
                                          ("manager", "aggapi", "snapshot-metadata")})
        self.start_keeper()
        self.start_roles()
        wait_until(self.is_published, 180, "the authorities are published")
        self.check_made()
        wait_until(lambda: self.ask() is None, 120, "sessions and deltas can be asked for")
        self.check_renewal()
        self.check_repairs()
        self.check_rights()

    def check_made(self):
        for name in SERVICES:
            secret = self.secret(name)
            self.assertEqual(secret["type"], "kubernetes.io/tls")
            begin, end = times(text_of(secret, "tls.crt"))
            # Valid before it was made, for clocks that are behind.
            self.assertEqual(end - begin, LIFE + LIFE // 9)
        service = self.kube.get("snapshotmetadataservice", "cairn.csi.dev")
        self.assertEqual(service["spec"]["address"], "cairn-snapshot-metadata.cairn.svc:6443")
        self.assertEqual(service["spec"]["audience"], "cairn.csi.dev")
        self.assertEqual(service["metadata"]["labels"][f"{GROUP}/driver"], "cairn.csi.dev")

    def check_renewal(self):
        """Requests go on all the time; the old and the new authority are trusted together before
        the new certificate is used, and the old one is dropped when it has expired."""
        first = self.secret("aggapi")
        seen, failures = [], []
        while len(seen) < 4 and time.time() < times(text_of(first, "tls.crt"))[1] + 3 * LIFE:
            secret = self.secret("aggapi")
            state = (secret["data"]["tls.crt"] != first["data"]["tls.crt"],
                     "next.crt" in secret["data"], text_of(secret, "ca.crt").count("BEGIN CERT"))
            if not seen or seen[-1] != state:
                seen.append(state)
            why = self.ask()
            if why:
                failures.append(why)
            time.sleep(0.3)
        self.assertEqual(seen, [(False, False, 1), (False, True, 2), (True, False, 2),
                                (True, False, 1)])
        self.assertEqual(failures, [])
        self.assertEqual(self.secret("manager")["data"]["webhook-secret"],
                         base64.b64encode((self.bed.directory / "tls/manager/webhook-secret")
                                          .read_bytes()).decode())

    def check_repairs(self):
        """What others removed or broke; another manager than the one that made it goes on."""
        self.processes.stop("keeper")
        self.kube.kubectl("delete", "-n", "cairn", "secret", "cairn-diffsnap-tls")
        for patch in ({"data": {"tls.key": self.secret("aggapi")["data"]["tls.key"]}},
                      {"data": {"webhook-secret": None}}):
            self.kube.kubectl("patch", "-n", "cairn", "secret", "cairn-manager-tls",
                              "--type=merge", "-p", json.dumps(patch))
        self.kube.kubectl("patch", "apiservice", f"v1alpha1.{GROUP}", "--type=merge", "-p",
                          json.dumps({"spec": {"caBundle": None, "insecureSkipTLSVerify": False}}))
        self.kube.kubectl("delete", "snapshotmetadataservice", "cairn.csi.dev")
        self.kube.kubectl("annotate", "-n", "cairn", "secret", "cairn-cbt-http-tls",
                          "cert-manager.io/certificate-name=x")
        foreign = self.secret("cbt-http")["data"]
        self.start_keeper("keeper-2")
        wait_until(lambda: self.secret("diffsnap") and "webhook-secret" in
                   self.secret("manager")["data"] and self.is_published(), 90, "all is mended")
        wait_until(lambda: self.ask() is None, 120, "sessions and deltas can be asked for again")
        self.assertEqual(self.secret("cbt-http")["data"], foreign)
        self.assertIn("kept by cert-manager", self.processes.log_text("keeper-2"))

    def metric(self, port, name):
        """None also while the keeper does not listen yet."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as reply:
                lines = reply.read().decode().splitlines()
        except urllib.error.URLError:
            return None
        return next((float(line.split()[1]) for line in lines if line.startswith(name + " ")), None)

    def put_secret(self, service, data, **more):
        name = f"cairn-{service}-tls"
        self.kube.kubectl("delete", "-n", "cairn", "secret", name, "--ignore-not-found")
        self.kube.apply({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
                         "metadata": {"name": name, "namespace": "cairn"},
                         "data": {key: base64.b64encode(text.encode()).decode()
                                  for key, text in data.items()}, **more})
        return self.secret(service)["data"]

    def test_what_others_made_is_left_alone(self):
        """A chain of another PKI, whose root is not in the Secret; one that expired; text that is
        no certificate. None is replaced, nor the authorities that were published for them."""
        corporate, pair = chain(self.bed.directory, "cairn-aggapi.cairn.svc")
        expired = pki.Authority(self.bed.directory / "corporate", "issuing", "").expired(*pair)
        kept = {"aggapi": self.put_secret("aggapi", corporate),
                "manager": self.put_secret("manager", {
                    "tls.crt": expired.read_text(), "tls.key": pair[1].read_text()}),
                "diffsnap": self.put_secret("diffsnap", {"tls.crt": "mine", "tls.key": "mine"})}
        bundles = {name: base64.b64encode(text.encode()).decode() for name, text in (
            ("manager", corporate["ca.crt"]), ("aggapi", corporate["ca.crt"]))}
        self.kube.kubectl("patch", "apiservice", f"v1alpha1.{GROUP}", "--type=merge", "-p",
                          json.dumps({"spec": {"caBundle": bundles["aggapi"]}}))
        self.kube.kubectl("patch", "validatingwebhookconfiguration", "cairn-sessions",
                          "--type=json", "-p", json.dumps([
                              {"op": "add", "path": "/webhooks/0/clientConfig/caBundle",
                               "value": bundles["manager"]}]))
        port = self.ports.take()
        self.start_keeper("keeper-3", "--http-endpoint", f"127.0.0.1:{port}")
        for name in kept:
            wait_until(lambda name=name: f"Secret cairn-{name}-tls was not made by cairn and is left"
                       in self.processes.log_text("keeper-3"), 180, "it says so")
        wait_until(lambda: self.secret("snapshot-metadata") and self.bundles()["snapshot-metadata"]
                   == self.secret("snapshot-metadata")["data"]["ca.crt"], 180, "its own is kept")
        for name, data in kept.items():
            self.assertEqual(self.secret(name)["data"], data)
        for name, bundle in bundles.items():
            self.assertEqual(self.bundles()[name], bundle, name)
        # The end of the certificate that expired counts, although it is not kept here.
        self.assertLess(self.metric(port, EXPIRY), time.time())
        for name in kept:
            self.kube.kubectl("delete", "-n", "cairn", "secret", f"cairn-{name}-tls")
        wait_until(lambda: all(self.secret(name) for name in kept) and self.is_published(), 60,
                   "deleting them has them made")
        wait_until(lambda: self.metric(port, EXPIRY) > time.time(), 180, "all are good")

    def test_when_a_certificate_that_can_not_be_mended_ends(self):
        """It counts as expired, and not as if it were not there."""
        port = self.ports.take()
        self.start_keeper("keeper-4", "--http-endpoint", f"127.0.0.1:{port}")
        wait_until(lambda: all(map(self.secret, SERVICES)), 180, "all are made")
        wait_until(lambda: (self.metric(port, EXPIRY) or 0) > time.time(), 180, "all are good")
        good = {key: text_of(self.secret("diffsnap"), key) for key in ("tls.crt", "ca.crt")}
        self.put_secret("diffsnap", {**good, "tls.key": text_of(self.secret("aggapi"), "tls.key")},
                        immutable=True)
        wait_until(lambda: self.metric(port, EXPIRY) <= time.time(), 180, "it is reported")
        self.assertIn("immutable", self.processes.log_text("keeper-4"))
        self.kube.kubectl("delete", "-n", "cairn", "secret", "cairn-diffsnap-tls")
        wait_until(lambda: self.metric(port, EXPIRY) > time.time(), 180, "it is good again")

    def test_the_account_can_change_nothing_but_authorities(self):
        """Whoever has its token, and so all rights that RBAC gives it."""
        token = self.kube.token("cairn", "cairn-certificates")
        hook = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/cairn-sessions"
        service = f"/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.{GROUP}"
        metadata = f"/apis/{GROUP}/v1beta1/snapshotmetadataservices/cairn.csi.dev"
        everything = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"],
                       "resources": ["*/*"]}]
        owner = [{"apiVersion": "v1", "kind": "Namespace", "name": "x", "uid": "x"}]

        def patch(path, changes):
            return self.kube.ask("PATCH", f"{path}?dryRun=All", [
                {"op": "add", "path": where, "value": value} for where, value in changes.items()],
                token=token, content_type="application/json-patch+json")

        first = "/webhooks/0"
        wait_until(lambda: patch(hook, {f"{first}/timeoutSeconds": 29})[0] >= 400, 60,
                   "the API server knows the policy")
        for path, changes in (
                (hook, {f"{first}/rules": everything}),
                (hook, {f"{first}/failurePolicy": "Ignore"}),
                (hook, {f"{first}/matchConditions": [{"name": "x", "expression": "false"}]}),
                (hook, {f"{first}/objectSelector": {"matchLabels": {"a": "b"}}}),
                (hook, {f"{first}/namespaceSelector": {"matchLabels": {"a": "b"}}}),
                (hook, {f"{first}/timeoutSeconds": 30}),
                (hook, {f"{first}/clientConfig": {"url": "https://127.0.0.1/"}}),
                (hook, {f"{first}/clientConfig/service/name": "other"}),
                (hook, {f"{first}/clientConfig/service/path": "/other"}),
                (hook, {"/webhooks": []}),
                (hook, {"/metadata/ownerReferences": owner}),
                (hook, {"/metadata/annotations": {"a": "b"}}),
                (service, {"/spec/service": {"namespace": "x", "name": "x", "port": 443}}),
                (service, {"/spec/insecureSkipTLSVerify": True}),
                (service, {"/spec/groupPriorityMinimum": 1}),
                (service, {"/metadata/labels": {}}),
                (service, {"/metadata/ownerReferences": owner})):
            status, text = patch(path, changes)
            self.assertIn(status, (403, 422), (changes, text))
            self.assertIn("the account cairn-certificates may", text, changes)
        for words in ({"address": "elsewhere.example:6443"}, {"audience": "other"}):
            body = {"apiVersion": f"{GROUP}/v1beta1", "kind": "SnapshotMetadataService",
                    "metadata": {"name": "cairn.csi.dev"},
                    "spec": {"address": "cairn-snapshot-metadata.cairn.svc:6443",
                             "audience": "cairn.csi.dev", "caCert": "YQ==", **words}}
            status, text = self.kube.ask("PATCH", f"{metadata}?fieldManager=x&force=true&dryRun=All", body,
                                         token=token,
                                         content_type="application/apply-patch+yaml")
            self.assertEqual(status, 422, text)
            self.assertIn("may only name the sidecar", text)

    def check_rights(self):
        """It asks for nothing that it may not, and may read no other Secret."""
        rights = Rights(self.kube, self.audit)
        self.assertEqual(rights.refused(ACCOUNT), {})
        token = self.kube.token("cairn", "cairn-certificates")
        secrets = "/api/v1/namespaces/cairn/secrets"
        other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other"}}
        for words, how in ((("GET", secrets), {}), (("GET", f"{secrets}/other"), {}),
                           (("POST", secrets, other), {}),
                           (("PATCH", f"{secrets}/other?fieldManager=x", other),
                            {"content_type": "application/apply-patch+yaml"}),
                           (("DELETE", f"{secrets}/cairn-aggapi-tls"), {}),
                           (("GET", "/api/v1/namespaces/default/secrets/cairn-aggapi-tls"), {})):
            self.assertEqual(self.kube.ask(*words, token=token, **how)[0], 403, words)


if __name__ == "__main__":
    unittest.main()
