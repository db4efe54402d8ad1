#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""All generations installed at once on a real control plane: the examples of the proposals as they
are, and the CRDs of the group at v1alpha1, which the aggregated API server passes on."""
import base64
import http.client
import json
import pathlib
import ssl
import unittest

import yaml

from generations import DEPLOY, GROUP, HOST, SNAPSHOT, WEBHOOK_PATH, GenerationsTest, Roles
from processes import wait_until
from test_aggapi import Stack

EXAMPLES = pathlib.Path(__file__).resolve().parent / "examples"
OLD, NEW = f"{GROUP}/v1alpha1", f"{GROUP}/v1alpha2"
ROOT = f"/apis/{OLD}"
PASSED = ("differentialsnapshots", "driverdiscoveries", "snapshotmetadataservices",
          "snapshotservicesconfigurations", "snapshotsessiondata", "snapshotsessionrequests")
MERGE = {"content_type": "application/merge-patch+json"}


def built(overlay="overlays/all-generations"):
    """The objects of an overlay."""
    return [item for item in yaml.safe_load_all(Together.kube.kubectl("kustomize", DEPLOY / overlay))
            if item]


def discovery(name, **more):
    return {"apiVersion": OLD, "kind": "DriverDiscovery", "metadata": {"name": name, **more},
            "spec": {"driverName": f"{name}.csi.dev",
                     "clientConfig": {"url": "https://127.0.0.1:1"}}}


class Together(GenerationsTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prepare_roles()
        cls.kube.apply(DEPLOY / "crd")
        cls.kube.apply([item for item in built()
                        if item["kind"] == "CustomResourceDefinition"])
        cls.roles.start_all()
        cls.webhook()
        cls.stack = Stack(cls.bed)
        cls.addClassCleanup(cls.stack.ports.close)
        cls.stack.start("--user-rate", "0")
        cls.history("data")
        for name in ("vol-snap-base", "vol-snap-target"):
            cls.csi.snapshot(name, "data")
        cls.token = cls.roles.token
        wait_until(cls.is_discovered, 240, "the kinds are discovered at v1alpha1")

    @classmethod
    def webhook(cls):
        """As deploy/ has it, but at an address of the test."""
        hook = next(item for item in built() if item["kind"] == "ValidatingWebhookConfiguration")
        hook["webhooks"][0]["clientConfig"] = {
            "url": f"https://{HOST}:{cls.roles.webhook_port}{WEBHOOK_PATH}",
            "caBundle": base64.b64encode(cls.roles.authority.crt.read_bytes()).decode()}
        cls.kube.apply(hook)

    @classmethod
    def is_discovered(cls):
        found = cls.kube.kubectl("api-resources", f"--api-group={GROUP}", "--cached=false",
                                 "--no-headers", "-o", "name")
        versions = cls.kube.kubectl("get", "--raw", ROOT)
        return "volumesnapshotdeltas" in found and all(
            f'"{name}"' in versions for name in PASSED)

    def ask(self, *words, **how):
        return self.kube.request(*words, **how)

    def refused(self, status, *words, **how):
        code, text = self.kube.ask(*words, **how)
        self.assertEqual(code, status, text)
        return json.loads(text)

    def account(self, name, *rules):
        """A token of an account with these rights in the namespace "default" (and everywhere)."""
        self.kube.service_account("default", name)
        if rules:
            self.kube.allow(f"together-{name}", f"default:{name}", rules=list(rules))
        return self.kube.token("default", name)

    # ---- the proposals' examples ----

    def test_the_example_of_a_delta_is_created_as_it_is(self):
        """With its status, by kubectl, which validates; with the shipped role and the right to
        the snapshots, and no other. Whether kubectl may leave validation to the server, it reads
        from OpenAPI, which the API server collects by and by; and of CRDs that were served at
        v1alpha1 before, as here, it keeps the old document for good."""
        self.stack.creator("reader")
        config = self.kube.kubeconfig_of_account("default", "reader")
        example = EXAMPLES / "003-volumesnapshotdelta.json"

        def created():
            done = self.kube.run("create", "-o", "json", "-f", example, kubeconfig=config)
            self.last = done.stderr
            return done.returncode == 0 and json.loads(done.stdout)
        made = wait_until(created, 240, "created")
        wait_until(lambda: all(created() for _ in range(4)), 240, "created whatever it gets")
        self.assertEqual(made["apiVersion"], OLD)
        self.assertEqual(made["metadata"]["name"], "test-delta")
        self.assertEqual(made["status"]["limit"], 256)
        self.assertEqual(made["status"]["state"], "Completed")
        self.assertIn("continue", made["status"])
        unknown = json.loads(example.read_text())
        unknown["spec"]["lmit"] = 3
        for _ in range(8):  # whichever of the two documents kubectl gets
            done = self.kube.run("create", "-f", "-", text=json.dumps(unknown), kubeconfig=config)
            self.assertIn('unknown field "spec.lmit"', done.stderr)

    def test_fields_of_the_crds_of_the_proposal_are_there_with_their_types(self):
        """The CRDs themselves lack the annotation without which Kubernetes takes no CRD of a
        group of its own."""
        ours = {item["metadata"]["name"]: item for item in built()
                if item["kind"] == "CustomResourceDefinition"}
        for file in sorted(EXAMPLES.glob("000-*.yaml")):
            example = yaml.safe_load(file.read_text())
            name = example["metadata"]["name"]
            with self.subTest(name):
                refused = self.kube.run("create", "--dry-run=server", "-f", "-", text=json.dumps(
                    {**example, "metadata": {"name": name}}))
                self.assertRegex(refused.stderr, "api-approved|already exists")
                self.assertEqual(ours[name]["spec"]["names"], example["spec"]["names"])
                self.assertEqual(ours[name]["spec"]["scope"], example["spec"]["scope"])
                schemas = [spec["versions"][0]["schema"]["openAPIV3Schema"]
                           for spec in (example["spec"], ours[name]["spec"])]
                self.contained(*schemas, name)

    def contained(self, wanted, found, where):
        self.assertEqual(wanted["type"], found["type"], where)
        self.assertEqual(wanted.get("format"), found.get("format"), where)
        self.assertLessEqual(set(wanted.get("required", [])), set(found.get("required", [])), where)
        for name, schema in wanted.get("properties", {}).items():
            self.contained(schema, found["properties"][name], f"{where}.{name}")

    def test_the_rights_of_the_proposal_suffice_for_its_part(self):
        """Of the aggregated API server: ours has each right that the proposal lists and uses."""
        rules = yaml.safe_load((EXAMPLES / "003-rules.yaml").read_text())
        self.assertEqual([rule["verbs"] for rule in rules][0], ["create"])
        user = "system:serviceaccount:cairn:cairn-aggapi"
        for resource in ("driverdiscoveries",):
            for verb in ("get", "list", "watch"):
                review = self.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {
                    "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                    "spec": {"user": user, "resourceAttributes": {
                        "group": GROUP, "resource": resource, "verb": verb}}})
                self.assertTrue(review["status"]["allowed"], (resource, verb))

    # ---- objects at v1alpha1 ----

    def test_a_session_at_the_version_of_the_proposal(self):
        path = f"{ROOT}/namespaces/default/snapshotsessionrequests"
        made = self.ask("POST", path, {
            "apiVersion": OLD, "kind": "SnapshotSessionRequest", "metadata": {"name": "old"},
            "spec": {"snapshots": ["data-1", "data-2"]}}, token=self.token)
        self.assertEqual(made["apiVersion"], OLD)
        found = wait_until(lambda: (lambda one: one.get("status", {}).get("sessionState") in (
            "Ready", "Failed") and one)(self.ask("GET", f"{path}/old", token=self.token)),
            180, "the session is judged")
        self.assertEqual(found["status"]["sessionState"], "Ready", found)
        self.assertEqual(found["apiVersion"], OLD)
        data = self.ask("GET", f"{ROOT}/namespaces/cairn/snapshotsessiondata")
        self.assertEqual({item["apiVersion"] for item in data["items"]}, {OLD})
        self.assertEqual((data["kind"], data["apiVersion"]), ("SnapshotSessionDataList", OLD))

    def test_a_differential_snapshot_at_the_version_of_the_proposal(self):
        self.kube.kubectl("apply", "-f", "-", text=json.dumps({
            "apiVersion": OLD, "kind": "DifferentialSnapshot", "metadata": {"name": "old"},
            "spec": {"baseVolumeSnapshotName": "data-1", "targetVolumeSnapshotName": "data-2"}}))
        path = f"{ROOT}/namespaces/default/differentialsnapshots/old"
        found = wait_until(lambda: (lambda one: one.get("status", {}).get("state") in (
            "Success", "Failure") and one)(self.ask("GET", path)), 180, "it is judged")
        self.assertEqual(found["status"]["state"], "Success", found)
        self.kube.kubectl("delete", f"differentialsnapshots.v1alpha1.{GROUP}", "old")

    def test_kubectl_works_with_each_verb(self):
        kind = f"driverdiscoveries.v1alpha1.{GROUP}"
        text = json.dumps(discovery("k"))
        self.assertIn("created", self.kube.kubectl("apply", "-f", "-", text=text))
        self.assertIn("unchanged", self.kube.kubectl("apply", "-f", "-", text=text))
        changed = json.dumps(discovery("k", labels={"a": "b"}))
        self.assertIn("configured", self.kube.kubectl("apply", "-f", "-", text=changed))
        self.assertIn("serverside-applied", self.kube.kubectl(
            "apply", "--server-side", "--force-conflicts", "-f", "-", text=changed))
        self.assertIn("k.csi.dev", self.kube.kubectl("get", kind))
        found = json.loads(self.kube.kubectl("get", kind, "k", "-o", "json",
                                             "--show-managed-fields"))
        self.assertEqual(found["apiVersion"], OLD)
        self.assertEqual({entry["apiVersion"] for entry in found["metadata"]["managedFields"]
                          if "kubectl" in entry["manager"]}, {OLD})
        self.assertIn("kubectl", [entry["manager"] for entry in
                                  found["metadata"]["managedFields"]])
        self.kube.kubectl("label", kind, "k", "c=d")
        self.kube.kubectl("patch", kind, "k", "--type=json", "-p", json.dumps([
            {"op": "test", "path": "/apiVersion", "value": OLD},
            {"op": "add", "path": "/metadata/labels/e", "value": OLD.replace("/", "_")}]))
        self.kube.kubectl("patch", kind, "k", "--subresource=status", "--type=merge", "-p",
                          json.dumps({"status": {"reachable": True}}))
        self.assertIn("clientConfig", self.kube.kubectl(
            "explain", "driverdiscovery.spec", f"--api-version={OLD}"))
        done = self.kube.run("apply", "-f", "-", text=text.replace("driverName", "drivrName"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("drivrName", done.stderr)
        self.kube.kubectl("delete", kind, "k")
        self.assertIsNone(self.kube.get("driverdiscovery", "k"))

    def test_both_versions_show_one_object(self):
        owner = self.ask("POST", f"{ROOT}/driverdiscoveries", discovery("owner"))
        reference = {"apiVersion": NEW, "kind": "DriverDiscovery", "name": "owner",
                     "uid": owner["metadata"]["uid"]}
        path = f"{ROOT}/driverdiscoveries"
        made = self.ask("POST", path, discovery("both", ownerReferences=[reference]))
        new = self.ask("GET", f"/apis/{NEW}/driverdiscoveries/both")
        self.assertEqual((made["apiVersion"], new["apiVersion"]), (OLD, NEW))
        self.assertEqual(made["metadata"]["uid"], new["metadata"]["uid"])
        self.assertEqual(made["metadata"]["ownerReferences"], [reference])
        table = self.ask("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        self.assertEqual(table["kind"], "Table")
        self.assertIn("both.csi.dev", str(table["rows"]))
        for _ in range(20):  # the controller writes its status meanwhile
            new = self.ask("GET", f"/apis/{NEW}/driverdiscoveries/both")
            changed = {**new, "apiVersion": OLD,
                       "metadata": {**new["metadata"], "labels": {"x": "y"}}}
            code, text = self.kube.ask("PUT", f"{path}/both", changed)
            if code != 409:
                break
        self.assertEqual(code, 200, text)
        self.assertEqual(json.loads(text)["apiVersion"], OLD)
        self.refused(409, "PUT", f"{path}/both", changed)
        self.refused(404, "GET", f"{path}/nothing")
        self.refused(415, "POST", path, discovery("yaml"), content_type="application/yaml")
        self.refused(404, "GET", f"{ROOT}/widgets")
        for name in ("both", "owner"):
            self.ask("DELETE", f"{path}/{name}", {"apiVersion": "v1", "kind": "DeleteOptions"})

    # ---- watches ----

    def watches(self):
        """Watches of DriverDiscovery that the API server serves at v1alpha2."""
        text = self.kube.ask("GET", "/metrics")[1]
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                   if line.startswith("apiserver_longrunning_requests{")
                   and 'resource="driverdiscoveries"' in line and 'version="v1alpha2"' in line)

    def test_a_watch_is_streamed_and_ends_with_its_caller(self):
        before = self.watches()
        context = ssl.create_default_context(cafile=str(self.kube.authority))
        context.load_cert_chain(*self.kube.identity)
        address = self.kube.server.removeprefix("https://")
        connection = http.client.HTTPSConnection(address, context=context, timeout=60)
        version = self.ask("GET", f"{ROOT}/driverdiscoveries")["metadata"]["resourceVersion"]
        connection.request("GET", f"{ROOT}/driverdiscoveries?watch=1&resourceVersion={version}")
        reply = connection.getresponse()
        self.assertEqual(reply.status, 200)
        for kind in ("ADDED", "MODIFIED", "DELETED"):
            if kind == "ADDED":
                self.ask("POST", f"{ROOT}/driverdiscoveries", discovery("seen"))
            elif kind == "MODIFIED":
                self.ask("PATCH", f"{ROOT}/driverdiscoveries/seen",
                         {"metadata": {"labels": {"a": "b"}}}, **MERGE)
            else:
                self.ask("DELETE", f"{ROOT}/driverdiscoveries/seen")
            event = self.event_of("seen", kind, reply)
            self.assertEqual(event["object"]["apiVersion"], OLD)
            self.assertEqual({entry["apiVersion"] for entry in
                              event["object"]["metadata"].get("managedFields", [])} - {OLD}, set())
        self.assertGreater(self.watches(), before)
        connection.sock.shutdown(2)
        connection.close()
        wait_until(lambda: self.watches() <= before, 180, "the watch behind it is closed")

    @staticmethod
    def event_of(name, kind, reply):
        while True:
            event = json.loads(reply.readline())
            if event["object"]["metadata"].get("name") == name and event["type"] == kind:
                return event

    # ---- rights ----

    def test_who_has_no_right_gets_nothing(self):
        token = self.account("nobody")
        for plural in PASSED:
            self.refused(403, "GET", f"{ROOT}/{plural}", token=token)
        self.refused(403, "POST", f"{ROOT}/driverdiscoveries", discovery("no"), token=token)
        # Past the API server the same.
        for method, path, body in (("GET", f"{ROOT}/snapshotsessiondata", None),
                                   ("DELETE", f"{ROOT}/driverdiscoveries", None),
                                   ("POST", f"{ROOT}/driverdiscoveries", discovery("no"))):
            code, data = self.stack.plain(self.stack.port, method, path, body,
                                          {"Authorization": f"Bearer {token}",
                                           "Content-Type": "application/json"})
            self.assertEqual(code, 403, data)
        self.assertEqual(self.stack.plain(self.stack.port, "GET",
                                          f"{ROOT}/snapshotsessiondata")[0], 401)

    def test_a_session_needs_the_right_to_its_snapshots(self):
        """The webhook sees the aggregated API server, which may read all of them."""
        token = self.account("asker", (GROUP, "snapshotsessionrequests",
                                       "create get patch"))
        path = f"{ROOT}/namespaces/default/snapshotsessionrequests"
        one = {"apiVersion": OLD, "kind": "SnapshotSessionRequest", "metadata": {"name": "deputy"},
               "spec": {"snapshots": ["data-1", "data-2"]}}
        wait_until(lambda: self.kube.ask("GET", f"{path}/none", token=token)[0] == 404, 60,
                   "the right counts")
        self.refused(403, "POST", path, one, token=token)
        self.refused(403, "PATCH", f"{path}/deputy?fieldManager=x", one, token=token,
                     content_type="application/apply-patch+yaml")
        self.refused(404, "GET", f"{path}/deputy", token=token)
        self.kube.allow("asker-reads", "default:asker", namespace="default",
                        rules=[(SNAPSHOT, "volumesnapshots", "get")])
        wait_until(lambda: self.kube.ask("POST", path, one, token=token)[0] == 201, 60,
                   "with the right it is created")

    def test_an_apply_creates_only_with_the_right_to_create(self):
        token = self.account("patcher", (GROUP, "driverdiscoveries", "get patch"))
        path = f"{ROOT}/driverdiscoveries/applied"
        how = {"token": token, "content_type": "application/apply-patch+yaml"}
        wait_until(lambda: self.kube.ask("GET", path, token=token)[0] == 404, 60,
                   "the right counts")
        self.refused(403, "PATCH", f"{path}?fieldManager=x", discovery("applied"), **how)
        self.ask("POST", f"{ROOT}/driverdiscoveries", discovery("applied"))
        changed = discovery("applied", labels={"by": "apply"})
        made = self.ask("PATCH", f"{path}?fieldManager=x&force=true", changed, **how)
        self.assertEqual((made["apiVersion"], made["metadata"]["labels"]), (OLD, {"by": "apply"}))
        self.ask("DELETE", path)

    # ---- past the API server, with a token of one's own ----

    def direct(self, token, method, path, body=None, port=None, **headers):
        """(status, bytes)"""
        return self.stack.plain(port or self.stack.port, method, path, body, {
            "Authorization": f"Bearer {token}", "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()}})

    def limited(self, account, verbs, *names, plural="driverdiscoveries"):
        """A token with these verbs on objects of these names only; none: on all."""
        self.kube.service_account("default", account)
        rule = {"apiGroups": [GROUP], "resources": [plural], "verbs": verbs.split()}
        if names:
            rule["resourceNames"] = list(names)
        self.kube.apply([
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
             "metadata": {"name": f"limited-{account}"}, "rules": [rule]},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
             "metadata": {"name": f"limited-{account}"},
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                         "name": f"limited-{account}"},
             "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}]}])
        return self.kube.token("default", account)

    def test_a_query_is_authorized_as_the_api_server_reads_it(self):
        path = f"{ROOT}/driverdiscoveries"
        for name in ("mine", "theirs"):
            self.ask("POST", path, discovery(name))
        token = self.limited("one", "list", "mine")
        mine = f"{path}?fieldSelector=metadata.name%3Dmine"
        wait_until(lambda: self.direct(token, "GET", mine)[0] == 200, 180, "the right counts")
        self.assertNotIn(b"theirs", self.direct(token, "GET", mine)[1])
        for query in (
                "", "?watch=yes", "?watch=", "?watch=1",
                "?fieldSelector=metadata.name%3Dtheirs", "?fieldSelector=metadata.name!%3Dmine",
                "?fieldSelector=metadata.name%3Dmine&watch=true",
                "?%66ieldSelector=&fieldSelector=metadata.name%3Dmine",
                "?fieldSelector=metadata.name%3Dmine&fieldSelector=",
                "?fieldSelector=metadata.name%3Dmine;&fieldSelector=",
                "?fieldSelector=metadata.name%3Dmine%", "?a;fieldSelector=metadata.name%3Dmine",
                "?labelSelector=a&fieldSelector=metadata.name%3Dmine%2Cmetadata.name%3Dtheirs"):
            with self.subTest(query):
                code, text = self.direct(token, "GET", path + query)
                self.assertIn(code, (400, 403), text)
                self.assertNotIn(b"theirs.csi.dev", text)
        for verb in ("get", "watch"):  # neither is a list
            token = self.limited(f"only-{verb}", verb, "mine")
            if verb == "get":
                wait_until(lambda: self.direct(token, "GET", f"{path}/mine")[0] == 200, 60,
                           "the right counts")
                self.assertEqual(self.direct(token, "GET", f"{path}/mine?watch=true")[0], 200)
            self.assertEqual(self.direct(token, "GET", mine)[0], 403)
        for name in ("mine", "theirs"):
            self.ask("DELETE", f"{path}/{name}")

    def test_a_collection_is_deleted_only_with_that_right(self):
        """By the name of one object too, which Kubernetes does not narrow."""
        path = f"{ROOT}/driverdiscoveries"
        for name in ("first", "second"):
            self.ask("POST", path, discovery(name, labels={"kind": "collection"}))
        chosen = f"{path}?fieldSelector=metadata.name%3Dfirst"
        token = self.limited("narrow", "deletecollection get delete", "first")
        wait_until(lambda: self.direct(token, "GET", f"{path}/first")[0] == 200, 60,
                   "the right counts")
        for query in (chosen, path, f"{path}?labelSelector=kind%3Dcollection"):
            self.assertEqual(self.direct(token, "DELETE", query)[0], 403)
            self.refused(403, "DELETE", query, token=token)
        token = self.limited("wide", "deletecollection get")
        wait_until(lambda: self.direct(token, "GET", f"{path}/first")[0] == 200, 60,
                   "the right counts")
        self.assertEqual(self.direct(token, "DELETE", f"{path}/first")[0], 403)
        code, text = self.direct(token, "DELETE", chosen)
        self.assertEqual(code, 200, text)
        self.refused(404, "GET", f"{path}/first")
        self.ask("GET", f"{path}/second")
        self.ask("DELETE", f"{path}?labelSelector=kind%3Dcollection", token=token)
        self.refused(404, "GET", f"{path}/second")
        self.ask("GET", f"{path}/{Roles.DRIVER}")

    def test_an_apply_without_create_makes_nothing_whatever_its_uid(self):
        token = self.limited("applier", "get patch")
        path = f"{ROOT}/driverdiscoveries/made"
        wait_until(lambda: self.direct(token, "GET", path)[0] == 404, 180, "the right counts")
        for uid in ("", None, "00000000-0000-0000-0000-000000000000"):
            body = discovery("made", uid=uid)
            code, text = self.direct(token, "PATCH", f"{path}?fieldManager=x&force=true", body,
                                     Content_Type="application/apply-patch+yaml")
            self.assertEqual(code, 403, text)
        self.refused(404, "GET", path)

    def test_nobody_speaks_for_others(self):
        """By headers of the front proxy or of impersonation, with a token that is not theirs."""
        token = self.account("plain")
        for headers in ({"X_Remote_User": "admin", "X_Remote_Group": "system:masters"},
                        {"Impersonate_User": "admin", "Impersonate_Group": "system:masters"},
                        {"Impersonate_Uid": "0", "Impersonate_User": "system:admin"}):
            for plural in ("snapshotsessiondata", "snapshotsessionrequests"):
                self.assertEqual(self.direct(token, "GET", f"{ROOT}/{plural}", **headers)[0], 403)
                code, _ = self.stack.plain(self.stack.port, "GET", f"{ROOT}/{plural}", None, {
                    name.replace("_", "-"): value for name, value in headers.items()})
                self.assertEqual(code, 401)
        # One that may impersonate a user at the API server is that user, with its rights only.
        self.kube.allow("together-poser", "default:poser", rules=[("", "users", "impersonate")])
        self.kube.service_account("default", "poser")
        config = self.kube.kubeconfig_of_account("default", "poser")
        wait_until(lambda: "as=nobody" not in (said := self.kube.run(
            "get", f"driverdiscoveries.v1alpha1.{GROUP}", "--as=nobody",
            kubeconfig=config).stderr) and 'User "nobody"' in said, 180, "it is nobody")

    def test_status_is_a_right_of_its_own(self):
        path = f"{ROOT}/driverdiscoveries/judged"
        self.ask("POST", f"{ROOT}/driverdiscoveries", discovery("judged"))
        token = self.limited("judge", "get update patch")
        wait_until(lambda: self.direct(token, "GET", path)[0] == 200, 180, "the right counts")
        lie = {"status": {"reachable": True, "message": "a lie"}}
        for where in (f"{path}/status", f"{path}/status/", f"{path}/../judged/status",
                      f"{path}/%73tatus", f"{path}//status"):
            code, text = self.direct(token, "PATCH", where, lie,
                                     Content_Type="application/merge-patch+json")
            self.assertIn(code, (400, 403, 404), (where, text))
        self.assertEqual(self.direct(token, "PATCH", path, lie,
                                     Content_Type="application/merge-patch+json")[0], 200)
        self.assertNotEqual(self.ask("GET", path).get("status", {}).get("message"), "a lie")
        self.ask("DELETE", path)

    def test_a_continue_token_gives_no_more_than_its_user_may(self):
        """Pages of a list of the administrator, continued by others."""
        path = f"{ROOT}/driverdiscoveries"
        for i in range(4):
            self.ask("POST", path, discovery(f"page-{i}"))
        token = self.ask("GET", f"{path}?limit=1")["metadata"]["continue"]
        for account, verbs, names in (("paged", "get", ()), ("paged-one", "list", ("page-0",))):
            mine = self.limited(account, verbs, *names)
            right = f"{path}/page-0" if verbs == "get" else \
                f"{path}?fieldSelector=metadata.name%3Dpage-0"
            wait_until(lambda: self.direct(mine, "GET", right)[0] == 200, 180, "the right counts")
            code, text = self.direct(mine, "GET", f"{path}?limit=1&continue={token}")
            self.assertEqual(code, 403, text)
            # In one namespace or one name a token of the whole list leads nowhere else.
            code, text = self.direct(
                mine, "GET", f"{path}?limit=9&continue={token}&fieldSelector=metadata.name%3Dpage-0")
            self.assertNotRegex(text, b"page-[1-3]")
        for i in range(4):
            self.ask("DELETE", f"{path}/page-{i}")

    def test_a_continue_token_of_all_namespaces_in_one(self):
        """Sessions of another namespace are not listed through a token of the whole list."""
        for space in ("aaa", "zzz"):
            self.kube.namespace(space)
            self.ask("POST", f"{ROOT}/namespaces/{space}/differentialsnapshots", {
                "apiVersion": OLD, "kind": "DifferentialSnapshot", "metadata": {"name": "d"},
                "spec": {"targetVolumeSnapshotName": f"secret-of-{space}"}})
        self.kube.service_account("default", "local")
        self.kube.allow("local", "default:local", namespace="aaa",
                        rules=[(GROUP, "differentialsnapshots", "list")])
        token = self.kube.token("default", "local")
        path = f"{ROOT}/namespaces/aaa/differentialsnapshots"
        wait_until(lambda: self.direct(token, "GET", path)[0] == 200, 180, "the right counts")
        all_of_them = self.ask("GET", f"{ROOT}/differentialsnapshots?limit=1")
        code, text = self.direct(token, "GET", f"{path}?limit=9&continue="
                                 f"{all_of_them['metadata']['continue']}")
        self.assertNotIn(b"secret-of-zzz", text, code)

    def test_one_user_can_not_take_all_places(self):
        """Watches of one user: the next is told to wait, another user is served. Each comes from an
        address of its own, because connections of one address have a limit themselves."""
        tokens = [self.limited(name, "list watch") for name in ("greedy", "modest")]
        path = f"{ROOT}/driverdiscoveries?watch=1&resourceVersion=0"
        for token in tokens:
            wait_until(lambda: self.direct(token, "GET", f"{ROOT}/driverdiscoveries")[0] == 200, 60,
                       "the right counts")
        context = ssl.create_default_context(cafile=str(self.stack.authority.crt))
        held = []
        try:
            for i in range(32):
                held.append(self.open_watch(context, tokens[0], path, f"127.0.1.{i + 1}"))
            self.assertEqual({reply.status for _, reply in held}, {200})
            held.append(self.open_watch(context, tokens[0], path, "127.0.1.33"))
            self.assertEqual(held[-1][1].status, 429)
            held.append(self.open_watch(context, tokens[1], path, "127.0.1.34"))
            self.assertEqual(held[-1][1].status, 200)
        finally:
            for connection, _ in held:
                connection.close()

    def open_watch(self, context, token, path, address):
        connection = http.client.HTTPSConnection("127.0.0.1", self.stack.port, context=context,
                                                 timeout=60, source_address=(address, 0))
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        return connection, connection.getresponse()

    def test_a_watch_ends_and_its_user_is_authorized_again(self):
        port = self.stack.start_aggapi("aggapi-short", "--watch-time=3s")
        self.addCleanup(self.bed.processes.stop, "aggapi-short")
        token = self.limited("watcher", "list watch")
        path = f"{ROOT}/driverdiscoveries?watch=1&resourceVersion=0"
        wait_until(lambda: self.direct(token, "GET", path.partition("?")[0])[0] == 200, 60,
                   "the right counts")
        for more in ("", "&timeoutSeconds=86400"):
            code, text = self.direct(token, "GET", path + more, port=port)  # reads to the end
            self.assertEqual(code, 200, text)
            for line in text.splitlines():
                self.assertIn("type", json.loads(line))  # whole events
        self.assertEqual(self.direct(token, "GET", f"{path}&timeoutSeconds=x", port=port)[0], 400)
        self.kube.kubectl("delete", "clusterrolebinding", "limited-watcher")
        wait_until(lambda: self.direct(token, "GET", path, port=port)[0] == 403, 60,
                   "the watch is refused without the right")

    def test_a_refusal_names_the_version_that_was_asked_for(self):
        bad = discovery("strict")
        bad["spec"]["drivrName"] = "x"
        refused = self.refused(400, "POST", f"{ROOT}/driverdiscoveries?fieldValidation=Strict", bad)
        self.assertIn("drivrName", refused["message"])
        self.assertNotIn("v1alpha2", json.dumps(refused))
        wrong = {**discovery("wrong"), "apiVersion": f"{GROUP}/v1beta1"}
        refused = self.refused(400, "POST", f"{ROOT}/driverdiscoveries", wrong)
        self.assertNotIn("v1alpha2", json.dumps(refused))
        self.assertIn(OLD, refused["message"])

    # ---- the rest ----

    def test_limits_and_modes(self):
        path = f"{ROOT}/namespaces/default/volumesnapshotdeltas"

        def delta(**spec):
            return {"apiVersion": OLD, "kind": "VolumeSnapshotDelta", "metadata": {"name": "d"},
                    "spec": {"baseVolumeSnapshotName": "data-1",
                             "targetVolumeSnapshotName": "data-2", **spec}}
        for limit in (100000, 2**63 - 1, 2**63, 2**64 - 1):
            status = self.ask("POST", path, delta(limit=limit, mode="Block"))["status"]
            self.assertEqual(status["effectiveLimit"], 256)
            self.assertGreaterEqual(status["limit"], 100000)
        status = self.ask("POST", path, delta(limit=5))["status"]
        self.assertEqual((status["limit"], status["state"]), (5, "Continue"))
        self.assertNotIn("effectiveLimit", status)
        done = self.kube.run("create", "-f", "-", text=json.dumps(delta(limit=-1)))
        self.assertIn("spec.limit: must be", done.stderr)
        self.assertNotIn("spec.limit: spec.limit", done.stderr)

    def test_a_deleted_discovery_comes_back_at_once(self):
        name = Roles.DRIVER
        before = self.kube.wait(lambda found: True, "driverdiscovery", name)
        self.kube.kubectl("delete", "driverdiscovery", name)
        self.kube.wait(lambda found: found["metadata"]["uid"] != before["metadata"]["uid"],
                       "driverdiscovery", name, seconds=30)


if __name__ == "__main__":
    unittest.main()
