/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/handshake.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "velero/velero_names.h"

#define COOKIE_VALUE "hello"

#define CORE_VERSION "1" /* version of go-plugin's protocol */
#define APP_VERSION  "2" /* version of Velero's protocol */

int velero_handshake_check(velero_getenv *get, struct cairn_err *err)
{
	const char *cookie = get(VELERO_COOKIE);
	const char *versions = get("PLUGIN_PROTOCOL_VERSIONS");
	const char *certificate = get("PLUGIN_CLIENT_CERT");

	if (!cookie || strcmp(cookie, COOKIE_VALUE) != 0)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "this is a plugin of Velero: install it with 'velero plugin "
				     "add', or copy it into the server's plugin directory");
	/* Hosts before go-plugin 1.0 do not send it. */
	if (versions && *versions && !velero_list_has(versions, APP_VERSION))
		return cairn_err_set(
			err, CAIRN_UNIMPLEMENTED,
			"Velero's plugin protocol %s is not supported, only " APP_VERSION,
			versions);
	if (certificate && *certificate)
		return cairn_err_set(
			err, CAIRN_UNIMPLEMENTED,
			"Velero requires TLS between itself and its plugins, which is not "
			"supported");
	return 0;
}

int velero_handshake_line(const char *socket, char out[VELERO_HANDSHAKE_MAX], struct cairn_err *err)
{
	int n;

	if (strpbrk(socket, "|\n"))
		return cairn_err_set(err, CAIRN_INVALID,
				     "the path of the socket must not contain '|': %s", socket);
	/* The last field, the server's certificate, is empty: the connection does not use TLS. */
	n = snprintf(out, VELERO_HANDSHAKE_MAX, CORE_VERSION "|" APP_VERSION "|unix|%s|grpc|\n",
		     socket);
	if (n < 0 || n >= VELERO_HANDSHAKE_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "the path of the socket is too long: %s",
				     socket);
	return 0;
}
