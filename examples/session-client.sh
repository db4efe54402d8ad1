#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The flow of a snapshot session, as a backup application goes through it: a request, its token,
# and the changed blocks of the second snapshot, as JSON. Needs kubectl, base64, jq and grpcurl.
#
#   examples/session-client.sh NAMESPACE BASE TARGET
#
# PROTO is the directory of snapshot_session.proto (default: where Cairn installs it); SESSION is
# the name of the request (default: session-client). The volume's handle is read from the
# VolumeSnapshotContent, which needs the right to get it; VOLUME overrides it.
set -eu
[ $# = 3 ] || { echo "usage: $0 NAMESPACE BASE TARGET" >&2; exit 2; }
namespace=$1 base=$2 target=$3
session=${SESSION:-session-client}
proto=${PROTO:-/usr/local/share/cairn/proto}
version=${VERSION:-v1alpha2}
scratch=$(mktemp -d)
trap 'kubectl -n "$namespace" delete snapshotsessionrequest "$session" >/dev/null 2>&1 || :
      rm -rf "$scratch"' EXIT

if [ -z "${VOLUME:-}" ]; then
	content=$(kubectl -n "$namespace" get volumesnapshot "$target" \
		-o jsonpath='{.status.boundVolumeSnapshotContentName}')
	VOLUME=$(kubectl get volumesnapshotcontent "$content" \
		-o jsonpath='{.spec.source.volumeHandle}')
fi

kubectl create -f - >/dev/null <<END
apiVersion: cbt.storage.k8s.io/$version
kind: SnapshotSessionRequest
metadata: {name: $session, namespace: $namespace}
spec: {snapshots: [$base, $target]}
END

# Ready or Failed; anything else is waited for.
for _ in $(seq 120); do
	kubectl -n "$namespace" get snapshotsessionrequest "$session" -o json >"$scratch/request"
	state=$(jq -r '.status.sessionState // "Pending"' "$scratch/request")
	[ "$state" = Pending ] || break
	sleep 0.5
done
[ "$state" = Ready ] || { jq -r '.status.error' "$scratch/request" >&2; exit 1; }

jq -r .status.caCert "$scratch/request" | base64 -d >"$scratch/ca.crt"
# The token goes through a file, not the list of processes.
jq --arg volume "$VOLUME" --arg base "$base" --arg target "$target" \
	'{session_token: (.status.sessionToken | @base64d), volume_id: $volume,
	  base_snapshot: $base, target_snapshot: $target}' "$scratch/request" >"$scratch/call"
grpcurl -cacert "$scratch/ca.crt" -import-path "$proto" -proto snapshot_session.proto -d @ \
	"$(jq -r .status.sessionURL "$scratch/request")" SnapshotMetadata/GetDelta <"$scratch/call"
