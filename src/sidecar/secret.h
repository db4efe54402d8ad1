/* SPDX-License-Identifier: Apache-2.0 */

/* The secret that a CSI driver is called with. */
#ifndef CAIRN_SIDECAR_SECRET_H
#define CAIRN_SIDECAR_SECRET_H

#include <jansson.h>
#include <stddef.h>

#include "base/cleanup.h"

struct cairn_err;

/* Limit of the keys of one Secret: an object of 1 MiB holds no more useful ones. */
#define SIDECAR_SECRET_KEYS_MAX 1024U

struct sidecar_secret_entry {
	char *key;
	char *value;
	size_t value_len;
};

struct sidecar_secret {
	struct sidecar_secret_entry *entries;
	size_t n;
};

/* Copies a Secret object, whose values are base64.
 *
 * CAIRN_INVALID  a value is not base64, or not text as CSI requires
 */
int sidecar_secret_new(const json_t *object, struct sidecar_secret **ret, struct cairn_err *err);

/* Wipes and frees it. Accepts NULL. */
void sidecar_secret_free(struct sidecar_secret *secret);
CAIRN_DEFINE_CLEANUP(struct sidecar_secret, sidecar_secret_free);

/* Variables in the parameters of a VolumeSnapshotClass. */
struct sidecar_template {
	const char *content; /* ${volumesnapshotcontent.name} */
	const char *ns;      /* ${volumesnapshot.namespace} */
	const char *name;    /* ${volumesnapshot.name}; NULL if it is not allowed here */
};

/* Expands the variables; *ret is owned by the caller.
 *
 * CAIRN_INVALID  an unknown variable, or a bare $
 */
int sidecar_template_expand(const struct sidecar_template *with, const char *text, char **ret,
			    struct cairn_err *err);

#endif
