/* SPDX-License-Identifier: Apache-2.0 */

#include "client/error.h"

#include <stdio.h>

#include <cairn/client.h>

#include "base/err.h"

int client_error_set(struct cairn_client_error *error, int code, const struct cairn_err *err)
{
	if (code < 0 && error) {
		error->code = code;
		snprintf(error->message, sizeof(error->message), "%s", err->msg);
	}
	return code;
}

const char *cairn_client_code_name(int code)
{
	return cairn_code_name(code);
}
