/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/tree_ahead.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/mem.h"
#include "repo/index.h"
#include "repo/repo_impl.h"

void repo_tree_ahead_init(struct repo_tree_ahead *ahead)
{
	*ahead = (struct repo_tree_ahead){.mutex = PTHREAD_MUTEX_INITIALIZER};
}

void repo_tree_ahead_done(struct repo_tree_ahead *ahead)
{
	free(ahead->data);
	pthread_mutex_destroy(&ahead->mutex);
}

static uint64_t ahead_end(const struct repo_place *place)
{
	return (uint64_t)place->offset + place->length;
}

/* Copies the blob if it was read before. *ret_more: what precedes it is to be read with it. Of a
 * pack that is kept, only what follows is wanted. */
static bool ahead_take(struct repo_tree_ahead *ahead, const struct repo_place *place, uint8_t *out,
		       bool *ret_more)
{
	cairn_scoped_lock(&ahead->mutex);
	bool same = ahead->data && repo_id_equal(&ahead->pack, &place->pack_id);

	*ret_more = !same && place->offset > 0 && ahead_end(place) <= REPO_TREE_AHEAD &&
		    ahead->times < REPO_TREE_AHEAD_TIMES;
	ahead->times += *ret_more;
	if (!same || ahead_end(place) > ahead->n)
		return false;
	memcpy(out, ahead->data + place->offset, place->length);
	return true;
}

static void ahead_keep(struct repo_tree_ahead *ahead, const struct repo_id *pack, uint8_t *data,
		       size_t n)
{
	cairn_scoped_lock(&ahead->mutex);
	free(ahead->data);
	ahead->pack = *pack;
	ahead->data = data;
	ahead->n = n;
}

int repo_tree_ahead_read(struct repo *repo, const struct repo_place *place, uint8_t *out,
			 struct cairn_err *err)
{
	cairn_auto_free uint8_t *data = NULL;
	uint64_t end = ahead_end(place);
	bool more;

	if (ahead_take(&repo->tree_ahead, place, out, &more))
		return 0;
	if (more)
		data = cairn_alloc((size_t)end);
	if (!data || repo_read(repo, &place->pack_id, 0, data, (size_t)end, NULL) < 0)
		return repo_read(repo, &place->pack_id, place->offset, out, place->length, err);
	memcpy(out, data + place->offset, place->length);
	ahead_keep(&repo->tree_ahead, &place->pack_id, cairn_take(data), (size_t)end);
	return 0;
}
