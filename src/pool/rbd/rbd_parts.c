/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "pool/rbd/rbd_cluster.h"

/* A part is half of what a storage daemon accepts, and at most this. */
#define PART_MAX   (64ULL << 20)
#define PART_MIN   4096ULL
#define OBJECT_MAX 160

/* 2^60 bytes of changes are not described by more. */
#define PARTS_MAX 100000U

static uint64_t part_size(struct rbd_cluster *cluster)
{
	char text[32] = "";
	uint64_t most = 0;

	if (rbd_cluster_api(cluster)->rados_conf_get(
		    rbd_cluster_rados(cluster), "osd_max_object_size", text, sizeof(text)) < 0 ||
	    cairn_parse_u64(text, &most, NULL) != 0)
		return PART_MAX;
	most = most / 2 / PART_MIN * PART_MIN;
	return most < PART_MIN ? PART_MIN : most > PART_MAX ? PART_MAX : most;
}

static void part_name(const char *name, uint64_t number, char object[OBJECT_MAX])
{
	if (number == 0)
		snprintf(object, OBJECT_MAX, "%s", name);
	else
		snprintf(object, OBJECT_MAX, "%.128s/%llu", name, (unsigned long long)number);
}

bool rbd_parts_is_later(const char *object)
{
	return strchr(object, '/') != NULL;
}

int rbd_parts_create(struct rbd_cluster *cluster, const char *name, struct cairn_err *err)
{
	int rc = rbd_parts_remove(cluster, name, err);

	if (rc)
		return rc;
	rc = rbd_cluster_api(cluster)->rados_write_full(rbd_cluster_io(cluster), name, "", 0);
	return rc < 0 ? rbd_api_err(err, rc, "make '%s'", name) : 0;
}

/* A piece of one part. */
struct piece {
	char object[OBJECT_MAX];
	uint64_t at; /* in the object */
	size_t done; /* bytes of the whole before it */
	size_t n;
};

/* The next piece of `n` bytes at `offset`, in parts of `size` bytes; false at the end. The
 * caller begins with a piece of zeros. */
static bool next_piece(const char *name, uint64_t size, uint64_t offset, size_t n,
		       struct piece *piece)
{
	uint64_t left;

	piece->done += piece->n;
	offset += piece->done;
	left = size - offset % size;
	piece->n = n - piece->done < left ? n - piece->done : (size_t)left;
	piece->at = offset % size;
	part_name(name, offset / size, piece->object);
	return piece->n > 0;
}

int rbd_parts_write(struct rbd_cluster *cluster, const char *name, uint64_t offset,
		    const char *data, size_t n, struct cairn_err *err)
{
	const uint64_t size = part_size(cluster);
	struct piece piece = {.n = 0};

	while (next_piece(name, size, offset, n, &piece)) {
		int rc =
			rbd_cluster_api(cluster)->rados_write(rbd_cluster_io(cluster), piece.object,
							      data + piece.done, piece.n, piece.at);

		if (rc < 0)
			return rbd_api_err(err, rc, "write '%s'", piece.object);
	}
	return 0;
}

int rbd_parts_read(struct rbd_cluster *cluster, const char *name, const struct rbd_parts *parts,
		   uint64_t offset, char *data, size_t n, struct cairn_err *err)
{
	struct piece piece = {.n = 0};

	while (next_piece(name, parts->part, offset, n, &piece)) {
		int rc = rbd_cluster_api(cluster)->rados_read(rbd_cluster_io(cluster), piece.object,
							      data + piece.done, piece.n, piece.at);

		if (rc == -ENOENT || (rc >= 0 && (size_t)rc < piece.n))
			return cairn_err_set(err, CAIRN_DATA_LOSS, "it is truncated");
		if (rc < 0)
			return rbd_api_err(err, rc, "read '%s'", piece.object);
	}
	return 0;
}

/* 1: there is no such part. */
static int stat_part(struct rbd_cluster *cluster, const char *name, uint64_t number, uint64_t *ret,
		     struct cairn_err *err)
{
	char object[OBJECT_MAX];
	time_t when;
	int rc;

	part_name(name, number, object);
	rc = rbd_cluster_api(cluster)->rados_stat(rbd_cluster_io(cluster), object, ret, &when);
	if (rc == -ENOENT)
		return 1;
	return rc < 0 ? rbd_api_err(err, rc, "'%s'", object) : 0;
}

int rbd_parts_stat(struct rbd_cluster *cluster, const char *name, struct rbd_parts *ret,
		   struct cairn_err *err)
{
	struct rbd_parts parts = {0};
	uint64_t have = 0;
	int rc = stat_part(cluster, name, 0, &have, err);

	if (rc)
		return rc < 0 ? rc : rbd_api_err(err, -ENOENT, "'%s'", name);
	parts = (struct rbd_parts){.size = have, .part = have};
	for (unsigned i = 1;
	     i < PARTS_MAX && rc == 0 && have > 0 && have == parts.part && have % PART_MIN == 0;
	     i++) {
		rc = stat_part(cluster, name, i, &have, err);
		if (rc == 0)
			parts.size += have;
	}
	if (rc < 0)
		return rc;
	if (parts.size == parts.part)
		parts.part = parts.size + 1; /* one part */
	*ret = parts;
	return 0;
}

int rbd_parts_remove(struct rbd_cluster *cluster, const char *name, struct cairn_err *err)
{
	uint64_t size, n = 1;
	int rc = 0;

	/* Parts of an interrupted write may follow one that is not full. */
	while (n < PARTS_MAX && (rc = stat_part(cluster, name, n, &size, err)) == 0)
		n++;
	if (rc < 0)
		return rc;
	while (n-- > 0) {
		char object[OBJECT_MAX];

		part_name(name, n, object);
		rc = rbd_cluster_api(cluster)->rados_remove(rbd_cluster_io(cluster), object);
		if (rc < 0 && rc != -ENOENT)
			return rbd_api_err(err, rc, "remove '%s'", object);
	}
	return 0;
}
