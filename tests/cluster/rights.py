# SPDX-License-Identifier: Apache-2.0
"""Which rules of RBAC are used, and which are missing: from the audit log of a real API server.

    audit = Audit(directory)                       # before the API server starts
    Cluster(directory, apiserver_args=audit.words)
    ...                                            # programs work with the rights under test
    rights = Rights(kube, audit)
    rights.refused("system:serviceaccount:cairn:")   # what they asked for and may not
    rights.in_vain(["cairn-provisioner"])            # rules without which all would still pass
    rights.removed_one_by_one([...])                 # the same, by taking each away for a moment

A right is one verb on one resource. It is needed when a request was made that no other right of
the same account allows: without it, that request is refused. Questions about somebody's rights
(SubjectAccessReview) count as requests of that user.
"""
import collections
import json

from processes import Failed, wait_until

POLICY = {
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "RequestResponse", "resources": [
            {"group": "authorization.k8s.io", "resources": ["subjectaccessreviews"]}]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"}],
}
ACCOUNT = "system:serviceaccount:"
SETTLE = 30  # seconds until the API server knows of a role that was changed

# What is asked for; of a right "" means any name, and None any namespace.
Right = collections.namedtuple("Right", "group resource verb name namespace path",
                               defaults=(None,))


def rule_of(right):
    """A rule that gives this right and no other."""
    if right.path:
        return {"nonResourceURLs": [right.path], "verbs": [right.verb]}
    return {"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb],
            **({"resourceNames": [right.name]} if right.name else {})}


class Audit:
    """The log of one API server, and the words that make it write one."""

    def __init__(self, directory):
        self.log = directory / "audit.log"
        policy = directory / "audit-policy.json"
        policy.write_text(json.dumps(POLICY))
        self.words = [f"--audit-policy-file={policy}", f"--audit-log-path={self.log}"]

    def events(self):
        with open(self.log, encoding="utf-8") as log:
            for line in log:
                if line.endswith("\n"):
                    yield json.loads(line)


def request_of(event):
    """(user, what it asked for, whether it may)"""
    marks = event.get("annotations", {})
    place = event.get("objectRef", {})
    allowed = marks.get("authorization.k8s.io/decision") == "allow"
    user = event["user"]["username"]
    if "resource" not in place:
        return user, Right("", "", event["verb"], "", "",
                           event["requestURI"].partition("?")[0]), allowed
    resource = "/".join(filter(None, (place["resource"], place.get("subresource"))))
    name = place.get("name", "")
    return user, Right(place.get("apiGroup", ""), resource, event["verb"],
                       "" if event["verb"] == "create" and "/" not in resource else name,
                       place.get("namespace", "")), allowed


def question_of(event):
    """The same of a SubjectAccessReview: of the user whom it is about. None for other requests."""
    review = event.get("responseObject", {})
    if event.get("objectRef", {}).get("resource") != "subjectaccessreviews" or not review:
        return None
    spec, status = review.get("spec", {}), review.get("status", {})
    user, what = spec.get("user", ""), spec.get("resourceAttributes", {})
    path = spec.get("nonResourceAttributes", {})
    if path:
        right = Right("", "", path["verb"], "", "", path["path"])
    else:
        resource = "/".join(filter(None, (what.get("resource"), what.get("subresource"))))
        right = Right(what.get("group", ""), resource, what.get("verb"), what.get("name", ""),
                      what.get("namespace", ""))
    return user, right, status.get("allowed", False)


def rights_in(rules, namespace):
    """Each right that a role gives, bound in `namespace`, or everywhere when that is None."""
    for rule in rules:
        for verb in rule["verbs"]:
            for path in rule.get("nonResourceURLs", []):
                yield Right("", "", verb, "", namespace, path)
            for group in rule.get("apiGroups", []):
                for resource in rule.get("resources", []):
                    for name in rule.get("resourceNames", [""]):
                        yield Right(group, resource, verb, name, namespace)


def allows(right, request):
    if right.path or request.path:
        return right[:3] == request[:3] and right.path == request.path
    return (right[:3] == request[:3] and right.name in ("", request.name)
            and right.namespace in (None, request.namespace))


def creation_of(event):
    """A patch that makes the object needs the right to create as well, which the API server asks
    for without a line of its own. None for other requests."""
    if event["verb"] != "patch" or event.get("responseStatus", {}).get("code") != 201:
        return None
    user, request, allowed = request_of(event)
    return user, request._replace(verb="create"), allowed


class Rights:
    def __init__(self, kube, audit):
        self.kube = kube
        self.requests = collections.defaultdict(dict)  # {user: {request: allowed}}
        for event in audit.events():
            for found in filter(None, (request_of(event), creation_of(event),
                                       question_of(event))):
                user, request, allowed = found
                # A right that was given late was missing at first.
                self.requests[user][request] = self.requests[user].get(request) or allowed

    def refused(self, prefix):
        """What users of that prefix asked for themselves and were never allowed."""
        return {user: sorted(map(str, left)) for user, made in self.requests.items()
                if user.startswith(prefix)
                and (left := [request for request, allowed in made.items() if not allowed])}

    def held(self):
        """{user: {right: {names of roles}}} of all service accounts."""
        found = collections.defaultdict(lambda: collections.defaultdict(set))
        roles = {(kind, item["metadata"].get("namespace"), item["metadata"]["name"]): item
                 for kind in ("ClusterRole", "Role")
                 for item in self.listed(f"{kind.lower()}s")}
        for kind in ("clusterrolebindings", "rolebindings"):
            for binding in self.listed(kind):
                where = binding["metadata"].get("namespace")
                ref = binding["roleRef"]
                role = roles.get((ref["kind"], where if ref["kind"] == "Role" else None,
                                  ref["name"]))
                for subject in binding.get("subjects", []):
                    if role is None or subject["kind"] != "ServiceAccount":
                        continue
                    user = f"{ACCOUNT}{subject['namespace']}:{subject['name']}"
                    for right in rights_in(role.get("rules") or [], where):
                        found[user][right].add(ref["name"])
        return found

    def listed(self, plural):
        return self.kube.request("GET", f"/apis/rbac.authorization.k8s.io/v1/{plural}")["items"]

    def witness(self, user, rights, right):
        """A request of the user that is refused without the right; None if there is none."""
        return next((request for request, allowed in self.requests[user].items()
                     if allowed and allows(right, request) and not any(
                         allows(other, request) for other in rights if other != right)), None)

    def witnesses(self, roles):
        """{role: {right: (user, request) or None}} of all rights that the roles give. A right that
        stands in two roles of an account is needed in neither."""
        found = {role: {} for role in roles}
        for user, rights in self.held().items():
            for right, names in rights.items():
                for role in names & set(roles):
                    request = self.witness(user, rights, right) if len(names) == 1 else None
                    bare = right._replace(namespace=None)
                    if request or not found[role].get(bare):
                        found[role][bare] = (user, request) if request else None
        return found

    def in_vain(self, roles, but=()):
        """{role: rights} that no account which has the role needs, without those on the
        resources or "VERB RESOURCE" `but`, which another test looks at."""
        found = {role: sorted(str(right) for right, why in rights.items()
                              if why is None and right.resource not in but
                              and f"{right.verb} {right.resource}" not in but)
                 if rights else ["nobody has it"]
                 for role, rights in self.witnesses(roles).items()}
        return {role: rights for role, rights in found.items() if rights}

    # ---- the API server's own answer ----

    def may(self, user, request):
        spec = {"user": user}
        if request.path:
            spec["nonResourceAttributes"] = {"path": request.path, "verb": request.verb}
        else:
            resource, _, below = request.resource.partition("/")
            spec["resourceAttributes"] = {
                "group": request.group, "resource": resource, "subresource": below,
                "verb": request.verb, "name": request.name, "namespace": request.namespace}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                  "spec": spec}
        return self.kube.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                                 review)["status"].get("allowed", False)

    def removed_one_by_one(self, roles):
        """Takes each right out of its role, on the server, and asks for the request that needs it.
        Returns (how many were, those that changed nothing)."""
        counted, left = 0, []
        found = self.witnesses(roles)
        for kind in ("clusterroles", "roles"):
            for role in self.listed(kind):
                rights = found.get(role["metadata"]["name"], {})
                mine = [right for right in rights_in(role["rules"], None) if rights.get(right)]
                for right in mine:
                    counted += 1
                    if not self.breaks(kind, role, right, *rights[right]):
                        left.append((role["metadata"]["name"], right))
                self.write_rules(kind, role, role["rules"])
        return counted, left

    def write_rules(self, kind, role, rules):
        meta = role["metadata"]
        where = f"namespaces/{meta['namespace']}/" if "namespace" in meta else ""
        path = f"/apis/rbac.authorization.k8s.io/v1/{where}{kind}/{meta['name']}"
        self.kube.request("PATCH", path, {"rules": rules},
                          content_type="application/merge-patch+json")

    def breaks(self, kind, role, right, user, request):
        """Whether the request is refused once the right is gone."""
        self.write_rules(kind, role, [rule_of(other) for other in rights_in(role["rules"], None)
                                      if other != right])
        try:
            wait_until(lambda: not self.may(user, request), SETTLE, "refused")
        except Failed:
            return False
        return True
