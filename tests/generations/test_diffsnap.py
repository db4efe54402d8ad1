#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cairn diffsnap` on a real control plane: DifferentialSnapshot objects from creation to
Success or Failure, pages of blocks over HTTPS, tokens and rights, restarts."""
import base64
import json
import unittest
import urllib.request

from generations import DEPLOY, GROUP, HOST, OLDER, GenerationsTest, Https, blocks
from processes import wait_until

SNAPSHOT = "snapshot.storage.k8s.io"


class DiffsnapTest(GenerationsTest):
    unclaimed = "none"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kube.apply_files(DEPLOY / "components/diffsnap/differentialsnapshots.yaml",
                             DEPLOY / "components/diffsnap/rbac.yaml")
        cls.kube.wait_crds()
        for name in ("reader", "nobody"):
            cls.kube.service_account("default", name)
        cls.kube.allow("test-reader", "default:reader", role="cairn-diffsnap-reader",
                       namespace="default")
        cls.kube.allow("test-snapshots", "default:reader", rules=[
            (SNAPSHOT, "volumesnapshots", "get")], namespace="default")
        cls.token = cls.kube.token("default", "reader")
        cls.stranger = cls.kube.token("default", "nobody")
        cls.rest_port, cls.health_port = cls.port(), cls.port()
        cls.address = f"{HOST}:{cls.rest_port}"
        cls.https = Https(cls.rest_port, cls.authority.crt)
        cls.start()

    @classmethod
    def start(cls):
        config = cls.kube.kubeconfig_of_account("cairn", "cairn-diffsnap")
        cls.bed.processes.start("diffsnap", [
            cls.bed.cairn, "diffsnap", "--csi-address", f"unix://{cls.csi.socket}",
            "--listen", cls.address, "--advertise", cls.address, "--tls-cert", cls.cert,
            "--tls-key", cls.key, "--kubeconfig", config, "--log-level", "debug",
            "--unclaimed-after", cls.unclaimed, "--http-endpoint", f"{HOST}:{cls.health_port}"])
        cls.bed.processes.wait_ready("diffsnap", cls.is_ready)

    @classmethod
    def health(cls, path):
        with urllib.request.urlopen(f"http://{HOST}:{cls.health_port}{path}", timeout=60) as reply:
            return reply.read().decode()

    @classmethod
    def is_ready(cls):
        try:
            return cls.health("/readyz") == "ok"
        except OSError:
            return False

    @classmethod
    def restart(cls):
        cls.bed.processes.kill("diffsnap")
        cls.bed.processes.restart("diffsnap")
        cls.bed.processes.wait_ready("diffsnap", cls.is_ready)

    def make(self, name, target, base=None, wait=True, **spec):
        """The object once it is a Success or a Failure."""
        if base:
            spec["baseVolumeSnapshotName"] = base
        self.kube.apply({"apiVersion": f"{GROUP}/v1alpha2", "kind": "DifferentialSnapshot",
                         "metadata": {"name": name},
                         "spec": {"targetVolumeSnapshotName": target, **spec}})
        self.addCleanup(self.kube.delete, "differentialsnapshot", name)
        if not wait:
            return None
        return self.kube.wait(lambda made: made.get("status", {}).get("state") in
                              ("Success", "Failure"), "differentialsnapshot", name)

    def fails(self, text, *args, **spec):
        status = self.make(*args, **spec)["status"]
        self.assertEqual(status["state"], "Failure", status)
        self.assertIn(text, status["error"])
        self.assertNotIn("url", status)
        return status

    def pages(self, path, limit, token=None):
        """All blocks of the pages that begin there."""
        found, at, glue = set(), "", "&" if "?" in path else "?"
        while True:
            page = self.https.get(f"{path}{glue}maxEntries={limit}{at}", token or self.token)
            self.assertLessEqual(len(page["ChangeBlockList"]), limit)
            for entry in page["ChangeBlockList"]:
                found |= blocks(entry["Offset"], entry["Size"])
            if page["NextOffset"] is None:
                return found
            at = f"&NextOffset={page['NextOffset']}"

    def status_of(self, path, token=None, **how):
        return self.https.ask(path, token, **how)[0]


class Story(DiffsnapTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("data", "other", "gone"):
            cls.history(name)

    def test_an_object_leads_to_its_blocks(self):
        made = self.make("both", "data-2", "data-1")
        self.assertEqual(made["status"]["state"], "Success", made)
        self.assertEqual(made["status"]["url"], f"{self.address}/default/both")
        expected = self.truth("data-1", "data-2")
        self.assertGreaterEqual(len(expected), 40)
        for limit in (1, 7, 256):
            self.assertEqual(self.pages("/default/both", limit), expected)
        text = self.kube.kubectl("get", "differentialsnapshots")
        self.assertRegex(text, r"both +data-1 +data-2 +Success +127.0.0.1:\d+/default/both")
        self.assertIn("Success", self.kube.kubectl("describe", "differentialsnapshot", "both"))

    def test_without_a_base_all_blocks_in_use_are_told(self):
        self.assertEqual(self.make("full", "data-2")["status"]["state"], "Success")
        self.assertEqual(self.pages("/default/full", 256), self.truth(None, "data-2"))

    def test_a_start_in_the_object_and_parameters_count(self):
        start = 2 << 20
        self.make("later", "data-2", "data-1", startOffset=str(start),
                  parameters={"dataTokens": "true"}, volumeId=self.csi.volume_id("data"),
                  mode="block")
        page = self.https.get("/default/later", self.token)
        self.assertGreaterEqual(page["ChangeBlockList"][0]["Offset"], start)
        self.assertTrue(all(entry["Context"] for entry in page["ChangeBlockList"]))
        self.assertEqual(page["VolumeSize"], 16 << 20)
        first = self.https.get("/default/later?startOffset=0", self.token)
        self.assertLess(first["ChangeBlockList"][0]["Offset"], start)

    def test_what_can_not_be_compared_is_a_failure(self):
        self.fails("no VolumeSnapshot 'default/none'", "no-target", "none")
        self.fails("no VolumeSnapshot 'default/none'", "no-base", "data-2", "none")
        self.fails("", "swapped", "data-1", "data-2")
        self.fails("", "unrelated", "other-2", "data-1")
        self.fails("not a snapshot of volume", "wrong-volume", "data-2", "data-1", volumeId="vol-0")
        self.fails("StartOffset", "wrong-start", "data-2", "data-1", startOffset="x")
        event = wait_until(lambda: [e for e in self.kube.get("events.events.k8s.io")["items"]
                                    if e["reason"] == "Failure" and
                                    e["regarding"]["name"] == "no-target"], 180, "an event")
        self.assertEqual(event[0]["type"], "Warning")
        self.assertEqual(self.status_of("/default/no-target", self.token), 404)

    def test_snapshots_of_other_drivers(self):
        self.by_hand("foreign", "other.csi.dev")
        self.make("not-ours", "foreign", wait=False)
        self.fails("another driver", "mixed", "data-2", "foreign")
        self.assertNotIn("status", self.kube.get("differentialsnapshot", "not-ours"))

    def test_an_object_without_a_controller_fails_by_the_manager(self):
        """Neither of its driver's nor of any other driver; another driver's with the option."""
        self.by_hand("nobodys", "nobody.csi.dev")
        self.make("unclaimed", "nobodys", wait=False)
        self.make("claimed", "data-2", "data-1")
        self.kube.apply_files(*sorted((DEPLOY / "components/sessions").glob("snapshot*.yaml")),
                              DEPLOY / "components/sessions/rbac.yaml")
        self.kube.wait_crds()
        self.bed.processes.start("manager", [
            self.bed.cairn, "manager", "--kubeconfig",
            self.kube.kubeconfig_of_account("cairn", "cairn-manager"), "--unclaimed-after", "2s",
            "--log-level", "debug"])
        self.addCleanup(self.bed.processes.stop, "manager")
        made = self.kube.wait(lambda made: made.get("status", {}).get("state"),
                              "differentialsnapshot", "unclaimed")
        self.assertEqual(made["status"]["state"], "Failure")
        self.assertIn("no controller of the CSI driver 'nobody.csi.dev'", made["status"]["error"])
        self.assertIn("DIFFERENTIAL_SNAPSHOT_SERVICE", made["status"]["error"])
        self.assertEqual(self.kube.get("differentialsnapshot", "claimed")["status"]["state"],
                         "Success")
        self.assertNotIn("forbidden", self.bed.processes.log_text("manager"))

    def by_hand(self, name, driver, ref=None, ready=True):
        """A VolumeSnapshot and its content that no driver made."""
        self.kube.apply([
            {"apiVersion": f"{SNAPSHOT}/v1", "kind": "VolumeSnapshotContent",
             "metadata": {"name": f"content-{name}"},
             "spec": {"driver": driver, "deletionPolicy": "Retain",
                      "source": {"snapshotHandle": "handle"},
                      "volumeSnapshotRef": {"namespace": "default", "name": ref or name}}},
            {"apiVersion": f"{SNAPSHOT}/v1", "kind": "VolumeSnapshot",
             "metadata": {"name": name},
             "spec": {"source": {"volumeSnapshotContentName": f"content-{name}"}}}])
        for kind, which, status in (
                ("volumesnapshotcontent", f"content-{name}",
                 {"snapshotHandle": "handle", "readyToUse": True}),
                ("volumesnapshot", name, {"boundVolumeSnapshotContentName": f"content-{name}",
                                          "readyToUse": ready})):
            self.kube.kubectl("patch", kind, which, "--subresource=status", "--type=merge", "-p",
                              json.dumps({"status": status}))

    def test_somebody_elses_content_is_not_believed(self):
        content = self.kube.get("volumesnapshot", "data-2")["status"][
            "boundVolumeSnapshotContentName"]
        self.kube.namespace("thief")
        self.kube.apply({"apiVersion": f"{SNAPSHOT}/v1", "kind": "VolumeSnapshot",
                         "metadata": {"name": "stolen"},
                         "spec": {"source": {"volumeSnapshotContentName": content}}})
        self.kube.kubectl("patch", "volumesnapshot", "stolen", "--subresource=status",
                          "--type=merge", "-p", json.dumps(
                              {"status": {"boundVolumeSnapshotContentName": content,
                                          "readyToUse": True}}))
        self.fails("is not bound to VolumeSnapshot", "theft", "stolen")

    def test_what_is_not_ready_is_waited_for(self):
        self.kube.apply({"apiVersion": f"{SNAPSHOT}/v1", "kind": "VolumeSnapshot",
                         "metadata": {"name": "slow"},
                         "spec": {"source": {"persistentVolumeClaimName": "soon"},
                                  "volumeSnapshotClassName": "cairn"}})
        self.make("waits", "slow", wait=False)
        self.kube.wait(lambda made: made.get("status", {}).get("state") == "Pending",
                       "differentialsnapshot", "waits")
        self.csi.claim("soon", "16Mi")
        self.kube.wait(lambda made: made["status"]["state"] == "Success",
                       "differentialsnapshot", "waits")

    def test_only_who_may_get_the_object_reads_it(self):
        self.make("guarded", "data-2", "data-1")
        path = "/default/guarded"
        for token, status in ((None, 401), ("", 401), ("x.y.z", 401), (self.stranger, 403),
                              (self.token, 200)):
            self.assertEqual(self.status_of(path, token), status, token)
        status, text, _ = self.https.ask(f"{path}?access_token={self.token}")
        self.assertEqual(status, 400, "a token is taken from the header only")
        self.assertNotIn(self.token, text)
        self.assertEqual(self.status_of(path, headers={"Authorization": f"Basic {self.token}"}),
                         401)
        # Nothing is said about what exists.
        self.assertEqual(self.status_of("/default/nothing", self.stranger), 403)
        self.assertEqual(self.status_of("/default/nothing", self.token), 404)
        self.assertEqual(self.status_of("/kube-system/guarded", self.token), 403)
        self.assertEqual(self.status_of(path, self.token, method="POST"), 405)
        self.assertEqual(self.status_of("/", self.token), 404)
        self.assertEqual(self.status_of("/default/..", self.token), 400)
        self.assertEqual(self.status_of(f"{path}?maxEntries=x", self.token), 400)
        self.assertEqual(self.status_of(f"{path}?startOffset=99999999999", self.token), 400)
        log = self.bed.processes.log_text("diffsnap")
        self.assertNotIn(self.token, log)
        self.assertNotIn(self.stranger, log)

    def test_an_object_ends_with_its_target(self):
        self.make("ends", "gone-2", "gone-1")
        self.assertEqual(self.status_of("/default/ends", self.token), 200)
        self.kube.delete("volumesnapshot", "gone-2")
        made = self.kube.wait(lambda made: made["status"]["state"] != "Success",
                              "differentialsnapshot", "ends")
        self.assertEqual(made["status"]["state"], "Failure")
        self.assertIn("no VolumeSnapshot 'default/gone-2'", made["status"]["error"])
        self.assertNotIn("url", made["status"])
        self.assertEqual(self.status_of("/default/ends", self.token), 404)

    def test_an_object_that_goes_is_forgotten(self):
        self.make("short", "data-2", "data-1")
        self.assertEqual(self.status_of("/default/short", self.token), 200)
        self.kube.delete("differentialsnapshot", "short")
        wait_until(lambda: self.status_of("/default/short", self.token) == 404, 180, "forgotten")

    def test_without_an_object(self):
        path = "/namespaces/default/diff?base=data-1&target=data-2"
        for limit in (7, 256):
            self.assertEqual(self.pages(path, limit), self.truth("data-1", "data-2"))
        self.assertEqual(self.pages("/namespaces/default/diff?target=data-2", 256),
                         self.truth(None, "data-2"))
        self.assertEqual(self.status_of(path, self.stranger), 403)
        self.assertEqual(self.status_of("/namespaces/default/diff?target=none", self.token), 404)
        self.assertEqual(self.status_of("/namespaces/default/diff", self.token), 400)
        self.assertEqual(self.status_of(path + "&mode=File", self.token), 400)
        page = self.https.get(path + "&parameters.dataTokens=true", self.token)
        self.assertTrue(page["ChangeBlockList"][0]["Context"])

    def test_the_data_of_blocks_for_software_outside_the_pod(self):
        """The second workflow of the proposal: no volume is made from the snapshot."""
        self.make("fetched", "data-2", "data-1", parameters={"dataTokens": "true"})
        page = self.https.get("/default/fetched?maxEntries=5", self.token)
        with open(self.csi.cairn("snapshot", "path", self.csi.snapshot_id("data-2")).strip(),
                  "rb") as file:
            data = file.read()

        def fetch(token, user, **change):
            body = json.dumps({"token": token, **change})
            connection = self.https.connect()
            try:
                connection.request("POST", "/v1/block", body,
                                   {"Authorization": f"Bearer {user}"} if user else {})
                reply = connection.getresponse()
                return reply.status, reply.read()
            finally:
                connection.close()
        for entry in page["ChangeBlockList"]:
            token = base64.b64decode(entry["Context"]).decode()
            first, end = entry["Offset"], entry["Offset"] + entry["Size"]
            self.assertEqual(fetch(token, self.token), (200, data[first:end]))
        for user, status in ((None, 401), (self.stranger, 403)):
            self.assertEqual(fetch(token, user)[0], status)
        # Somebody else who may read the snapshots is not the holder.
        self.kube.service_account("default", "other-reader")
        self.kube.allow("other-reader", "default:other-reader", namespace="default", rules=[
            (SNAPSHOT, "volumesnapshots", "get")])
        self.assertEqual(fetch(token, self.kube.token("default", "other-reader"))[0], 401)
        for wrong in ("", "x", token[:-1], token.replace("data-2", "data-1"), "x" + token):
            self.assertEqual(fetch(wrong, self.token)[0], 401, wrong)
        self.assertNotIn(token.partition(".")[0], self.bed.processes.log_text("diffsnap"))

    def test_offsets_have_the_names_of_the_proposal_in_any_case(self):
        """A name that is ignored would return the first page for ever."""
        path = "/namespaces/default/diff?base=data-1&target=data-2&maxEntries=3"
        first = self.https.get(path, self.token)
        after = self.https.get(f"{path}&startOffset={first['NextOffset']}", self.token)
        self.assertNotEqual(first, after)
        self.assertGreater(after["ChangeBlockList"][0]["Offset"],
                           first["ChangeBlockList"][-1]["Offset"])
        for name in ("StartOffset", "nextOffset", "NextOffset", "NEXTOFFSET"):
            self.assertEqual(self.https.get(f"{path}&{name}={first['NextOffset']}", self.token),
                             after, name)
        proposal = "/namespaces/default/diff?BaseVolumeSnapshotName=data-1&" \
                   "TargetVolumeSnapshotName=data-2&MaxEntries=3"
        self.assertEqual(self.https.get(proposal, self.token), first)
        camel = self.https.get(f"{path}&fieldNames=camelCase", self.token)
        self.assertEqual(camel["nextOffset"], first["NextOffset"])
        self.assertEqual([e["offset"] for e in camel["changeBlockList"]],
                         [e["Offset"] for e in first["ChangeBlockList"]])

    def test_every_other_parameter_is_refused_by_its_name(self):
        self.make("strict", "data-2", "data-1")
        for path in ("/namespaces/default/diff?bse=data-1&target=data-2",
                     "/namespaces/default/diff?target=data-2&bse=",
                     "/default/strict?bse=data-1"):
            status, text, _ = self.https.ask(path, self.token)
            self.assertEqual(status, 400, path)
            self.assertIn("'bse'", json.loads(text)["error"])
        for twice in ("startOffset=0&StartOffset=0", "startOffset=0&nextOffset=0"):
            status, text, _ = self.https.ask(f"/default/strict?{twice}", self.token)
            self.assertEqual(status, 400, twice)
            self.assertIn("given twice", json.loads(text)["error"])
        # A limit of any size is one; the driver has its own.
        page = self.https.get(f"/default/strict?maxEntries={2**64 - 1}", self.token)
        self.assertIsNone(page["NextOffset"])

    def test_the_page_after_the_last_is_not_the_first(self):
        """A client that sends what it was given, until nothing comes, comes to an end."""
        self.make("looped", "data-2", "data-1", startOffset="4096")
        self.assertIsNone(self.https.get("/default/looped", self.token)["NextOffset"])
        for path in ("/default/looped?", "/namespaces/default/diff?target=data-2&"):
            for after in ("NextOffset=", "startOffset", "nextOffset=null", "NextOffset=None",
                          "StartOffset=+", "nextOffset=%00"):
                status, text, _ = self.https.ask(path + after, self.token)
                self.assertEqual(status, 400, after)
                self.assertNotIn("ChangeBlockList", text)
        status, text, _ = self.https.ask("/namespaces/default/diff?base=&target=data-2",
                                         self.token)
        self.assertEqual(status, 400, "an empty base is not all blocks")
        self.assertIn("base is empty", json.loads(text)["error"])

    def test_it_counts(self):
        self.make("counted", "data-2", "data-1")
        self.https.get("/default/counted", self.token)
        text = self.health("/metrics")
        self.assertRegex(text, r'cairn_diffsnap_requests_total{kind="object",code="OK"} [1-9]')
        self.assertRegex(text, r"cairn_diffsnap_blocks_total [1-9]")
        self.assertRegex(text, r"cairn_diffsnap_resources [1-9]")
        self.assertRegex(text, r"cairn_certificate_expiry_seconds [1-9]\d{9}")
        self.assertRegex(text, r'cairn_build_info{version="[^"]+",compiler="[^"]+"} 1')


class Ends(DiffsnapTest):
    """Restarts, deleted bases and targets, a driver without the service."""

    unclaimed = "2s"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Before the driver is away for the first time: the provisioner ends with it.
        for name in ("data", "plain", "away"):
            cls.history(name)

    def test_a_deleted_base_is_still_known_after_a_restart(self):
        self.make("kept", "data-2", "data-1")
        expected = self.pages("/default/kept", 256)
        self.assertEqual(expected, self.truth("data-1", "data-2"))
        self.kube.delete("volumesnapshot", "data-1")
        self.assertEqual(self.pages("/default/kept", 7), expected)
        self.restart()
        self.assertEqual(self.pages("/default/kept", 7), expected)
        # Who comes only now can not name it any more.
        self.fails("no VolumeSnapshot", "late", "data-2", "data-1")
        # The target's data is gone with it.
        self.kube.delete("volumesnapshot", "data-2")
        self.restart()
        self.kube.wait(lambda made: made["status"]["state"] == "Failure",
                       "differentialsnapshot", "kept")
        self.assertEqual(self.status_of("/default/kept", self.token), 404)
        log = self.bed.processes.log_text("diffsnap")
        self.assertNotIn("forbidden", log, "a right is missing")

    def test_the_controller_of_another_driver_fails_what_nobody_answers(self):
        Story.by_hand(self, "foreign", "other.csi.dev")
        self.fails("no controller of the CSI driver 'other.csi.dev'", "not-ours", "foreign")

    def test_a_driver_without_the_service(self):
        command = self.bed.processes.commands["driver"][0]
        self.bed.processes.stop("driver")
        self.bed.processes.start("driver", [word for word in command if word not in OLDER])
        self.bed.processes.wait_ready("driver", self.csi.socket.exists)
        try:
            self.fails("DIFFERENTIAL_SNAPSHOT_SERVICE", "no-service", "plain-2", "plain-1")
        finally:
            self.bed.processes.stop("driver")
            self.bed.processes.start("driver", command)
            self.bed.processes.wait_ready("driver", self.csi.socket.exists)

    def test_the_driver_away_for_a_while(self):
        self.make("patient", "away-2", "away-1")
        expected = self.pages("/default/patient", 256)
        self.bed.processes.restart("driver")
        self.bed.processes.wait_ready("driver", self.csi.socket.exists)
        self.assertEqual(self.pages("/default/patient", 256), expected)


if __name__ == "__main__":
    unittest.main()
