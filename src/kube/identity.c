/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/identity.h"

#include <string.h>

#include "base/mem.h"
#include "http_client/http_client.h"
#include "kube/config_impl.h"

struct kube_identity *kube_identity_new(void)
{
	struct kube_identity *identity = cairn_calloc(1, sizeof(*identity));

	if (identity)
		atomic_init(&identity->refs, 1);
	return identity;
}

struct kube_identity *kube_identity_ref(struct kube_identity *identity)
{
	atomic_fetch_add(&identity->refs, 1);
	return identity;
}

void kube_identity_unref(struct kube_identity *identity)
{
	if (!identity || atomic_fetch_sub(&identity->refs, 1) > 1)
		return;
	kube_wipe(identity->ca);
	kube_wipe(identity->cert);
	kube_wipe(identity->key);
	kube_wipe(identity->token);
	http_client_fields_free(identity->fields);
	free(identity);
}

static bool identity_same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool kube_identity_equal(const struct kube_identity *a, const struct kube_identity *b)
{
	return identity_same(a->ca, b->ca) && identity_same(a->cert, b->cert) &&
	       identity_same(a->key, b->key) && identity_same(a->token, b->token);
}

bool kube_identity_add(struct kube_identity *identity, const char *name, const char *value)
{
	cairn_cleanup(kube_wipep) char *field = NULL;

	for (const char *p = value; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return false;
	field = cairn_printf("%s: %s", name, value);
	return field && http_client_add_field(&identity->fields, field);
}
