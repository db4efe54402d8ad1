/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/image_head.h"

#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "repo/repo_cache.h"

void backup_image_head_keep(struct repo *repo, const struct repo_id *tree,
			    const struct repo_id *before, const struct image_head *head)
{
	cairn_auto_free uint8_t *bytes = cairn_alloc(sizeof(head->parts) + head->n);

	if (!bytes)
		return;
	memcpy(bytes, &head->parts, sizeof(head->parts));
	memcpy(bytes + sizeof(head->parts), head->metadata, head->n);
	if (before)
		repo_cache_drop_sealed(repo, REPO_CACHED_HEAD, before);
	repo_cache_put_sealed(repo, REPO_CACHED_HEAD, tree, bytes, sizeof(head->parts) + head->n);
	repo_cache_set_whole(repo, tree, before);
}

bool backup_image_head_find(struct repo *repo, const struct repo_id *tree, struct image_head *ret,
			    void **ret_bytes)
{
	cairn_auto_free uint8_t *bytes = NULL;
	size_t n;

	if (!repo_cache_is_whole(repo, tree) ||
	    !repo_cache_get_sealed(repo, REPO_CACHED_HEAD, tree, &bytes, &n) ||
	    n <= sizeof(ret->parts))
		return false;
	memcpy(&ret->parts, bytes, sizeof(ret->parts));
	ret->metadata = (const char *)bytes + sizeof(ret->parts);
	ret->n = n - sizeof(ret->parts);
	*ret_bytes = cairn_take(bytes);
	return true;
}
