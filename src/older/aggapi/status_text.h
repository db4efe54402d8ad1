/* SPDX-License-Identifier: Apache-2.0 */

/* Changes the version that the text of a refusal names: the user asked at another version
 * than the one at which the object is stored. */
#ifndef CAIRN_AGGAPI_STATUS_TEXT_H
#define CAIRN_AGGAPI_STATUS_TEXT_H

#include <stddef.h>

struct cairn_buf;

/* Appends the JSON text of a Status with `from` ("GROUP/VERSION") replaced by `to`, also where
 * Kubernetes writes only the version: in version "VERSION". The caller checks
 * cairn_buf_failed(). */
void aggapi_status_text(const char *text, size_t n, const char *from, const char *to,
			struct cairn_buf *out);

#endif
