/* SPDX-License-Identifier: Apache-2.0 */

/* Where a DriverDiscovery leads, and whether anybody is there. */
#ifndef CAIRN_SESSION_PLACE_H
#define CAIRN_SESSION_PLACE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;

#define PLACE_BUNDLE_MAX (1U << 20)

/* Texts are owned. */
struct discovery_place {
	char *url;
	char *bundle; /* PEM; NULL: the system's authorities */
};

/* What the object says, checked.
 *
 * CAIRN_INVALID  the text says what is wrong
 */
int discovery_place_read(const json_t *object, struct discovery_place *ret, struct cairn_err *err);

/* Also a cleanup function. */
void discovery_place_done(struct discovery_place *place);

/* Asks the endpoint for anything, over TLS.
 *
 * CAIRN_UNAVAILABLE  nobody is there, or somebody else; the text says which
 */
int discovery_place_probe(const struct discovery_place *place, uint64_t timeout_ms,
			  struct cairn_err *err);

#endif
