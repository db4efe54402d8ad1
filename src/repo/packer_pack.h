/* SPDX-License-Identifier: Apache-2.0 */

/* Internal header of repo/packer.c: a pack in memory, and lists of them. */
#ifndef CAIRN_REPO_PACKER_PACK_H
#define CAIRN_REPO_PACKER_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "repo/id.h"
#include "repo/pack_header.h"

struct cairn_err;
struct repo;

struct packer_pack {
	struct packer_pack *next;
	uint32_t number; /* number in the index */
	size_t limit;    /* bytes from which on it is full */
	struct repo_id id;
	struct cairn_buf bytes;
	struct repo_pack_blob *blobs;
	size_t n, cap;
};

struct packer_list {
	struct packer_pack *first, *last;
};

/* With a buffer for a pack of this size. Returns NULL if memory is short. */
struct packer_pack *repo_packer_pack_new(size_t pack_size);
void repo_packer_pack_free(struct packer_pack *pack);
CAIRN_DEFINE_CLEANUP(struct packer_pack, repo_packer_pack_free);

/* Returns -1 if memory is short. */
int repo_packer_pack_add_blob(struct packer_pack *pack, const struct repo_pack_blob *blob);

/* Appends the sealed header and its length to the blobs. */
int repo_packer_pack_seal(struct repo *repo, struct packer_pack *pack, struct cairn_err *err);

void repo_packer_list_add(struct packer_list *list, struct packer_pack *pack);
struct packer_pack *repo_packer_list_take(struct packer_list *list); /* NULL: it is empty */
void repo_packer_list_free(struct packer_list *list);

#endif
