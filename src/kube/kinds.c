/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/kinds.h"

#define KIND(variable, name, many, in_namespace) \
	const struct kube_resource variable = {  \
		.group = KUBE_CBT_GROUP,         \
		.version = KUBE_CBT_VERSION,     \
		.plural = (many),                \
		.kind = (name),                  \
		.namespaced = (in_namespace),    \
	}

KIND(kube_differentialsnapshots, "DifferentialSnapshot", "differentialsnapshots", true);
KIND(kube_driverdiscoveries, "DriverDiscovery", "driverdiscoveries", false);
KIND(kube_snapshotsessionrequests, "SnapshotSessionRequest", "snapshotsessionrequests", true);
KIND(kube_snapshotsessiondata, "SnapshotSessionData", "snapshotsessiondata", true);
KIND(kube_snapshotservicesconfigurations, "SnapshotServicesConfiguration",
     "snapshotservicesconfigurations", false);
