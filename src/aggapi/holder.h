/* SPDX-License-Identifier: Apache-2.0 */

/* For whom a data token is: a user, and the VolumeSnapshots that the page was asked
 * for. The driver signs that together with the range, so a token is of no use to
 * anybody else, and the right to the snapshots can be asked for again where the
 * token is spent.
 *
 * A token as users see it is the driver's, a dot, and the names: "TOKEN.NS:TARGET:BASE"
 * (BASE may be ""). Texts in, texts out.
 */
#ifndef CAIRN_AGGAPI_HOLDER_H
#define CAIRN_AGGAPI_HOLDER_H

#include <stdbool.h>

struct cairn_err;

struct aggapi_holder {
	const char *user; /* its name */
	const char *ns;
	const char *target; /* names of VolumeSnapshots */
	const char *base;   /* NULL or "": none */
};

/* Is it complete, and are the names ones of Kubernetes?
 *
 * CAIRN_INVALID  no
 */
int aggapi_holder_check(const struct aggapi_holder *holder, struct cairn_err *err);

/* What the driver signs (free()); NULL when memory is short. */
char *aggapi_holder_text(const struct aggapi_holder *holder);

/* The token for users (free()); NULL when memory is short. */
char *aggapi_holder_token(const struct aggapi_holder *holder, const char *driver_token);

/* Splits such a token in place: *ret_driver_token and the names of *ret point into
 * it; the user is left out.
 *
 * CAIRN_UNAUTHENTICATED  not one of ours
 */
int aggapi_holder_split(char *token, const char **ret_driver_token, struct aggapi_holder *ret,
			struct cairn_err *err);

#endif
