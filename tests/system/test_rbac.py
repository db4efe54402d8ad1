#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Roles with exactly the rights that deploy/ gives them, each from what it does when it is used:
nothing is refused to them, and no rule is there in vain. The API server is played by the test, so
that sanitizers look on; tests/cluster/test_rbac.py does it for every role on a real one."""
import pathlib
import sys
import unittest

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(77)

import test_rights
from rolesbed import DRIVER, GROUP, HOST, SECONDS, Failed, RolesTest, wait_until

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
# Needed when the same event comes again within minutes: tests/cluster/test_rbac.py has that.
SPARE = {("events.k8s.io", "events", "patch", "")}
# What the cluster's own Role extension-apiserver-authentication-reader gives.
CLUSTERS = {("", "configmaps", verb, "extension-apiserver-authentication")
            for verb in ("get", "list", "watch")}


# The kinds that aggapi passes on: only an API server that knows CRDs can use all of these rules.
# tests/cluster/test_rbac.py uses every one of them.
REAL_SERVER = ("cairn-aggapi-passed",)


def rules_of(account, *files, but=()):
    """{(group, resource, verb, name or "")} of what is bound to a service account, but for the
    roles `but`."""
    objects = [item for file in files for item in yaml.safe_load_all((DEPLOY / file).read_text())
               if item]
    roles = {(item["kind"], item["metadata"]["name"]): item["rules"] for item in objects
             if item["kind"] in ("Role", "ClusterRole") and item["metadata"]["name"] not in but}
    found = set()
    for item in objects:
        if not item["kind"].endswith("Binding") or all(
                subject["name"] != account for subject in item["subjects"]):
            continue
        for rule in roles.get((item["roleRef"]["kind"], item["roleRef"]["name"]), []):
            found.update((group, resource, verb, name) for group in rule.get("apiGroups", [])
                         for resource in rule.get("resources", []) for verb in rule["verbs"]
                         for name in rule.get("resourceNames", [""]))
    return found


class Enforced:
    """Rights of deploy/ for the accounts in `rights`, checked when a test is over."""

    rights = {}

    def account_of(self, name):
        return self.accounts.get(name, "role")

    def setUp(self):
        self.enforce = {f"system:serviceaccount:cairn:{account}": rules_of(account, *files)
                        for account, files in self.rights.items()}
        self.needed = {f"system:serviceaccount:cairn:{account}": rules_of(
            account, *files, but=REAL_SERVER) for account, files in self.rights.items()}
        super().setUp()

    def prepare_kube(self):
        self.kube.enforced.update({user: rules | CLUSTERS
                                   for user, rules in self.enforce.items()})

    def check_rules(self):
        for user, rules in self.needed.items():
            def unused(user=user, rules=rules):
                return rules - self.kube.used.get(user, set()) - SPARE
            try:
                wait_until(lambda left=unused: not left(), SECONDS, "every rule is used")
            except Failed:
                self.fail(f"{user} does not need {sorted(unused())}")


class DiffsnapRights(Enforced, test_rights.Diffsnap):
    rights = {"cairn-diffsnap": ["components/diffsnap/rbac.yaml"]}
    accounts = {"diffsnap": "cairn-diffsnap"}

    def test_no_rule_is_there_in_vain(self):
        self.kube.allow(self.user, "get", "volumesnapshots")
        self.kube.allow(self.user, "get", "differentialsnapshots")
        self.make_object()
        self.make_object("again")
        self.assertEqual(self.ask(self.port, "GET", "/app/d", token=self.token)[0], 200)
        self.check_rules()


class DeltasRights(Enforced, test_rights.Deltas):
    rights = {"cairn-aggapi": ["components/volumesnapshotdelta/rbac.yaml"],
              "cairn-cbt-http": ["components/volumesnapshotdelta/rbac.yaml"]}
    accounts = {"aggapi": "cairn-aggapi", "cbt-http": "cairn-cbt-http"}
    http_words = ("--leader-election",)

    def test_no_rule_is_there_in_vain(self):
        self.assertEqual(self.block(self.data_token()["token"], self.kube.account(
            "app", "reader", [test_rights.AUDIENCE]))[0], 200)
        # Whoever comes directly shows a token.
        self.ask(self.port, "GET", "/apis", token=self.kube.account("app", "reader"))
        self.check_rules()


class ManagerRights(Enforced, test_rights.Webhook):
    rights = {"cairn-manager": ["components/sessions/rbac.yaml"]}
    accounts = {"manager": "cairn-manager"}

    def prepare_kube(self):
        super().prepare_kube()
        self.kube.put("/api/v1/namespaces/cairn/configmaps", {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cairn-sessions"},
            "data": {"sessionExpiry": "2s"}})
        self.kube.snapshot("app", "one", DRIVER)
        for plural, kind, spec in (
                ("snapshotservicesconfigurations", "SnapshotServicesConfiguration",
                 {"address": "a.cairn.svc:6443", "caCert": "eA=="}),
                ("driverdiscoveries", "DriverDiscovery", {
                    "driverName": DRIVER, "clientConfig": {"url": f"https://{HOST}:1"}})):
            self.kube.put(f"/apis/{GROUP}/v1alpha2/{plural}", {
                "apiVersion": f"{GROUP}/v1alpha2", "kind": kind,
                "metadata": {"name": DRIVER, "labels": {f"{GROUP}/driver": DRIVER}},
                "spec": spec})

    def test_no_rule_is_there_in_vain(self):
        self.assertEqual(self.review(f"{self.PATH}/{self.SECRET}", "one"), (200, True))
        self.kube.put(f"/apis/{GROUP}/v1alpha2/namespaces/app/snapshotsessionrequests", {
            "apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionRequest",
            "metadata": {"name": "r"}, "spec": {"snapshots": ["one"]}})
        self.kube.put(f"/apis/{GROUP}/v1alpha2/namespaces/app/differentialsnapshots", {
            "apiVersion": f"{GROUP}/v1alpha2", "kind": "DifferentialSnapshot",
            "metadata": {"name": "d", "creationTimestamp": "2020-01-01T00:00:00Z"},
            "spec": {"targetVolumeSnapshotName": "one"}})
        self.check_rules()


class CertificatesRights(Enforced, RolesTest):
    rights = {"cairn-certificates": ["components/certificates/rbac.yaml"]}
    accounts = {"manager": "cairn-certificates"}

    def prepare_kube(self):
        super().prepare_kube()
        self.kube.put("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "cairn-sessions"},
            "webhooks": [{"name": f"snapshotsessionrequests.{GROUP}",
                          "clientConfig": {"service": {"name": "cairn-manager"}}}]})
        self.kube.put("/apis/apiregistration.k8s.io/v1/apiservices", {
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": f"v1alpha1.{GROUP}"}, "spec": {"group": GROUP}})

    def test_no_rule_is_there_in_vain(self):
        self.start("manager", "manager", "--certificates=all", "--certificate-life=10s",
                   "--certificate-overlap=1s")
        wait_until(lambda: self.processes.log_text("manager").count("certificate renewed") >= 5,
                   SECONDS, "they are renewed")
        self.check_rules()


def load_tests(loader, _tests, _pattern):
    """Only the tests of this file, not those that its classes inherit."""
    return unittest.TestSuite(
        loader.loadTestsFromName(f"{case.__name__}.test_no_rule_is_there_in_vain",
                                 sys.modules[__name__])
        for case in (DiffsnapRights, DeltasRights, ManagerRights, CertificatesRights))


if __name__ == "__main__":
    unittest.main()
