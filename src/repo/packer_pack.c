/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/packer_pack.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/mem.h"
#include "repo/repo_impl.h"

#define LARGE_PAGE ((size_t)2 << 20)
#define MORE_ROOM  ((size_t)1 << 20) /* more than a full pack: its last blob and its header */

/* Allocates the whole buffer at once, in huge pages: the kernel has fewer page faults to
 * handle, and a directory store can write from it with direct I/O. If that fails, the
 * buffer grows as it is filled. */
static void packer_make_room(struct cairn_buf *bytes, size_t pack_size)
{
	size_t cap = pack_size + MORE_ROOM;

	bytes->data = cairn_alloc_aligned(LARGE_PAGE, cap + 1);
	if (!bytes->data)
		return;
	bytes->cap = cap;
	(void)madvise(bytes->data, cap - cap % LARGE_PAGE, MADV_HUGEPAGE);
}

struct packer_pack *repo_packer_pack_new(size_t pack_size)
{
	struct packer_pack *pack = cairn_calloc(1, sizeof(*pack));

	if (!pack)
		return NULL;
	cairn_buf_init(&pack->bytes, UINT32_MAX);
	packer_make_room(&pack->bytes, pack_size);
	return pack;
}

void repo_packer_pack_free(struct packer_pack *pack)
{
	if (!pack)
		return;
	cairn_buf_done(&pack->bytes);
	free(pack->blobs);
	free(pack);
}

void repo_packer_list_add(struct packer_list *list, struct packer_pack *pack)
{
	pack->next = NULL;
	if (list->last)
		list->last->next = pack;
	else
		list->first = pack;
	list->last = pack;
}

struct packer_pack *repo_packer_list_take(struct packer_list *list)
{
	struct packer_pack *pack = list->first;

	if (pack) {
		list->first = pack->next;
		if (!list->first)
			list->last = NULL;
	}
	return pack;
}

void repo_packer_list_free(struct packer_list *list)
{
	struct packer_pack *pack;

	while ((pack = repo_packer_list_take(list)))
		repo_packer_pack_free(pack);
}

int repo_packer_pack_add_blob(struct packer_pack *pack, const struct repo_pack_blob *blob)
{
	if (pack->n == pack->cap) {
		size_t cap = pack->cap ? pack->cap * 2 : 256;
		struct repo_pack_blob *blobs =
			cairn_realloc_array(pack->blobs, cap, sizeof(*blobs));

		if (!blobs)
			return -1;
		pack->blobs = blobs;
		pack->cap = cap;
	}
	pack->blobs[pack->n++] = *blob;
	return 0;
}

int repo_packer_pack_seal(struct repo *repo, struct packer_pack *pack, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf header = CAIRN_BUF_INIT(REPO_PACK_HEADER_MAX);
	struct repo_codec *codec;
	uint8_t *at;
	size_t n;
	int rc;

	repo_pack_header_encode(pack->blobs, pack->n, &header);
	n = header.len + REPO_SEAL;
	at = cairn_buf_reserve(&pack->bytes, n + REPO_PACK_TRAILER);
	if (cairn_buf_failed(&header) || !at)
		return cairn_err_nomem(err, "a pack");
	rc = repo_codec_get(&repo->codecs, &codec, err);
	if (rc < 0)
		return rc;
	rc = repo_crypt_seal(repo_codec_crypt(codec), header.data, header.len, at, err);
	repo_codec_put(&repo->codecs, codec);
	for (int i = 0; i < REPO_PACK_TRAILER; i++)
		at[n + (size_t)i] = (uint8_t)(n >> (8 * i));
	pack->bytes.len += n + REPO_PACK_TRAILER;
	return rc;
}
