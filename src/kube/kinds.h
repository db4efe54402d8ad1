/* SPDX-License-Identifier: Apache-2.0 */

/* The kinds of cbt.storage.k8s.io that Cairn serves, for controllers. They use v1alpha2,
 * because an aggregated API server may already serve v1alpha1. */
#ifndef CAIRN_KUBE_KINDS_H
#define CAIRN_KUBE_KINDS_H

#include "kube/kube_resource.h"

#define KUBE_CBT_GROUP   "cbt.storage.k8s.io"
#define KUBE_CBT_VERSION "v1alpha2"

/* Label of a SnapshotServicesConfiguration. */
#define KUBE_CBT_DRIVER_LABEL "cbt.storage.k8s.io/driver"
/* Annotation of a SnapshotServicesConfiguration: the namespace of the driver. */
#define KUBE_CBT_NAMESPACE_ANNOTATION "cbt.storage.k8s.io/driver-namespace"

extern const struct kube_resource kube_differentialsnapshots;
extern const struct kube_resource kube_driverdiscoveries;
extern const struct kube_resource kube_snapshotsessionrequests;
extern const struct kube_resource kube_snapshotsessiondata;
extern const struct kube_resource kube_snapshotservicesconfigurations;

#endif
