/* SPDX-License-Identifier: Apache-2.0 */

/* Errors on their way out of the library. */
#ifndef CAIRN_CLIENT_ERROR_H
#define CAIRN_CLIENT_ERROR_H

struct cairn_client_error;
struct cairn_err;

/* Fills `error`, which may be NULL, from `err` where `code` is a failure;
 * returns `code`. */
int client_error_set(struct cairn_client_error *error, int code, const struct cairn_err *err);

#endif
