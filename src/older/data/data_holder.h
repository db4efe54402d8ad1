/* SPDX-License-Identifier: Apache-2.0 */

/* The holder of a data token: a user, and the VolumeSnapshots of the requested page. The
 * driver signs the holder together with the range, so no other user can use the token, and
 * the permission for the snapshots can be checked again when the token is used.
 *
 * The token that users receive is the driver's token, a dot, and the names:
 * "TOKEN.NS:TARGET:BASE" (BASE may be ""). Text in, text out.
 */
#ifndef CAIRN_DATA_HOLDER_H
#define CAIRN_DATA_HOLDER_H

#include <stdbool.h>

struct cairn_err;

#define DATA_NAME_MAX 254 /* of a Kubernetes name, with the NUL */

struct data_holder {
	const char *user; /* its name */
	const char *ns;
	const char *target; /* names of VolumeSnapshots */
	const char *base;   /* NULL or "": none */
};

/* Checks that it is complete and the names are valid in Kubernetes.
 *
 * CAIRN_INVALID  it is not
 */
int data_holder_check(const struct data_holder *holder, struct cairn_err *err);

/* Returns the text that the driver signs (free()); NULL when memory is short. */
char *data_holder_text(const struct data_holder *holder);

/* Returns the token for users (free()); NULL when memory is short. */
char *data_holder_token(const struct data_holder *holder, const char *driver_token);

/* Splits such a token in place: *ret_driver_token and the names of *ret point into it; the
 * user is not set.
 *
 * CAIRN_UNAUTHENTICATED  not such a token
 */
int data_holder_split(char *token, const char **ret_driver_token, struct data_holder *ret,
		      struct cairn_err *err);

#endif
