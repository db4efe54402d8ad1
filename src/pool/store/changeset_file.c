/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/store/changeset_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "pool/store/blob.h"

struct setfile_writer {
	struct blob_writer *blob;
	struct block_set_writer *set;
};

/* Maximum size that is read into memory when the caller names no buffer. */
#define WHOLE_DEFAULT 32768U

struct setfile_reader {
	struct blob_reader *blob;
	char name[SETFILE_NAME_MAX];
	struct block_set_reader *set;
};

void pool_changeset_file_name(uint64_t number, uint64_t generation, char out[SETFILE_NAME_MAX])
{
	snprintf(out, SETFILE_NAME_MAX, "set-%" PRIu64 "-%" PRIu64, number, generation);
}

bool pool_changeset_file_parse_name(const char *name, uint64_t *ret_number,
				    uint64_t *ret_generation)
{
	char number[24];
	const char *dash;

	if (strncmp(name, "set-", 4) != 0)
		return false;
	dash = strchr(name + 4, '-');
	if (!dash || (size_t)(dash - name - 4) >= sizeof(number))
		return false;
	memcpy(number, name + 4, (size_t)(dash - name - 4));
	number[dash - name - 4] = '\0';
	return cairn_parse_u64(number, ret_number, NULL) == 0 &&
	       cairn_parse_u64(dash + 1, ret_generation, NULL) == 0;
}

/* The name of the set in a directory entry, in quarantine or not; false if it is
 * not a set. */
static bool entry_is_set(const char *entry, bool aside, char name[SETFILE_NAME_MAX])
{
	size_t n = strcspn(entry, ".");
	uint64_t number;
	uint64_t generation;

	if (n >= SETFILE_NAME_MAX || strcmp(entry + n, aside ? SETFILE_ASIDE : "") != 0)
		return false;
	memcpy(name, entry, n);
	name[n] = '\0';
	return pool_changeset_file_parse_name(name, &number, &generation);
}

struct listing {
	bool aside;
	int (*fn)(void *arg, const char *name, struct cairn_err *err);
	void *arg;
};

static int list_set(void *arg, const char *entry, struct cairn_err *err)
{
	const struct listing *listing = arg;
	char name[SETFILE_NAME_MAX];

	return entry_is_set(entry, listing->aside, name) ? listing->fn(listing->arg, name, err) : 0;
}

int pool_changeset_file_list(struct blobs *sets, bool aside,
			     int (*fn)(void *arg, const char *name, struct cairn_err *err),
			     void *arg, struct cairn_err *err)
{
	struct listing listing = {.aside = aside, .fn = fn, .arg = arg};

	return pool_blob_list(sets, list_set, &listing, err);
}

struct newest {
	uint64_t number;
	uint64_t generation;
};

static int keep_newest(void *arg, const char *name, struct cairn_err *err)
{
	struct newest *newest = arg;
	uint64_t number;
	uint64_t generation;

	(void)err;
	if (pool_changeset_file_parse_name(name, &number, &generation) &&
	    number == newest->number && generation > newest->generation)
		newest->generation = generation;
	return 0;
}

int pool_changeset_file_newest_generation(struct blobs *sets, uint64_t number, uint64_t *ret,
					  struct cairn_err *err)
{
	struct newest newest = {.number = number};
	int rc = pool_changeset_file_list(sets, false, keep_newest, &newest, err);

	if (!rc)
		rc = pool_changeset_file_list(sets, true, keep_newest, &newest, err);
	if (!rc)
		*ret = newest.generation;
	return rc;
}

int pool_changeset_file_set_aside(struct blobs *sets, const char *name, struct cairn_err *err)
{
	char aside[SETFILE_NAME_MAX + sizeof(SETFILE_ASIDE)];

	snprintf(aside, sizeof(aside), "%s" SETFILE_ASIDE, name);
	return pool_blob_rename(sets, name, aside, err);
}

int pool_changeset_file_bring_back(struct blobs *sets, const char *name, struct cairn_err *err)
{
	char aside[SETFILE_NAME_MAX + sizeof(SETFILE_ASIDE)];

	snprintf(aside, sizeof(aside), "%s" SETFILE_ASIDE, name);
	return pool_blob_rename(sets, aside, name, err);
}

int pool_changeset_file_drop_aside(struct blobs *sets, const char *name, struct cairn_err *err)
{
	char aside[SETFILE_NAME_MAX + sizeof(SETFILE_ASIDE)];

	snprintf(aside, sizeof(aside), "%s" SETFILE_ASIDE, name);
	return pool_blob_remove(sets, aside, true, err);
}

static int write_bytes(void *arg, const void *data, size_t n, struct cairn_err *err)
{
	struct setfile_writer *writer = arg;

	return pool_blob_append(writer->blob, data, n, err);
}

int pool_changeset_file_writer_new(struct blobs *sets, const char *name,
				   const struct block_set_info *info, struct setfile_writer **ret,
				   struct cairn_err *err)
{
	cairn_cleanup(pool_changeset_file_writer_freep) struct setfile_writer *writer =
		cairn_calloc(1, sizeof(*writer));
	struct block_output output = {.write = write_bytes, .arg = writer};
	int rc;

	if (!writer)
		return cairn_err_nomem(err, "change set");
	rc = pool_blob_create(sets, name, &writer->blob, err);
	if (!rc)
		rc = block_set_writer_new(info, output, &writer->set, err);
	if (rc)
		return rc;
	*ret = cairn_take(writer);
	return 0;
}

void pool_changeset_file_writer_free(struct setfile_writer *writer)
{
	block_set_writer_freep(&writer->set);
	pool_blob_writer_freep(&writer->blob);
	free(writer);
}

struct block_set_writer *pool_changeset_file_writer_set(struct setfile_writer *writer)
{
	return writer->set;
}

int pool_changeset_file_writer_finish(struct setfile_writer *writer,
				      struct block_set_info *ret_info, struct cairn_err *err)
{
	int rc = block_set_writer_finish(writer->set, ret_info, err);

	return rc ? rc : pool_blob_finish(writer->blob, err);
}

static int read_bytes(void *arg, uint64_t offset, void *data, size_t n, struct cairn_err *err)
{
	struct setfile_reader *reader = arg;
	int rc = pool_blob_read(reader->blob, offset, data, n, err);

	return rc ? cairn_err_wrap(err, "change set '%s'", reader->name) : 0;
}

int pool_changeset_file_reader_new(struct blobs *sets, const char *name, size_t buffer_size,
				   struct setfile_reader **ret, struct cairn_err *err)
{
	cairn_cleanup(pool_changeset_file_reader_freep) struct setfile_reader *reader =
		cairn_calloc(1, sizeof(*reader));
	struct block_input input = {.read_at = read_bytes, .arg = reader};
	int rc;

	if (!reader)
		return cairn_err_nomem(err, "change set");
	snprintf(reader->name, sizeof(reader->name), "%s", name);
	rc = pool_blob_open(sets, name, buffer_size ? buffer_size : WHOLE_DEFAULT, &reader->blob,
			    err);
	if (rc)
		return cairn_err_wrap(err, "change set");
	input.size = reader->blob->size;
	rc = block_set_reader_new(input, buffer_size, &reader->set, err);
	if (rc)
		return cairn_err_wrap(err, "change set '%s'", name);
	*ret = cairn_take(reader);
	return 0;
}

void pool_changeset_file_reader_free(struct setfile_reader *reader)
{
	block_set_reader_freep(&reader->set);
	pool_blob_reader_freep(&reader->blob);
	free(reader);
}

struct block_set_reader *pool_changeset_file_reader_set(struct setfile_reader *reader)
{
	return reader->set;
}

struct block_set_reader *pool_changeset_file_reader_take(struct setfile_reader *reader)
{
	return cairn_take(reader->set);
}
