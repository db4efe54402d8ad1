/* SPDX-License-Identifier: Apache-2.0 */

/* How a plugin of HashiCorp's go-plugin begins: its host says in the environment that it is
 * one and what it speaks; the plugin prints one line that says where it serves. */
#ifndef CAIRN_VELERO_HANDSHAKE_H
#define CAIRN_VELERO_HANDSHAKE_H

#include <stddef.h>

struct cairn_err;

/* The variable that Velero sets for its plugins. */
#define VELERO_COOKIE "VELERO_PLUGIN"

/* Reads a variable of the environment, as getenv() does. */
typedef char *velero_getenv(const char *name);

/* CAIRN_PRECONDITION   the program was not started by Velero
 * CAIRN_UNIMPLEMENTED  Velero wants another version of the protocol, or TLS
 */
int velero_handshake_check(velero_getenv *get, struct cairn_err *err);

#define VELERO_HANDSHAKE_MAX 256

/* The line, with its newline; `socket` is absolute.
 *
 * CAIRN_INVALID  the path is too long, or contains the line's separator
 */
int velero_handshake_line(const char *socket, char out[VELERO_HANDSHAKE_MAX],
			  struct cairn_err *err);

#endif
