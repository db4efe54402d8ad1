/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "repo/index_cache_impl.h"
#include "repo/names.h"

uint64_t repo_index_cache_pages(uint64_t blobs)
{
	return (blobs + REPO_INDEX_CACHE_PAGE - 1) / REPO_INDEX_CACHE_PAGE;
}

static uint64_t fan_count(uint64_t bits)
{
	return (1ULL << bits) + 1;
}

uint64_t repo_index_cache_size(const struct repo_index_cache_header *header)
{
	return REPO_INDEX_CACHE_START + header->n_blobs * sizeof(struct repo_cached_blob) +
	       header->n_names * sizeof(struct repo_named) +
	       header->n_packs * sizeof(struct repo_cached_pack) +
	       repo_index_cache_pages(header->n_blobs) * sizeof(uint64_t) +
	       fan_count(header->fan_bits) * sizeof(uint32_t);
}

size_t repo_index_cache_bucket(const struct repo_id *id, uint64_t bits)
{
	uint32_t first = (uint32_t)id->bytes[0] << 24 | (uint32_t)id->bytes[1] << 16 |
			 (uint32_t)id->bytes[2] << 8 | id->bytes[3];

	return bits ? first >> (32 - bits) : 0;
}

bool repo_index_cache_seal(const struct repo_index_cache_header *header, const uint8_t *tail,
			   size_t n, struct repo_id *ret)
{
	struct repo_id parts[2];

	return repo_id_of(header, sizeof(*header), &parts[0]) && repo_id_of(tail, n, &parts[1]) &&
	       repo_id_of(parts, sizeof(parts), ret);
}

/* The part of the file after the entries. */
struct tail {
	uint8_t *bytes;
	size_t n;
	uint64_t *sums; /* points into `bytes` */
	uint32_t *fan;
};

static int make_tail(const struct repo_index_cache_content *content,
		     const struct repo_index_cache_header *header, struct tail *ret,
		     struct cairn_err *err)
{
	size_t names = content->n_names * sizeof(struct repo_named);
	size_t packs = content->n_packs * sizeof(struct repo_cached_pack);

	ret->n = repo_index_cache_size(header) - REPO_INDEX_CACHE_START -
		 header->n_blobs * sizeof(struct repo_cached_blob);
	ret->bytes = cairn_calloc(1, ret->n);
	if (!ret->bytes)
		return cairn_err_nomem(err, "a cache of the index");
	memcpy(ret->bytes, content->names, names);
	memcpy(ret->bytes + names, content->packs, packs);
	ret->sums = (uint64_t *)(ret->bytes + names + packs);
	ret->fan = (uint32_t *)(ret->sums + repo_index_cache_pages(header->n_blobs));
	return 0;
}

/* Buckets of about a page. */
static uint64_t fan_bits_for(uint64_t blobs)
{
	uint64_t bits = 0;

	while (bits < REPO_INDEX_CACHE_FAN_MAX && blobs >> bits > REPO_INDEX_CACHE_PAGE / 2)
		bits++;
	return bits;
}

static int write_blobs(FILE *file, const struct repo_index_cache_content *content,
		       const struct repo_index_cache_header *header, struct tail *tail,
		       struct cairn_err *err)
{
	struct repo_cached_blob page[REPO_INDEX_CACHE_PAGE];
	size_t bucket = 0;

	for (uint32_t i = 0; i < content->n_blobs;) {
		size_t n = 0;

		for (; n < REPO_INDEX_CACHE_PAGE && i < content->n_blobs; n++, i++) {
			if (!content->next(content->arg, &page[n]))
				return cairn_err_set(err, CAIRN_DATA_LOSS, "the cache is damaged");
			while (bucket <= repo_index_cache_bucket(&page[n].id, header->fan_bits))
				tail->fan[bucket++] = i;
		}
		tail->sums[(i - 1) / REPO_INDEX_CACHE_PAGE] = repo_index_cache_sum(page, n);
		if (fwrite(page, sizeof(*page), n, file) != n)
			return cairn_err_sys(err, errno, "write a cache of the index");
	}
	while (bucket < fan_count(header->fan_bits))
		tail->fan[bucket++] = content->n_blobs;
	return 0;
}

static int index_cache_write_all(FILE *file, const struct repo_index_cache_content *content,
				 struct cairn_err *err)
{
	uint8_t start[REPO_INDEX_CACHE_START] = {0};
	struct repo_index_cache_header header = {
		.n_blobs = content->n_blobs,
		.n_names = content->n_names,
		.n_packs = content->n_packs,
		.fan_bits = fan_bits_for(content->n_blobs),
	};
	struct tail tail = {0};
	int rc;

	memcpy(header.magic, REPO_INDEX_CACHE_MAGIC, sizeof(header.magic));
	memcpy(header.repository, content->repository,
	       strnlen(content->repository, sizeof(header.repository)));
	rc = make_tail(content, &header, &tail, err);
	if (!rc && fwrite(start, sizeof(start), 1, file) != 1)
		rc = cairn_err_sys(err, errno, "write a cache of the index");
	if (!rc)
		rc = write_blobs(file, content, &header, &tail, err);
	if (!rc && !repo_index_cache_seal(&header, tail.bytes, tail.n, &header.sum))
		rc = cairn_err_nomem(err, "a hash");
	if (!rc && (fwrite(tail.bytes, tail.n, 1, file) != 1 || fseek(file, 0, SEEK_SET) != 0 ||
		    fwrite(&header, sizeof(header), 1, file) != 1 || fflush(file) != 0))
		rc = cairn_err_sys(err, errno, "write a cache of the index");
	free(tail.bytes);
	return rc;
}

int repo_index_cache_write(const char *path, const struct repo_index_cache_content *content,
			   struct cairn_err *err)
{
	cairn_auto_free char *partial = cairn_printf("%s.%d.partial", path, (int)getpid());
	FILE *file;
	int fd, rc;

	if (!partial)
		return cairn_err_nomem(err, "a cache of the index");
	fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	file = fd < 0 ? NULL : fdopen(fd, "wb");
	if (!file) {
		rc = cairn_err_sys(err, errno, "make '%s'", partial);
		if (fd >= 0)
			close(fd);
		return rc;
	}
	rc = index_cache_write_all(file, content, err);
	if (fclose(file) != 0 && !rc)
		rc = cairn_err_sys(err, errno, "write '%s'", partial);
	if (!rc && rename(partial, path) < 0)
		rc = cairn_err_sys(err, errno, "rename '%s'", partial);
	if (rc)
		(void)unlink(partial);
	return rc;
}
