# SPDX-License-Identifier: Apache-2.0
"""An API server in a thread, as far as the roles of cairn need one: objects with watches,
Leases, reviews of tokens and rights, tokens of service accounts.

What a user may do is a list of rules of the test; every review is recorded. The real control
plane of tests/cluster decides what is right; this one answers in milliseconds, so that each
role can be run from start to SIGTERM in every test run, also with sanitizers.
"""
import base64
import copy
import http.server
import json
import pathlib
import re
import ssl
import threading
import time
import urllib.parse
import uuid

WATCH_POLL = 0.05
PATH = re.compile(r"^/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)"
                  r"(?:/namespaces/(?P<ns>[^/]+))?/(?P<plural>[^/]+)"
                  r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?$")


def now(after=0):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + after))


def merge(into, patch):
    """RFC 7396."""
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            into[key] = merge(into.get(key) if isinstance(into.get(key), dict) else {}, value)
        else:
            into[key] = value
    return into


def encode_segment(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


class Refusal(Exception):
    def __init__(self, code, reason, message):
        super().__init__(message)
        self.code, self.reason = code, reason


class FakeKube:
    """`identity` is the user that the roles themselves are. Users are {"username": ...}."""

    def __init__(self, directory, authority, port):
        self.directory = pathlib.Path(directory)
        self.port, self.authority = port, authority
        self.lock = threading.RLock()
        self.objects, self.history, self.version = {}, [], 1
        self.tokens = {}       # token: (UserInfo, audiences)
        self.rules = []        # (username, verb, resource, name or "*")
        self.token_reviews, self.access_reviews, self.requests = [], [], []
        self.logs = {}  # of pods, by name
        self.api_audience = "api"
        self.enforced = {}     # username: {(group, resource, verb, name or "")}; others may all
        self.used = {}         # username: those of them that a request needed
        self.before = lambda method, path: None  # may sleep or raise Refusal
        self.held = set()      # kinds (plural) whose watches tell nothing for now
        cert, key = authority.issue("fakekube", "/CN=fakekube", "serverAuth",
                                    ["IP:127.0.0.1", "DNS:localhost"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), self.handler())
        self.server.daemon_threads = True
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True,
                                                 do_handshake_on_connect=False)
        self.stopping = False
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.stopping = True
        self.server.shutdown()
        self.server.server_close()

    # ---- for the test ----

    def account(self, namespace, name, audiences=None, seconds=3600):
        """A new token of a service account."""
        user = {"username": f"system:serviceaccount:{namespace}:{name}",
                "uid": f"uid-{namespace}-{name}",
                "groups": ["system:serviceaccounts", "system:authenticated"]}
        claims = {"sub": user["username"], "exp": int(time.time()) + seconds,
                  "jti": uuid.uuid4().hex}
        token = f"{encode_segment({'alg': 'none'})}.{encode_segment(claims)}.c2ln"
        with self.lock:
            self.tokens[token] = (user, list(audiences or [self.api_audience]))
        return token

    def allow(self, username, verb, resource, name="*"):
        with self.lock:
            self.rules.append((username, verb, resource, name))

    def kubeconfig(self, name, token):
        path = self.directory / f"{name}.kubeconfig"
        authority = base64.b64encode(self.authority.crt.read_bytes()).decode()
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": f"https://127.0.0.1:{self.port}",
                "certificate-authority-data": authority}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u",
                                                   "namespace": "cairn"}}]}))
        return path

    def put(self, path, item):
        """An object at the path of its collection, as an administrator makes it."""
        with self.lock:
            where = PATH.match(path).groupdict()
            return self.store(where, copy.deepcopy(item), made=True)

    def get(self, path):
        where = PATH.match(path).groupdict()
        with self.lock:
            return copy.deepcopy(self.objects.get(self.key(where)))

    def list(self, path):
        where = PATH.match(path).groupdict()
        with self.lock:
            return copy.deepcopy(self.found(where))

    def snapshot(self, namespace, name, driver, handle=None, volume="v"):
        """A VolumeSnapshot and its content, bound and ready."""
        group, content = "/apis/snapshot.storage.k8s.io/v1", f"content-{namespace}-{name}"
        made = self.put(f"{group}/namespaces/{namespace}/volumesnapshots", {
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "metadata": {"name": name, "namespace": namespace}, "spec": {"source": {}},
            "status": {"readyToUse": True, "boundVolumeSnapshotContentName": content}})
        self.put(f"{group}/volumesnapshotcontents", {
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
            "metadata": {"name": content},
            "spec": {"driver": driver, "volumeSnapshotRef": {
                "namespace": namespace, "name": name, "uid": made["metadata"]["uid"]},
                "source": {"volumeHandle": volume}},
            "status": {"readyToUse": True, "snapshotHandle": handle or f"handle-{name}"}})

    # ---- objects ----

    @staticmethod
    def key(where):
        return (where["group"] or "", where["plural"], where["ns"] or "", where["name"] or "")

    def found(self, where):
        group, plural, ns, _ = self.key(where)
        return [item for (g, p, n, _), item in sorted(self.objects.items())
                if (g, p) == (group, plural) and (not ns or n == ns)]

    def store(self, where, item, made=False):
        meta = item.setdefault("metadata", {})
        if made:
            if not meta.get("name"):
                meta["name"] = meta.get("generateName", "x") + uuid.uuid4().hex[:8]
            meta.setdefault("uid", str(uuid.uuid4()))
            meta.setdefault("creationTimestamp", now())
            if where["ns"]:
                meta["namespace"] = where["ns"]
        key = (where["group"] or "", where["plural"], meta.get("namespace", ""), meta["name"])
        old = self.objects.get(key)
        if old and {k: v for k, v in old.items() if k not in ("status", "metadata")} == \
                {k: v for k, v in item.items() if k not in ("status", "metadata")}:
            meta["generation"] = old["metadata"].get("generation", 1)
        else:
            meta["generation"] = (old or {"metadata": {}})["metadata"].get("generation", 0) + 1
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        self.objects[key] = item
        self.history.append((self.version, key, "MODIFIED" if old else "ADDED",
                             copy.deepcopy(item)))
        return copy.deepcopy(item)

    def create(self, where, item, user):
        review = {"tokenreviews": self.review_token, "subjectaccessreviews": self.review_access,
                  "selfsubjectreviews": lambda _: {"userInfo": user},
                  "selfsubjectaccessreviews": lambda _: {"allowed": True}}.get(where["plural"])
        if review:
            return {**item, "status": review(item.get("spec", {}))}
        if where["sub"] == "token":
            return {**item, "status": self.request_token(where, item["spec"])}
        with self.lock:
            named = {**where, "name": item.get("metadata", {}).get("name")}
            if self.key(named) in self.objects:
                raise Refusal(409, "AlreadyExists", "it exists")
            return self.store(where, item, made=True)

    def change(self, where, item, patch, user):
        with self.lock:
            old = self.objects.get(self.key(where))
            if old is None and patch:
                self.check_right(user, where, "create")
            if old is None and not patch:
                raise Refusal(404, "NotFound", "not found")
            if old is None:  # server-side apply
                return self.store(where, item, made=True)
            version = item.get("metadata", {}).get("resourceVersion")
            uid = item.get("metadata", {}).get("uid")
            if (version and version != old["metadata"]["resourceVersion"]) or \
                    (uid and uid != old["metadata"]["uid"]):
                raise Refusal(409, "Conflict", "it was changed")
            if patch:
                item = merge(copy.deepcopy(old), item)
            return self.store(where, {**copy.deepcopy(old), **item,
                                      "metadata": {**old["metadata"], **item.get("metadata", {})}})

    def delete(self, where):
        with self.lock:
            old = self.objects.pop(self.key(where), None)
            if old is None:
                raise Refusal(404, "NotFound", "not found")
            self.version += 1
            old["metadata"]["resourceVersion"] = str(self.version)
            self.history.append((self.version, self.key(where), "DELETED", old))
            return old

    # ---- the rights of the roles themselves ----

    def check_right(self, user, where, verb, selected=""):
        """Like RBAC, for users that are enforced; `selected` is the one name that a list asks
        for."""
        name = user["username"]
        if name not in self.enforced or where["plural"].startswith("selfsubject"):
            return
        resource = where["plural"] + (f"/{where['sub']}" if where["sub"] else "")
        fits = {(group, kind, what, named) for group, kind, what, named in self.enforced[name]
                if (group, kind, what) == (where["group"] or "", resource, verb)
                and named in ("", where["name"] or selected)}
        # Of two that fit, neither is needed.
        self.used.setdefault(name, set()).update(fits if len(fits) == 1 else ())
        if not fits:
            raise Refusal(403, "Forbidden",
                          f"{name} may not {verb} {resource} {where['name'] or ''}")

    # ---- reviews ----

    def review_token(self, spec):
        asked = spec.get("audiences") or [self.api_audience]
        with self.lock:
            self.token_reviews.append({"token": spec.get("token"), "audiences": asked})
            user, audiences = self.tokens.get(spec.get("token"), (None, []))
        good = [audience for audience in asked if audience in audiences]
        if not good:
            return {"authenticated": False, "error": "unknown token"}
        return {"authenticated": True, "user": user, "audiences": good}

    def review_access(self, spec):
        what = spec.get("resourceAttributes") or spec.get("nonResourceAttributes") or {}
        resource = what.get("resource") or what.get("path")
        name = what.get("name", "")
        with self.lock:
            self.access_reviews.append({"user": spec.get("user"), "verb": what.get("verb"),
                                        "resource": resource, "name": name,
                                        "namespace": what.get("namespace", "")})
            allowed = any(rule[:3] == (spec.get("user"), what.get("verb"), resource)
                          and rule[3] in ("*", name) for rule in self.rules)
        return {"allowed": allowed}

    def request_token(self, where, spec):
        seconds = spec.get("expirationSeconds") or 3600
        token = self.account(where["ns"], where["name"], spec.get("audiences"), seconds)
        return {"token": token, "expirationTimestamp": now(seconds)}

    # ---- HTTP ----

    def handler(fake):  # pylint: disable=no-self-argument
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words):
                pass

            def send(self, code, item):
                body = item if isinstance(item, bytes) else json.dumps(item).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def serve(self):
                path, _, query = self.path.partition("?")
                query = dict(urllib.parse.parse_qsl(query))
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length) or "null")
                token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
                with fake.lock:
                    fake.requests.append((self.command, path, body))
                    user = fake.tokens.get(token, (None, []))[0]
                try:
                    fake.before(self.command, path)
                    if user is None:
                        raise Refusal(401, "Unauthorized", "Unauthorized")
                    self.answer(urllib.parse.unquote(path), query, body, user)
                except Refusal as why:
                    self.send(why.code, {"kind": "Status", "apiVersion": "v1",
                                         "status": "Failure", "reason": why.reason,
                                         "message": str(why), "code": why.code})

            def answer(self, path, query, body, user):
                where = PATH.match(path)
                if not where:
                    raise Refusal(404, "NotFound", "no such path")
                where = where.groupdict()
                chosen = query.get("fieldSelector", "").partition("metadata.name=")[2]
                fake.check_right(user, where, self.verb(where, query), chosen)
                if self.command == "GET" and not where["name"]:
                    if query.get("watch") in ("true", "1"):
                        return self.watch(where, query)
                    return self.list(where, query)
                if self.command == "GET" and where["sub"] == "log":
                    return self.send(200, fake.logs.get(where["name"], "").encode())
                if self.command == "GET":
                    with fake.lock:
                        item = copy.deepcopy(fake.objects.get(fake.key(where)))
                    if item is None:
                        raise Refusal(404, "NotFound", "not found")
                    return self.send(200, item)
                if self.command == "POST":
                    return self.send(201, fake.create(where, body, user))
                if self.command == "DELETE":
                    return self.send(200, fake.delete(where))
                return self.send(200, fake.change(where, body,
                                                  self.command == "PATCH", user))

            def verb(self, where, query):
                if self.command == "GET" and not where["name"]:
                    return "watch" if query.get("watch") in ("true", "1") else "list"
                return {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch",
                        "DELETE": "delete"}[self.command]

            def wants(self, item, query):
                for text, fields in ((query.get("fieldSelector"), {
                        "metadata.name": item["metadata"].get("name"),
                        "metadata.namespace": item["metadata"].get("namespace")}),
                        (query.get("labelSelector"), item["metadata"].get("labels") or {})):
                    for term in (text or "").split(","):
                        name, equals, value = term.partition("=")
                        if term and (fields.get(name) != value.lstrip("=") if equals
                                     else name not in fields):
                            return False
                return True

            def list(self, where, query):
                with fake.lock:
                    items = [copy.deepcopy(item) for item in fake.found(where)
                             if self.wants(item, query)]
                    version = str(fake.version)
                self.send(200, {"kind": "List", "apiVersion": "v1", "items": items,
                                "metadata": {"resourceVersion": version}})

            def watch(self, where, query):
                seen = int(query.get("resourceVersion") or 0)
                group, plural, ns, _ = fake.key(where)
                end = time.monotonic() + int(query.get("timeoutSeconds") or 300)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                while not fake.stopping and time.monotonic() < end:
                    with fake.lock:
                        events = [event for event in fake.history
                                  if event[0] > seen and plural not in fake.held]
                    for number, key, kind, item in events:
                        seen = number
                        if key[:2] == (group, plural) and (not ns or key[2] == ns) and \
                                self.wants(item, query):
                            line = json.dumps({"type": kind, "object": item}).encode() + b"\n"
                            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                    self.wfile.flush()
                    time.sleep(WATCH_POLL)
                self.wfile.write(b"0\r\n\r\n")

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve

            def handle(self):
                try:
                    super().handle()
                except (OSError, ssl.SSLError):
                    pass

        return Handler
