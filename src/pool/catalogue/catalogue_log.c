/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/catalogue_log.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/mem.h"
#include "pool/catalogue/catalogue_mark.h"

#define MAGIC    0x377f0682U /* the lowest bit is set for big-endian checksums */
#define PAGE_MIN 512U

struct chain {
	bool big_endian;
	uint32_t sum[2];
	uint8_t salt[CATALOGUE_SALT_SIZE];
	uint32_t page_size;
};

static uint32_t get_big(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t get_little(const uint8_t *p)
{
	return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static void catalogue_log_add_bytes(struct chain *chain, const uint8_t *p, size_t n)
{
	uint32_t (*get)(const uint8_t *) = chain->big_endian ? get_big : get_little;

	for (size_t i = 0; i < n; i += 8) {
		chain->sum[0] += get(p + i) + chain->sum[1];
		chain->sum[1] += get(p + i + 4) + chain->sum[0];
	}
}

static bool sum_is(const struct chain *chain, const uint8_t *p)
{
	return get_big(p) == chain->sum[0] && get_big(p + 4) == chain->sum[1];
}

static bool catalogue_log_check_header(struct chain *chain, const uint8_t *p)
{
	uint32_t magic = get_big(p);

	*chain = (struct chain){.big_endian = magic & 1, .page_size = get_big(p + 8)};
	memcpy(chain->salt, p + 16, CATALOGUE_SALT_SIZE);
	catalogue_log_add_bytes(chain, p, 24);
	return (magic & ~1U) == MAGIC && sum_is(chain, p + 24) && chain->page_size >= PAGE_MIN &&
	       chain->page_size <= CATALOGUE_PAGE_MAX &&
	       (chain->page_size & (chain->page_size - 1)) == 0;
}

static bool catalogue_log_check_frame(struct chain *chain, const uint8_t *p)
{
	if (get_big(p) == 0 || memcmp(p + 8, chain->salt, CATALOGUE_SALT_SIZE) != 0)
		return false;
	catalogue_log_add_bytes(chain, p, 8);
	catalogue_log_add_bytes(chain, p + CATALOGUE_LOG_FRAME, chain->page_size);
	return sum_is(chain, p + 16);
}

bool pool_catalogue_log_salt(const uint8_t *header, uint8_t *ret_salt)
{
	struct chain chain;

	if (!catalogue_log_check_header(&chain, header))
		return false;
	memcpy(ret_salt, chain.salt, CATALOGUE_SALT_SIZE);
	return true;
}

uint32_t pool_catalogue_log_last_page(const uint8_t *frame)
{
	return get_big(frame + 4) != 0 ? get_big(frame) : 0;
}

bool pool_catalogue_log_has_commit(int fd, const uint8_t *salt, uint64_t after)
{
	cairn_auto_free uint8_t *bytes = cairn_alloc(CATALOGUE_LOG_FRAME + CATALOGUE_PAGE_MAX);
	uint64_t offset = CATALOGUE_LOG_HEADER;
	struct chain chain;
	ssize_t got;
	size_t n;

	got = bytes ? cairn_pread_full(fd, bytes, CATALOGUE_LOG_HEADER, 0) : -1;
	if (got < 0)
		return true;
	if (got != CATALOGUE_LOG_HEADER || !catalogue_log_check_header(&chain, bytes))
		return false;
	if (!salt || memcmp(salt, chain.salt, CATALOGUE_SALT_SIZE) != 0)
		after = 0;
	for (n = CATALOGUE_LOG_FRAME + chain.page_size;; offset += n) {
		got = cairn_pread_full(fd, bytes, n, offset);
		if (got < 0)
			return true;
		if (got != (ssize_t)n || !catalogue_log_check_frame(&chain, bytes))
			return false;
		if (pool_catalogue_log_last_page(bytes) && offset + n > after)
			return true;
	}
}

/* A copy-on-write filesystem needs a new block for each one that is rewritten, and
 * frees the old ones with its commit. */
static int rewrite_frame(int fd, const uint8_t *bytes, size_t n, int64_t offset)
{
	if (cairn_pwrite_full(fd, bytes, n, (uint64_t)offset) == 0)
		return 0;
	if (errno != ENOSPC || syncfs(fd) < 0)
		return -1;
	return cairn_pwrite_full(fd, bytes, n, (uint64_t)offset);
}

int pool_catalogue_log_walk(int fd, bool rewrite, int64_t *ret_end)
{
	cairn_auto_free uint8_t *bytes = cairn_alloc(CATALOGUE_LOG_FRAME + CATALOGUE_PAGE_MAX);
	struct chain chain;
	int64_t end = 0;
	ssize_t got;

	if (!bytes) {
		errno = ENOMEM;
		return -1;
	}
	got = cairn_pread_full(fd, bytes, CATALOGUE_LOG_HEADER, 0);
	if (got == CATALOGUE_LOG_HEADER && catalogue_log_check_header(&chain, bytes)) {
		size_t n = CATALOGUE_LOG_HEADER;

		do {
			if (rewrite && rewrite_frame(fd, bytes, n, end) < 0)
				return -1;
			end += (int64_t)n;
			n = CATALOGUE_LOG_FRAME + chain.page_size;
			got = cairn_pread_full(fd, bytes, n, (uint64_t)end);
		} while (got == (ssize_t)n && catalogue_log_check_frame(&chain, bytes));
	}
	if (got < 0)
		return -1;
	*ret_end = end;
	return 0;
}
