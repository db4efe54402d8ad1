# SPDX-License-Identifier: Apache-2.0
"""A user of an API server: kubectl, plain requests, service accounts and their tokens."""
import base64
import http.client
import json
import os
import pathlib
import ssl
import subprocess
import urllib.parse

from processes import Failed, wait_until

TIMEOUT = 120  # seconds, of one call; a hang is a failure, slowness is not
TOKEN_SECONDS = 6 * 3600


DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def names_of(group, resource):
    """What kubectl calls a resource."""
    plural = resource["resource"]
    return [plural, f"{plural}.{group}", resource.get("singularResource") or plural,
            *resource.get("shortNames", [])]


def with_kinds(found):
    """A list says once what its items are; kubectl says it of each."""
    for item in found.get("items", []):
        item["kind"] = found["kind"].removesuffix("List")
        item["apiVersion"] = found["apiVersion"]
    return found


def is_established(crd):
    return any(condition["type"] == "Established" and condition["status"] == "True"
               for condition in crd.get("status", {}).get("conditions") or [])


class Refused(Failed):
    """What the API server answered instead; `status` is the HTTP code."""

    def __init__(self, status, reply):
        super().__init__(f"{status}: {reply.get('message', reply)}")
        self.status, self.reply = status, reply


def encode(path):
    return base64.b64encode(pathlib.Path(path).read_bytes()).decode()


def as_text(objects):
    """One object, a list of them or text, as kubectl reads it."""
    if isinstance(objects, str):
        return objects
    if isinstance(objects, dict):
        objects = [objects]
    return "\n---\n".join(json.dumps(item) for item in objects)


class Kube:
    def __init__(self, directory, program, server, authority):
        """`authority` is the file of the certificate to trust."""
        self.directory, self.program = directory, program
        self.server, self.authority = server, authority
        self.kubeconfig = directory / "admin.kubeconfig"
        self.identity = None  # files of certificate and key of who asks
        self.kinds = {}       # where each is; see path_of()

    # ---- kubeconfig ----

    def write_kubeconfig(self, name, user, namespace="default"):
        """A file NAME.kubeconfig for `user`, the user part of it."""
        path = self.directory / f"{name}.kubeconfig"
        cluster = {"server": self.server, "certificate-authority-data": encode(self.authority)}
        path.touch(mode=0o600)
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {
                "cluster": "test", "user": "test", "namespace": namespace}}]}))
        return path

    def kubeconfig_of_certificate(self, name, crt, key):
        return self.write_kubeconfig(name, {"client-certificate-data": encode(crt),
                                            "client-key-data": encode(key)})

    def kubeconfig_of_account(self, namespace, name, audience=None, seconds=TOKEN_SECONDS):
        """A kubeconfig with which one is the service account, and nobody else."""
        token = self.token(namespace, name, audience, seconds)
        return self.write_kubeconfig(f"{namespace}-{name}", {"token": token}, namespace)

    # ---- kubectl ----

    def run(self, *words, text=None, kubeconfig=None, timeout=TIMEOUT):
        """The finished process of kubectl."""
        # kubectl keeps what it learns about a server; not in somebody's home
        environment = {**os.environ, "HOME": str(self.directory), "KUBECONFIG": ""}
        return subprocess.run(
            [self.program, f"--kubeconfig={kubeconfig or self.kubeconfig}",
             f"--cache-dir={self.directory}/kubectl", *map(str, words)],
            input=text or "", capture_output=True, text=True, timeout=timeout, check=False,
            env=environment)

    def kubectl(self, *words, **how):
        """What kubectl wrote; it must succeed."""
        done = self.run(*words, **how)
        if done.returncode != 0:
            raise Failed(f"kubectl {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, objects, *words):
        """Objects, a list of them, YAML text, or a pathlib.Path (a file or a directory
        of files; one with a kustomization is built)."""
        if isinstance(objects, pathlib.Path):
            kind = "-k" if (objects / "kustomization.yaml").exists() else "-f"
            return self.kubectl("apply", kind, objects, *words)
        return self.kubectl("apply", "-f", "-", *words, text=as_text(objects))

    def apply_files(self, *paths):
        for path in paths:
            self.apply(path)

    def delete(self, *words, wait=True):
        return self.kubectl("delete", *words, "--ignore-not-found", f"--wait={str(wait).lower()}",
                            f"--timeout={TIMEOUT}s", timeout=TIMEOUT + 10)

    def get(self, *words, **how):
        """An object or a list, as a dictionary; None if it is not there."""
        path = None if how else self.path_of(words)
        if path:
            try:
                return with_kinds(self.request("GET", path))
            except Refused as refused:
                if refused.status != 404:
                    raise
                return None
        done = self.run("get", *words, "-o", "json", **how)
        if done.returncode == 0:
            return json.loads(done.stdout)
        if "(NotFound)" in done.stderr:
            return None
        raise Failed(f"kubectl get {' '.join(words)}: {done.stderr.strip()}")

    def discover(self):
        """The API server says where each kind is, so that looking at one costs no kubectl."""
        self.kinds = {}
        for root in ("/api", "/apis"):
            for group in self.request("GET", root, accept=DISCOVERY)["items"]:
                name = group["metadata"].get("name", "")
                version = group["versions"][0]  # the preferred one
                place = "/".join(part for part in (root, name, version["version"]) if part)
                for resource in version.get("resources", []):
                    found = (place, resource["resource"], resource["scope"] == "Namespaced")
                    for alias in names_of(name, resource):
                        self.kinds.setdefault(alias, found)

    def path_of(self, words):
        """What `kubectl get WORDS` asks for, or None where only kubectl knows."""
        words, namespace = list(words), "default"
        if "-n" in words:
            at = words.index("-n")
            namespace = words[at + 1]
            del words[at:at + 2]
        if len(words) not in (1, 2) or any(word.startswith("-") for word in words):
            return None
        if words[0] not in self.kinds:
            self.discover()
        if words[0] not in self.kinds:
            return None
        place, plural, in_namespaces = self.kinds[words[0]]
        inside = f"namespaces/{namespace}/" if in_namespaces else ""
        return f"{place}/{inside}{plural}" + (f"/{words[1]}" if len(words) == 2 else "")

    def wait(self, condition, *words, seconds=TIMEOUT):
        """The object, once `condition` of it is true; it may appear meanwhile."""
        last = None

        def is_so():
            nonlocal last
            last = self.get(*words)
            return last if last is not None and condition(last) else None
        try:
            return wait_until(is_so, seconds, f"{' '.join(words)} as wanted")
        except Failed as failed:
            raise Failed(f"{failed}; it is {json.dumps(last)}") from None

    def wait_crds(self):
        """All are served. Not `kubectl wait`, which fails on one without conditions yet."""
        self.wait(lambda found: all(map(is_established, found["items"])),
                  "customresourcedefinitions")

    def wait_gone(self, *words, seconds=TIMEOUT):
        wait_until(lambda: self.get(*words) is None, seconds, f"{' '.join(words)} is gone")

    # ---- plain requests ----

    def ask(self, method, path, body=None, token=None, content_type="application/json",
            accept="application/json"):
        """(status, text) of one request: with `token`, or as the administrator."""
        context = ssl.create_default_context(cafile=str(self.authority))
        headers = {"Content-Type": content_type, "Accept": accept}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        else:
            context.load_cert_chain(*self.identity)
        where = urllib.parse.urlsplit(self.server)
        connection = http.client.HTTPSConnection(where.hostname, where.port, context=context,
                                                 timeout=TIMEOUT)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def request(self, method, path, body=None, **how):
        """The object that the API server answers with; Refused if it does not."""
        status, text = self.ask(method, path, body, **how)
        try:
            reply = json.loads(text)
        except ValueError:
            reply = {"message": text}
        if status >= 300:
            raise Refused(status, reply)
        return reply

    def answers(self, path):
        try:
            return self.ask("GET", path)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    # ---- identities ----

    def namespace(self, name):
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def service_account(self, namespace, name):
        self.apply({"apiVersion": "v1", "kind": "ServiceAccount",
                    "metadata": {"namespace": namespace, "name": name}})

    def token(self, namespace, name, audience=None, seconds=TOKEN_SECONDS, pod=None):
        """A token of the service account; the API server gives none under 600 seconds. With
        `pod` one that the pod of that name would get, which names its node."""
        spec = {"expirationSeconds": seconds}
        if pod:
            found = self.get("-n", namespace, "pod", pod)
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod,
                                      "uid": found["metadata"]["uid"]}
        if audience:
            spec["audiences"] = [audience]
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        return self.request("POST", path, {"apiVersion": "authentication.k8s.io/v1",
                                           "kind": "TokenRequest", "spec": spec})["status"]["token"]

    def allow_own_tokens(self, namespace, account):
        """Lets the account make tokens of itself, as deploy/rbac/client.yaml says."""
        rbac = "rbac.authorization.k8s.io"
        named = {"name": f"{account}-token", "namespace": namespace}
        self.apply([{"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": named,
                     "rules": [{"apiGroups": [""], "resources": ["serviceaccounts/token"],
                                "resourceNames": [account], "verbs": ["create"]}]},
                    {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": named,
                     "roleRef": {"apiGroup": rbac, "kind": "Role", "name": named["name"]},
                     "subjects": [{"kind": "ServiceAccount", "name": account,
                                   "namespace": namespace}]}])

    def allow(self, name, account, rules=None, role=None, namespace=None):
        """Gives `account`, "NAMESPACE:NAME", rights everywhere, or in `namespace`: those of
        `rules`, [(group, resource, verbs)], or of the ClusterRole `role`. They count then."""
        rbac = "rbac.authorization.k8s.io"
        objects = []
        if rules is not None:
            role = name
            objects.append({"apiVersion": f"{rbac}/v1", "kind": "ClusterRole",
                            "metadata": {"name": name},
                            "rules": [{"apiGroups": [group], "resources": [resource],
                                       "verbs": verbs.split()}
                                      for group, resource, verbs in rules]})
        where, who = account.split(":")
        binding = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding",
                   "metadata": {"name": name},
                   "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
                   "subjects": [{"kind": "ServiceAccount", "namespace": where, "name": who}]}
        if namespace:
            binding["kind"] = "RoleBinding"
            binding["metadata"]["namespace"] = namespace
        self.apply([*objects, binding])
        user = f"system:serviceaccount:{where}:{who}"
        wait_until(lambda: self.has_rights_of(role, user, namespace), TIMEOUT,
                   f"{account} has the rights of {role}")

    def has_rights_of(self, role, user, namespace):
        """Whether the API server, which hears of roles and bindings after it has stored them, lets
        the user do what the ClusterRole says; what is restricted by name is not looked at."""
        found = self.get("clusterrole", role)
        for rule in (found or {}).get("rules") or []:
            if rule.get("resourceNames") or not rule.get("resources"):
                continue
            resource, _, part = rule["resources"][0].partition("/")
            asked = self.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": {"user": user, "resourceAttributes": {
                    "group": rule["apiGroups"][0], "resource": resource, "subresource": part,
                    "verb": rule["verbs"][0], "namespace": namespace or ""}}})
            if not asked["status"].get("allowed"):
                return False
        return True
