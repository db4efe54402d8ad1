/* SPDX-License-Identifier: Apache-2.0 */

/* Converts errors for the library's callers. */
#ifndef CAIRN_CLIENT_ERROR_H
#define CAIRN_CLIENT_ERROR_H

struct cairn_client_error;
struct cairn_err;

/* If `code` is a failure, fills `error`, which may be NULL, from `err`; returns `code`. */
int client_error_set(struct cairn_client_error *error, int code, const struct cairn_err *err);

#endif
