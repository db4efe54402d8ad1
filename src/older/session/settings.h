/* SPDX-License-Identifier: Apache-2.0 */

/* Session settings from a ConfigMap. Text in, a struct out. */
#ifndef CAIRN_SESSION_SETTINGS_H
#define CAIRN_SESSION_SETTINGS_H

#include <jansson.h>
#include <stdint.h>

struct cairn_err;

#define SESSION_EXPIRY_KEY        "sessionExpiry"
#define SESSION_EXPIRY_DEFAULT_MS (10U * 60U * 1000U)
#define SESSION_EXPIRY_MIN_MS     1000U
#define SESSION_EXPIRY_MAX_MS     (7ULL * 24U * 3600U * 1000U)

struct session_settings {
	uint64_t expiry_ms; /* from a request's creation to its end */
};

/* Reads data.sessionExpiry ("10m") of a ConfigMap; uses the defaults if `map` is NULL or
 * has no such key.
 *
 * CAIRN_INVALID  not a duration, or out of bounds; *ret has the defaults
 */
int session_settings_read(const json_t *map, struct session_settings *ret, struct cairn_err *err);

/* Returns the namespace of the driver of a SnapshotServicesConfiguration: from the
 * annotation cbt.storage.k8s.io/driver-namespace, else from the address if it is that of a
 * Service (SERVICE.NAMESPACE, SERVICE.NAMESPACE.svc…), else `fallback`: an address may be
 * an IP address, which says nothing of a namespace.
 *
 * CAIRN_INVALID  the namespace is not a valid name
 */
#define SESSION_NAMESPACE_MAX 63U
int session_driver_namespace(const json_t *configuration, const char *fallback,
			     char out[SESSION_NAMESPACE_MAX + 1], struct cairn_err *err);

#endif
