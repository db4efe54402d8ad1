#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""src/kube against a real API server: calls, watches, informers, leases, credentials."""
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

import cluster
from kube import Refused
from processes import wait_until

cluster.peers_or_skip(*cluster.CONTROL_PLANE)

CONFIGMAPS = {"group": "", "version": "v1", "plural": "configmaps", "kind": "ConfigMap",
              "namespaced": True}
NAMESPACES = {"group": "", "version": "v1", "plural": "namespaces", "kind": "Namespace"}
LEASES = {"group": "coordination.k8s.io", "version": "v1", "plural": "leases", "kind": "Lease",
          "namespaced": True}
EVENTS = {"group": "events.k8s.io", "version": "v1", "plural": "events", "kind": "Event",
          "namespaced": True}
ANSWER_TIME = 120  # seconds; a busy machine is not a failure
PROMPT_MS = 15000  # half of what a request may take


class Tool:
    """kube-client-tool: each call is a line to it and a line back."""

    def __init__(self, *arguments, **environment):
        self.process = subprocess.Popen([os.environ["KUBE_CLIENT_TOOL"], *map(str, arguments)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})
        self.stopped = False

    def ask(self, do, **words):
        timer = threading.Timer(ANSWER_TIME, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps({"do": do, **words}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise AssertionError(f"the tool ended with {self.process.wait()}")
        return json.loads(line)

    def __call__(self, do, **words):
        """What came of it; it must have worked."""
        reply = self.ask(do, **words)
        if not reply["ok"]:
            raise AssertionError(f"{do}: {reply}")
        return reply.get("answer")

    def close(self):
        """The end in good order: 0 when nothing leaked and nothing crashed."""
        if self.stopped:
            return
        self.stopped = True
        self.process.stdin.close()
        status = self.process.wait(ANSWER_TIME)
        self.process.stdout.close()
        if status != 0:
            raise AssertionError(f"the tool ended with {status}")

    def kill(self):
        self.stopped = True
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def config_map(name, labels=None, **data):
    metadata = {"name": name, "labels": labels} if labels else {"name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class Case(unittest.TestCase):
    space = None

    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(cluster.Cluster())
        cls.kube = cls.bed.kube

    def setUp(self):
        self.space = f"t{time.time_ns():x}"
        self.kube.request("POST", "/api/v1/namespaces", {"metadata": {"name": self.space}})
        self.tool = self.start()

    def start(self, config=None, *more, **environment):
        tool = Tool(self.kube.kubeconfig if config is None else config, *more, **environment)
        self.addCleanup(tool.close)
        return tool

    def refused(self, reply, code, http=None):
        self.assertFalse(reply["ok"], reply)
        self.assertEqual(reply["code"], code, reply)
        if http:
            self.assertEqual(reply["http"], http)

    def make(self, name, labels=None, **data):
        return self.tool("create", of=CONFIGMAPS, ns=self.space,
                         object=config_map(name, labels, **data))

    def api(self, method, path, body=None, **how):
        return self.kube.request(method, f"/api/v1/namespaces/{self.space}/{path}", body, **how)


class Calls(Case):
    def test_an_object_lives_from_create_to_delete(self):
        made = self.make("one", value="0")
        self.assertTrue(made["metadata"]["uid"])
        self.refused(self.tool.ask("create", of=CONFIGMAPS, ns=self.space,
                                   object=config_map("one")), "ALREADY_EXISTS", 409)
        got = self.tool("get", of=CONFIGMAPS, ns=self.space, name="one")
        got["data"]["value"] = "1"
        self.tool("update", of=CONFIGMAPS, ns=self.space, name="one", object=got)
        self.refused(self.tool.ask("update", of=CONFIGMAPS, ns=self.space, name="one",
                                   object=got), "ABORTED", 409)
        self.tool("patch", of=CONFIGMAPS, ns=self.space, name="one", kind="merge",
                  object={"data": {"value": None, "other": "2"}})
        self.tool("patch", of=CONFIGMAPS, ns=self.space, name="one", kind="json",
                  object=[{"op": "add", "path": "/data/third", "value": "3"}])
        got = self.tool("get", of=CONFIGMAPS, ns=self.space, name="one")
        self.assertEqual(got["data"], {"other": "2", "third": "3"})
        self.refused(self.tool.ask("delete", of=CONFIGMAPS, ns=self.space, name="one",
                                   uid="00000000-0000-0000-0000-000000000000"), "ABORTED", 409)
        self.tool("delete", of=CONFIGMAPS, ns=self.space, name="one", uid=got["metadata"]["uid"])
        self.refused(self.tool.ask("get", of=CONFIGMAPS, ns=self.space, name="one"),
                     "NOT_FOUND", 404)

    def test_apply_owns_fields_and_leaves_those_of_others(self):
        def apply(manager, force=False, **data):
            return self.tool.ask("apply", of=CONFIGMAPS, ns=self.space, name="a", manager=manager,
                                 force=force, object=config_map("a", **data))
        self.assertTrue(apply("first", x="1")["ok"])
        self.assertTrue(apply("second", y="2")["ok"])
        self.refused(apply("second", x="9", y="2"), "ABORTED", 409)
        self.assertEqual(apply("second", force=True, x="9", y="2")["answer"]["data"],
                         {"x": "9", "y": "2"})

    def test_what_is_wrong_has_its_code(self):
        bad = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Not A Name"}}
        self.refused(self.tool.ask("create", of=CONFIGMAPS, ns=self.space, object=bad),
                     "INVALID_ARGUMENT", 422)
        self.refused(self.tool.ask("create", of=CONFIGMAPS, ns=self.space, validation="Strict",
                                   object={**config_map("x"), "nothing": 1}),
                     "INVALID_ARGUMENT", 400)
        self.refused(self.tool.ask("get", of=CONFIGMAPS, ns="no-such", name="x"), "NOT_FOUND", 404)
        self.refused(self.tool.ask("list", of={**CONFIGMAPS, "plural": "nothings"}), "NOT_FOUND")
        self.refused(self.tool.ask("update", of={**NAMESPACES, "plural": "componentstatuses"},
                                   name="x", object={}), "UNIMPLEMENTED", 405)

    def test_a_dry_run_changes_nothing(self):
        self.tool("create", of=CONFIGMAPS, ns=self.space, object=config_map("dry"), dry=True)
        self.refused(self.tool.ask("get", of=CONFIGMAPS, ns=self.space, name="dry"), "NOT_FOUND")

    def test_a_status_changes_by_its_subresource_only(self):
        made = self.tool("get", of=NAMESPACES, name=self.space)
        made["status"]["conditions"] = [{"type": "Test", "status": "True"}]
        plain = self.tool("update", of=NAMESPACES, name=self.space, object=made)
        self.assertNotIn("conditions", plain["status"])
        made["metadata"]["resourceVersion"] = plain["metadata"]["resourceVersion"]
        self.tool("update", of=NAMESPACES, name=self.space, sub="status", object=made)
        got = self.tool("get", of=NAMESPACES, name=self.space)
        self.assertEqual(got["status"]["conditions"][0]["type"], "Test")

    def test_lists_come_in_pages_and_whole(self):
        for i in range(25):
            self.make(f"m{i:02}", {"half": str(i % 2)})
        page = self.tool("page", of=CONFIGMAPS, ns=self.space, limit=10)
        self.assertEqual(len(page["items"]), 10)
        whole = self.tool("list", of=CONFIGMAPS, ns=self.space, limit=4)
        names = [item["metadata"]["name"] for item in whole["items"]]
        self.assertEqual([name for name in names if name.startswith("m")],
                         [f"m{i:02}" for i in range(25)])
        self.assertNotIn("continue", whole["metadata"])
        self.assertTrue(whole["metadata"]["resourceVersion"])
        some = self.tool("list", of=CONFIGMAPS, ns=self.space, labels="half=1", limit=5)
        self.assertEqual(len(some["items"]), 12)
        self.tool("delete_all", of=CONFIGMAPS, ns=self.space, labels="half=1")
        some = self.tool("list", of=CONFIGMAPS, ns=self.space, labels="half=1")
        self.assertEqual(some["items"], [])

    def test_numbers_and_texts_that_break_other_parsers_are_read(self):
        self.api("POST", "configmaps", config_map("odd", value="a\u0000b", quote='"\\\u2028'))
        got = self.tool("get", of=CONFIGMAPS, ns=self.space, name="odd")
        self.assertEqual(got["data"], {"value": "a\u0000b", "quote": '"\\\u2028'})

    def test_writers_that_meet_all_count(self):
        self.make("counter", count="0")
        tools = [self.start() for _ in range(3)]
        def count(tool):
            for _ in range(20):
                tool("count_up", of=CONFIGMAPS, ns=self.space, name="counter")
        threads = [threading.Thread(target=count, args=[tool]) for tool in tools]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.api("GET", "configmaps/counter")["data"]["count"], "60")

    def test_a_call_costs_no_handshake(self):
        self.make("shared")
        for http1 in ({}, {"HTTP1": "1"}):
            tool = self.start(None, **http1)
            tool("crowd", of=CONFIGMAPS, ns=self.space, name="shared", n=1000, threads=32)
            stats = tool("stats")
            self.assertEqual(stats["requests"], 1000)
            self.assertLessEqual(stats["connections"], 32 if http1 else 1)

    def test_other_paths_are_read_as_they_are(self):
        self.assertEqual(self.tool("raw", path="/readyz"), "ok")
        self.assertIn("gitVersion", self.tool("raw", path="/version"))

    def test_the_client_keeps_its_rate(self):
        self.make("slow")
        tool = self.start(None, 50)
        begin = time.monotonic()
        tool("crowd", of=CONFIGMAPS, ns=self.space, name="slow", n=100, threads=4)
        self.assertGreater(time.monotonic() - begin, 1.9)  # 99 of them at 50 a second
        self.assertGreater(tool("stats")["limited_ms"], 0)


class Reviews(Case):
    def test_tokens_are_made_and_reviewed(self):
        self.kube.service_account(self.space, "client")
        made = self.tool("token", ns=self.space, name="client", audience="mine", seconds=600)
        self.assertGreater(made["expires"], time.time() + 500)
        found = self.tool("review", token=made["token"], audience="mine")
        self.assertTrue(found["authenticated"] and found["has"])
        self.assertEqual(found["user"]["username"],
                         f"system:serviceaccount:{self.space}:client")
        other = self.tool("review", token=made["token"], audience="other")
        self.assertFalse(other["authenticated"] or other["has"])
        self.assertFalse(self.tool("review", token="rubbish", audience="mine")["authenticated"])
        self.refused(self.tool.ask("token", ns=self.space, name="nobody", audience="mine"),
                     "NOT_FOUND", 404)

    def test_rights_are_reviewed(self):
        self.kube.service_account(self.space, "client")
        self.kube.allow(f"reader-{self.space}", f"{self.space}:client",
                        [("", "configmaps", "get")], namespace=self.space)
        user = {"username": f"system:serviceaccount:{self.space}:client",
                "groups": ["system:serviceaccounts", "system:authenticated"]}
        def allowed(**what):
            return self.tool("access", user=user, resource="configmaps", ns=self.space,
                             **what)["allowed"]
        wait_until(lambda: allowed(verb="get"), 180, "the right is there")
        self.assertFalse(allowed(verb="delete"))
        self.assertTrue(self.tool("access", verb="delete", resource="configmaps",
                                  ns=self.space)["allowed"])  # ourselves
        self.assertIn("test-admin", self.tool("whoami")["username"])


class Watches(Case):
    def test_what_happens_is_told_in_order(self):
        version = self.make("w")["metadata"]["resourceVersion"]
        self.tool("patch", of=CONFIGMAPS, ns=self.space, name="w", kind="merge",
                  object={"data": {"a": "1"}})
        self.tool("delete", of=CONFIGMAPS, ns=self.space, name="w")
        self.make("w")
        found = self.tool("watch", of=CONFIGMAPS, ns=self.space, name="w", version=version, n=3)
        self.assertEqual([event[0] for event in found["events"]],
                         ["MODIFIED", "DELETED", "ADDED"])

    def test_the_server_ends_a_watch_in_good_order(self):
        version = self.tool("list", of=CONFIGMAPS, ns=self.space)["metadata"]["resourceVersion"]
        for seconds in (8, 60):  # the change may come too late on a busy machine
            elsewhere = threading.Timer(2, self.kube.apply,
                                        [config_map(f"of-{self.space}-{seconds}")])
            elsewhere.start()
            found = self.tool("watch", of=CONFIGMAPS, ns=self.space, version=version,
                              bookmarks=True, seconds=seconds)
            elsewhere.join()
            kinds = [event[0] for event in found["events"]]
            if "BOOKMARK" in kinds:
                break
        # Before it ends, the server tells how far it is.
        self.assertEqual(kinds[-1], "BOOKMARK")

    def test_an_old_version_is_out_of_range(self):
        version = self.make("old")["metadata"]["resourceVersion"]
        self.make("new")
        self.bed.processes.stop("kube-apiserver")  # its cache would still know
        compact(self.bed)
        restart_apiserver(self.bed)
        reply = self.tool.ask("watch", of=CONFIGMAPS, ns=self.space, version=version, n=1)
        self.refused(reply, "OUT_OF_RANGE")

    def test_many_watches_leave_room_for_calls(self):
        """More than a connection takes: others are opened, and all of them are told."""
        version = self.make("first")["metadata"]["resourceVersion"]
        self.tool("watches", of=CONFIGMAPS, ns=self.space, version=version, n=300)
        self.tool("get", of=CONFIGMAPS, ns=self.space, name="first")
        self.make("second")
        self.tool("watched")
        self.assertLess(self.tool("stats")["connections"], 10)

    def test_large_objects_come_through(self):
        """Lines of a watch and bodies of a megabyte each, and lists of many."""
        wait_until(lambda: self.tool.ask("get", of=CONFIGMAPS, ns=self.space,
                                         name="kube-root-ca.crt")["ok"], 60,
                   "what a controller puts into every namespace is there")
        version = self.make("small")["metadata"]["resourceVersion"]
        for i in range(12):
            self.make(f"large{i}", text=chr(97 + i) * 900_000)
        found = self.tool("watch", of=CONFIGMAPS, ns=self.space, version=version, n=12)
        self.assertEqual([event[1] for event in found["events"]],
                         [f"large{i}" for i in range(12)])
        whole = self.tool("list", of=CONFIGMAPS, ns=self.space, limit=5)
        sizes = [len(item["data"]["text"]) for item in whole["items"] if "text" in item.get("data", {})]
        self.assertEqual(sizes, [900_000] * 12)

    def test_a_quiet_watch_waits_no_longer_than_told(self):
        version = self.tool("list", of=CONFIGMAPS, ns=self.space)["metadata"]["resourceVersion"]
        reply = self.tool.ask("watch", of=CONFIGMAPS, ns=self.space, version=version, n=100,
                              fields="metadata.name=none", wait=200)
        self.refused(reply, "DEADLINE_EXCEEDED")


def compact(bed):
    """Makes etcd forget all but the present."""
    endpoint = next(word.partition("=")[2] for word in bed.processes.commands["kube-apiserver"][0]
                    if word.startswith("--etcd-servers="))
    def etcd(path, **words):
        request = urllib.request.Request(f"{endpoint}/v3/{path}", json.dumps(words).encode())
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.loads(reply.read())
    revision = etcd("maintenance/status")["header"]["revision"]
    etcd("kv/compaction", revision=revision, physical=True)


def restart_apiserver(bed):
    bed.processes.restart("kube-apiserver")
    bed.processes.wait_ready("kube-apiserver", lambda: bed.kube.answers("/readyz"))


class Informers(Case):
    def truth(self):
        items = self.api("GET", "configmaps")["items"]
        return {f"{self.space}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
                for item in items}

    def inform(self):
        self.tool("informer", of=CONFIGMAPS, ns=self.space)

    def check(self):
        """The copy and what handlers were told are what the server has, and in order."""
        def same():
            found, truth = self.tool("informed"), self.truth()
            return found if found["objects"] == truth and found["told"] == truth else None
        found = wait_until(same, 180, "the copy is true")
        self.assertEqual(found["odd"], 0)
        return found

    def try_to(self, *words, **how):
        try:
            self.api(*words, **how)
        except Refused:
            pass
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)  # it is not there

    def change(self, rounds):
        """Creates, changes and deletes, by another client."""
        for i in range(rounds):
            self.try_to("POST", "configmaps", config_map(f"c{i % 17}", {"color": "red"}))
            self.try_to("PATCH", f"configmaps/c{i % 5}", {"data": {"i": str(i)}},
                        content_type="application/merge-patch+json")
            if i % 3 == 0:
                self.try_to("DELETE", f"configmaps/c{(i * 7) % 17}")

    def test_the_copy_follows(self):
        self.make("before", {"color": "blue"})
        self.inform()
        self.change(60)
        found = self.check()
        self.assertEqual(found["lists"], 1)
        blue = self.tool("informed", color="blue")["objects"]
        self.assertEqual(list(blue), [f"{self.space}/before"])

    def test_no_change_is_lost_when_the_server_is_restarted(self):
        self.make("before")
        self.inform()
        changes = threading.Thread(target=self.change, args=[150])
        changes.start()
        wait_until(lambda: self.tool("informed")["changes"] > 20, 180, "it watches")
        self.bed.processes.kill("kube-apiserver")
        restart_apiserver(self.bed)
        changes.join()
        self.change(10)
        found = self.check()
        self.assertGreater(found["errors"], 0)

    def test_what_was_compacted_meanwhile_is_listed_again(self):
        self.make("stays")
        self.make("goes")
        self.inform()
        wait_until(lambda: self.tool("informed")["watches"], 120, "it watches")
        other = self.start()  # keeps the place of the one that is stopped
        os.kill(self.tool.process.pid, signal.SIGSTOP)
        other("delete", of=CONFIGMAPS, ns=self.space, name="goes")
        other("create", of=CONFIGMAPS, ns=self.space, object=config_map("comes"))
        self.bed.processes.stop("kube-apiserver")
        compact(self.bed)
        restart_apiserver(self.bed)
        os.kill(self.tool.process.pid, signal.SIGCONT)
        wait_until(lambda: self.tool("informed")["lists"] >= 2, 180, "it lists again")
        self.check()

    def test_a_stop_is_prompt_whatever_the_server_does(self):
        self.inform()
        self.assertLess(self.tool("uninform")["ms"], PROMPT_MS)
        tool = self.start()
        tool("informer", of=CONFIGMAPS, ns=self.space)
        pid = self.bed.processes.pid("kube-apiserver")
        os.kill(pid, signal.SIGSTOP)
        try:
            self.assertLess(tool("uninform")["ms"], PROMPT_MS)
        finally:
            os.kill(pid, signal.SIGCONT)

    def test_an_informer_costs_nothing_while_nothing_happens(self):
        self.inform()
        wait_until(lambda: self.tool("informed")["watches"], 120, "it watches")
        def cpu():
            fields = pathlib.Path(f"/proc/{self.tool.process.pid}/stat").read_text().split()
            return int(fields[13]) + int(fields[14])
        before = cpu()
        time.sleep(3)
        self.assertLessEqual(cpu() - before, 5)  # ticks of 10 ms; a spinning thread takes 300


class Leases(Case):
    # A busy machine renews late: what is looked at here is not to expire meanwhile.
    TIMES = {"duration": 10000, "renew": 7000, "retry": 300}

    def candidate(self, identity):
        tool = self.start()
        tool("lead", ns=self.space, name="lock", identity=identity, **self.TIMES)
        return tool

    def test_the_lease_is_handed_over(self):
        first = self.candidate("first")
        first("leads", wait=30000)
        second = self.candidate("second")
        self.refused(second.ask("leads", wait=1500), "DEADLINE_EXCEEDED")
        self.assertEqual(second("leads")["holder"], "first")
        first("unlead")
        self.assertTrue(second("leads", wait=30000)["leads"])
        lease = self.kube.request(
            "GET", f"/apis/coordination.k8s.io/v1/namespaces/{self.space}/leases/lock")
        self.assertEqual(lease["spec"]["holderIdentity"], "second")
        self.assertEqual(lease["spec"]["leaseTransitions"], 1)

    def test_a_killed_leader_is_followed(self):
        first = self.candidate("first")
        first("leads", wait=30000)
        second = self.candidate("second")
        first.kill()
        self.assertTrue(second("leads", wait=60000)["leads"])

    def test_two_never_lead_at_once(self):
        """One is stopped like a machine that hangs; when it comes back it does not lead."""
        first = self.candidate("first")
        first("leads", wait=30000)
        second = self.candidate("second")
        os.kill(first.process.pid, signal.SIGSTOP)
        second("leads", wait=60000)
        os.kill(first.process.pid, signal.SIGCONT)
        self.assertFalse(first("leads")["leads"])
        self.assertTrue(second("leads")["leads"])

    def test_a_leader_without_a_server_leads_no_more(self):
        first = self.candidate("first")
        first("leads", wait=30000)
        pid = self.bed.processes.pid("kube-apiserver")
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_until(lambda: not first("leads")["leads"], 120, "it gives up")
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertTrue(first("leads", wait=60000)["leads"])


class Events(Case):
    def events(self):
        return self.tool("list", of=EVENTS, ns=self.space)["items"]

    def tell(self, n=1, **words):
        about = self.tool("get", of=CONFIGMAPS, ns=self.space, name="about")
        self.tool("tell", object=about, n=n, **words)

    def test_an_event_is_shown_with_its_object(self):
        self.make("about")
        self.tell(reason="Tried", note="it went well")
        wait_until(self.events, 120, "the event is there")
        shown = self.kube.kubectl("describe", "-n", self.space, "configmap", "about")
        self.assertIn("it went well", shown)
        self.assertEqual(self.events()[0]["type"], "Normal")

    def test_what_repeats_is_counted(self):
        self.make("about")
        self.tell(50, reason="Failed", note="again", warning=True)
        wait_until(lambda: self.tool("told")["written"] >= 1, 120, "one is written")
        self.tell(10, reason="Failed", note="again", warning=True)
        self.tool("told", end=True)
        found = self.events()
        self.assertEqual(len(found), 1)
        self.assertEqual(found[0]["series"]["count"], 60)
        self.assertEqual(found[0]["type"], "Warning")

    def test_an_object_that_tells_much_is_slowed_down(self):
        self.make("about")
        for i in range(40):
            self.tell(reason="Noise", note=f"number {i}")
        self.assertEqual(self.tool("told")["dropped"], 15)
        self.tool("told", end=True)
        self.assertEqual(len(self.events()), 25)


class Credentials(Case):
    def account(self):
        self.kube.service_account(self.space, "client")
        self.kube.allow(f"all-{self.space}", f"{self.space}:client",
                        [("", "configmaps", "get list create")], namespace=self.space)
        path = f"/api/v1/namespaces/{self.space}/configmaps"
        token = self.kube.token(self.space, "client")
        wait_until(lambda: self.kube.ask("GET", path, token=token)[0] == 200, 180, "allowed")

    def config(self, user):
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "c",
                  "clusters": [{"name": "k", "cluster": {
                      "server": self.kube.server,
                      "certificate-authority": str(self.kube.authority)}}],
                  "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                  "users": [{"name": "u", "user": user}]}
        path = self.bed.directory / f"{self.space}.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def reads(self, tool):
        return tool.ask("list", of=CONFIGMAPS, ns=self.space)

    def test_a_pod_finds_its_configuration_and_takes_up_a_new_token(self):
        self.account()
        pod = self.bed.directory / f"{self.space}.pod"
        pod.mkdir()
        (pod / "ca.crt").write_bytes(pathlib.Path(self.kube.authority).read_bytes())
        (pod / "namespace").write_text(self.space)
        (pod / "token").write_text(self.kube.token(self.space, "client"))
        host, port = self.kube.server.removeprefix("https://").split(":")
        tool = self.start("", POD_DIR=str(pod), KUBERNETES_SERVICE_HOST=host,
                          KUBERNETES_SERVICE_PORT=port, KUBECONFIG="", HOME="/nonexistent")
        self.assertTrue(self.reads(tool)["ok"])
        self.assertIn("client", tool("whoami")["username"])
        # The account is made anew: its old tokens are worth nothing, a new one is put in place.
        path = f"/api/v1/namespaces/{self.space}/serviceaccounts/client"
        self.kube.request("DELETE", path)
        self.kube.service_account(self.space, "client")
        wait_until(lambda: self.reads(tool)["ok"] is False, 180, "the old one is refused")
        self.refused(self.reads(tool), "UNAUTHENTICATED", 401)
        (pod / "new").write_text(self.kube.token(self.space, "client"))
        (pod / "new").rename(pod / "token")
        wait_until(lambda: self.reads(tool)["ok"], 180, "the new one is taken up")

    def test_a_plugin_gives_tokens_until_they_expire(self):
        self.account()
        runs = self.bed.directory / f"{self.space}.runs"
        plugin = self.bed.directory / f"{self.space}.plugin"
        answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                  "status": {"token": self.kube.token(self.space, "client"),
                             "expirationTimestamp": "EXPIRY"}}
        text = json.dumps(answer).replace('"EXPIRY"', '\\"$EXPIRY\\"').replace('"', '\\"')
        text = text.replace('\\\\"', '\\"')
        plugin.write_text("#!/bin/sh\n"
                          f"echo \"$KUBERNETES_EXEC_INFO $1 $COLOR\" >>{runs}\n"
                          "EXPIRY=$(date -u -d '+12 seconds' +%Y-%m-%dT%H:%M:%SZ)\n"
                          f"echo \"{text}\"\n")
        plugin.chmod(0o755)
        config = self.config({"exec": {"apiVersion": "client.authentication.k8s.io/v1",
                                       "command": f"./{plugin.name}", "args": ["hello"],
                                       "env": [{"name": "COLOR", "value": "green"}],
                                       "interactiveMode": "Never",
                                       "provideClusterInfo": True}})
        tool = self.start(config)
        for _ in range(5):
            self.assertTrue(self.reads(tool)["ok"])
        lines = runs.read_text().splitlines()
        self.assertEqual(len(lines), 1)
        self.assertTrue(lines[0].endswith(" hello green"))
        info = json.loads(lines[0].removesuffix(" hello green"))
        self.assertEqual(info["spec"]["cluster"]["server"], self.kube.server)
        self.assertFalse(info["spec"]["interactive"])
        # Ten seconds before a token expires the next is asked for.
        wait_until(lambda: self.reads(tool)["ok"] and len(runs.read_text().splitlines()) >= 2, 120,
                   "the plugin is asked again")

    def test_a_plugin_that_fails_is_said_to(self):
        config = self.config({"exec": {"apiVersion": "client.authentication.k8s.io/v1",
                                       "command": "false", "interactiveMode": "Never"}})
        reply = self.reads(self.start(config))
        self.refused(reply, "UNAUTHENTICATED")
        self.assertIn("false failed with status 1", reply["text"])

    def test_a_wrong_token_is_unauthenticated_and_not_shown(self):
        reply = self.reads(self.start(self.config({"token": "wrong-and-secret"})))
        self.refused(reply, "UNAUTHENTICATED", 401)
        self.assertNotIn("wrong-and-secret", json.dumps(reply))

    def test_somebody_else_may_be_acted_as(self):
        cert, key = self.kube.identity
        config = self.config({"client-certificate": str(cert), "client-key": str(key),
                              "as": "somebody", "as-groups": ["people"],
                              "as-user-extra": {"reason": ["test"]}})
        user = self.start(config)("whoami")
        self.assertEqual(user["username"], "somebody")
        self.assertIn("people", user["groups"])
        self.assertEqual(user["extra"], {"reason": ["test"]})


class Overload(unittest.TestCase):
    """A server that lets in little at a time: calls are put off and come through."""

    def test_calls_are_made_again_when_the_server_puts_them_off(self):
        few = ["--enable-priority-and-fairness=false", "--max-requests-inflight=1"]
        with cluster.Cluster(apiserver_args=few) as bed:
            bed.kube.apply(config_map("busy"))
            # Administrators are always let in.
            bed.kube.service_account("default", "one-of-many")
            bed.kube.allow("reader", "default:one-of-many", [("", "configmaps", "get")])
            config = bed.kube.kubeconfig_of_account("default", "one-of-many")
            # The controllers would take the place that there is.
            bed.processes.stop("kube-controller-manager")
            tool = Tool(config)
            wait_until(lambda: tool.ask("get", of=CONFIGMAPS, ns="default", name="busy")["ok"], 120,
                       "allowed")
            # On a busy machine the calls may come one after the other: then nobody is put off.
            # Few calls a round: one that was put off must not meet others for as long as it
            # is repeated.
            before, rounds = tool("stats")["retries"], 0
            while tool("stats")["retries"] == before and rounds < 500:
                found = tool("crowd", of=CONFIGMAPS, ns="default", name="busy", n=32, threads=16)
                self.assertEqual(found["failed"], 0)
                rounds += 1
            after = tool("stats")["retries"]
            tool.close()
        self.assertGreater(after, before)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
