/* SPDX-License-Identifier: Apache-2.0 */

/* Checks a driver's page, and encodes it as JSON for an HTTP client:
 *
 *   {"ChangeBlockList": [{"Offset": 0, "Size": 4096, "Context": "...", "ZeroOut": true}],
 *    "NextOffset": "4096", "VolumeSize": 1048576, "Timeout": 0}
 *
 * with the names of the proposal, or in camel case (changeBlockList). Context (base64) and
 * ZeroOut are omitted if empty or false; NextOffset is null on the last page.
 */
#ifndef CAIRN_DIFFSNAP_ANSWER_H
#define CAIRN_DIFFSNAP_ANSWER_H

#include <stdbool.h>

#include "csi_differential.pb-c.h"

struct cairn_buf;
struct cairn_err;

/* Checks what clients rely on: blocks are ascending, do not overlap and are not empty, and the next
 * page is not the one that begins at `start` again, because a client would read it for ever.
 *
 * CAIRN_INTERNAL  it is not so
 */
int diffsnap_answer_check(const Csi__V1__DifferentialSnapshotResponse *page, const char *start,
			  struct cairn_err *err);

/* Appends the page, and `suffix` to each context that is not empty; check the buffer's
 * failure flag. */
void diffsnap_answer_write(const Csi__V1__DifferentialSnapshotResponse *page, bool camel_case,
			   const char *suffix, struct cairn_buf *out);

/* {"code": "NOT_FOUND", "error": "…"} */
void diffsnap_answer_error(int code, const char *text, struct cairn_buf *out);

#endif
