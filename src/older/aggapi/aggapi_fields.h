/* SPDX-License-Identifier: Apache-2.0 */

/* Detects fields that the schema does not define. */
#ifndef CAIRN_AGGAPI_FIELDS_H
#define CAIRN_AGGAPI_FIELDS_H

#include <jansson.h>

#include "older/aggapi/delta_pages.h"

/* Unknown fields of a VolumeSnapshotDelta: rejected if strict, else each is a line in
 * `warnings`. At most AGGAPI_UNKNOWN_MAX are listed. */
#define AGGAPI_UNKNOWN_MAX 16
int aggapi_fields_check(const json_t *object, enum aggapi_validation validation,
			struct cairn_buf *warnings, struct aggapi_refusal *refusal);

#endif
