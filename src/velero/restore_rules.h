/* SPDX-License-Identifier: Apache-2.0 */

/* What a Restore says. Pure; texts are borrowed. */
#ifndef CAIRN_VELERO_RESTORE_RULES_H
#define CAIRN_VELERO_RESTORE_RULES_H

#include <jansson.h>
#include <stdbool.h>

struct cairn_err;

/* Where objects of namespace `ns` of the backup are restored to. */
const char *velero_restore_namespace(const json_t *restore, const char *ns);

/* False when it says restorePVs: false. */
bool velero_restores_volumes(const json_t *restore);

/* Does the item belong to the backup that is restored? */
int velero_is_of_restore(const json_t *item, const json_t *restore, bool *ret,
			 struct cairn_err *err);

/* Leaves of metadata what a new object may have: name, namespace and labels. */
int velero_clear_metadata(json_t *object, struct cairn_err *err);

#endif
