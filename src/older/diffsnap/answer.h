/* SPDX-License-Identifier: Apache-2.0 */

/* Encodes a driver's page as JSON for an HTTP client:
 *
 *   {"changeBlockList": [{"offset": 0, "size": 4096, "context": "…", "zeroOut": true}],
 *    "nextOffset": "4096", "volumeSize": 1048576, "timeout": 0}
 *
 * context (base64) and zeroOut are omitted if empty or false; nextOffset is "" on the last
 * page.
 */
#ifndef CAIRN_DIFFSNAP_ANSWER_H
#define CAIRN_DIFFSNAP_ANSWER_H

#include "csi_differential.pb-c.h"

struct cairn_buf;

/* Appends the page; check the buffer's failure flag. */
void diffsnap_answer_write(const Csi__V1__DifferentialSnapshotResponse *page,
			   struct cairn_buf *out);

/* {"code": "NOT_FOUND", "error": "…"} */
void diffsnap_answer_error(int code, const char *text, struct cairn_buf *out);

#endif
