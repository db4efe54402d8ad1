/* SPDX-License-Identifier: Apache-2.0 */

/* Discovery of the resources of this server: VolumeSnapshotDelta, and the kinds that are
 * passed on (entries of an APIResourceList). */
#ifndef CAIRN_AGGAPI_DISCOVERY_H
#define CAIRN_AGGAPI_DISCOVERY_H

#include <jansson.h>

/* The APIResourceList; NULL when memory is short. */
json_t *aggapi_discovery_resources(const json_t *passed);

/* The APIGroupDiscoveryList of apidiscovery.k8s.io at that version; NULL when memory is
 * short. */
json_t *aggapi_discovery_groups(const json_t *passed, const char *version);

#endif
