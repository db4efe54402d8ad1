/* SPDX-License-Identifier: Apache-2.0 */

/* Index files. What is accepted, written again, reads the same. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "repo/index_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BLOBS_MAX 512

struct seen {
	struct repo_pack_blob blobs[BLOBS_MAX];
	struct repo_id packs[BLOBS_MAX];
	size_t of_pack[BLOBS_MAX]; /* blobs before the pack */
	size_t n_blobs, n_packs;
};

static int pack(void *arg, const struct repo_id *id, struct cairn_err *err)
{
	struct seen *seen = arg;

	if (seen->n_packs == BLOBS_MAX)
		return cairn_err_set(err, CAIRN_CANCELLED, "enough");
	seen->of_pack[seen->n_packs] = seen->n_blobs;
	seen->packs[seen->n_packs++] = *id;
	return 0;
}

static int blob(void *arg, const struct repo_pack_blob *blob, struct cairn_err *err)
{
	struct seen *seen = arg;

	if (seen->n_blobs == BLOBS_MAX)
		return cairn_err_set(err, CAIRN_CANCELLED, "enough");
	seen->blobs[seen->n_blobs++] = *blob;
	return 0;
}

static int same(const struct seen *a, const struct seen *b)
{
	if (a->n_blobs != b->n_blobs || a->n_packs != b->n_packs)
		return 0;
	for (size_t i = 0; i < a->n_packs; i++)
		if (!repo_id_equal(&a->packs[i], &b->packs[i]) || a->of_pack[i] != b->of_pack[i])
			return 0;
	for (size_t i = 0; i < a->n_blobs; i++)
		if (!repo_id_equal(&a->blobs[i].id, &b->blobs[i].id) ||
		    a->blobs[i].offset != b->blobs[i].offset ||
		    a->blobs[i].length != b->blobs[i].length ||
		    a->blobs[i].plain != b->blobs[i].plain || a->blobs[i].type != b->blobs[i].type)
			return 0;
	return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct seen first, second;
	struct cairn_buf json = CAIRN_BUF_INIT((size_t)1 << 20);
	struct repo_index_visitor visitor = {
		.pack = pack, .blob = blob, .lost = pack, .arg = &first};

	memset(&first, 0, sizeof(first));
	memset(&second, 0, sizeof(second));
	if (repo_index_file_parse((const char *)data, size, &visitor, NULL) < 0)
		return 0;
	repo_index_file_begin(&json);
	for (size_t i = 0; i < first.n_packs; i++) {
		size_t end = i + 1 < first.n_packs ? first.of_pack[i + 1] : first.n_blobs;

		repo_index_file_pack(&json, &first.packs[i], first.blobs + first.of_pack[i],
				     end - first.of_pack[i]);
	}
	repo_index_file_end(&json);
	visitor.arg = &second;
	if (repo_index_file_parse((const char *)json.data, json.len, &visitor, NULL) < 0 ||
	    !same(&first, &second))
		abort();
	cairn_buf_done(&json);
	return 0;
}
