/* SPDX-License-Identifier: Apache-2.0 */

#include "base/random.h"

#include <errno.h>
#include <sys/random.h>

#include "base/err.h"

int cairn_random_bytes(void *out, size_t n, struct cairn_err *err)
{
	uint8_t *at = out;

	while (n > 0) {
		ssize_t got = getrandom(at, n, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return cairn_err_sys(err, errno, "getrandom");
		at += got;
		n -= (size_t)got;
	}
	return 0;
}

int cairn_random_hex(char *out, size_t n_bytes, struct cairn_err *err)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t *raw = (uint8_t *)out + n_bytes; /* second half: read first */
	int rc = cairn_random_bytes(raw, n_bytes, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < n_bytes; i++) {
		uint8_t byte = raw[i];

		out[2 * i] = digits[byte >> 4];
		out[2 * i + 1] = digits[byte & 15];
	}
	out[2 * n_bytes] = '\0';
	return 0;
}
