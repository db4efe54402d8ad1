/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/btrfs/btrfs_stream.h"

#include <string.h>

#include "base/buf.h"
#include "cairntest.h"
#include "pool/btrfs/crc32c.h"

#define CMD_WRITE         15
#define CMD_CLONE         16
#define CMD_TRUNCATE      17
#define CMD_UTIMES        20
#define CMD_END           21
#define CMD_UPDATE_EXTENT 22
#define CMD_FALLOCATE     23
#define CMD_ENCODED_WRITE 25

#define ATTR_SIZE     4
#define ATTR_PATH     15
#define ATTR_OFFSET   18
#define ATTR_DATA     19
#define ATTR_CLONE    24
#define ATTR_FILE_LEN 27

struct seen {
	uint64_t offset[8], length[8];
	size_t n;
	int fail_with;
};

static int see(void *arg, uint64_t offset, uint64_t length, struct cairn_err *err)
{
	struct seen *seen = arg;

	if (seen->fail_with)
		return cairn_err_set(err, seen->fail_with, "refused");
	assert_true(seen->n < ARRAY_LEN(seen->offset));
	seen->offset[seen->n] = offset;
	seen->length[seen->n++] = length;
	return 0;
}

static void add_le(struct cairn_buf *buf, uint64_t value, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		cairn_buf_addc(buf, (char)(value >> 8 * i));
}

static void header(struct cairn_buf *buf, uint32_t version)
{
	cairn_buf_add(buf, "btrfs-stream", 13);
	add_le(buf, version, 4);
}

static void attr(struct cairn_buf *buf, unsigned type, const void *data, size_t n)
{
	add_le(buf, type, 2);
	add_le(buf, n, 2);
	cairn_buf_add(buf, data, n);
}

static void attr_u64(struct cairn_buf *buf, unsigned type, uint64_t value)
{
	add_le(buf, type, 2);
	add_le(buf, 8, 2);
	add_le(buf, value, 8);
}

static void command(struct cairn_buf *buf, unsigned number, const struct cairn_buf *attrs)
{
	size_t at = buf->len, n = attrs ? attrs->len : 0;
	uint32_t crc;

	add_le(buf, n, 4);
	add_le(buf, number, 2);
	add_le(buf, 0, 4);
	if (n > 0)
		cairn_buf_add(buf, attrs->data, n);
	assert_false(cairn_buf_failed(buf));
	crc = btrfs_crc32c_raw(0, buf->data + at, buf->len - at);
	for (unsigned i = 0; i < 4; i++)
		buf->data[at + 6 + i] = (uint8_t)(crc >> 8 * i);
}

static void change(struct cairn_buf *buf, unsigned number, const char *path, uint64_t offset,
		   unsigned length_attr, uint64_t length)
{
	cairn_auto_buf struct cairn_buf attrs = CAIRN_BUF_INIT(4096);

	attr(&attrs, ATTR_PATH, path, strlen(path));
	attr_u64(&attrs, ATTR_OFFSET, offset);
	attr_u64(&attrs, length_attr, length);
	command(buf, number, &attrs);
}

/* Feeds all of it in pieces of `piece` bytes. */
static int feed(const struct cairn_buf *buf, size_t piece, struct seen *seen, bool *ret_ended,
		struct cairn_err *err)
{
	cairn_cleanup(btrfs_stream_freep) struct stream *stream = NULL;
	struct stream_sink sink = {.range = see, .arg = seen};
	int rc = 0;

	assert_ok(btrfs_stream_new("disk", sink, &stream, err), err);
	for (size_t at = 0; at < buf->len && rc == 0; at += piece)
		rc = btrfs_stream_feed(stream, buf->data + at,
				       buf->len - at < piece ? buf->len - at : piece, err);
	*ret_ended = btrfs_stream_ended(stream);
	return rc;
}

static void changes_of_the_file_are_told(void **state)
{
	static const size_t pieces[] = {1, 2, 7, 64, 4096};
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(65536);

	(void)state;
	header(&buf, 1);
	change(&buf, CMD_UPDATE_EXTENT, "disk", 4096, ATTR_SIZE, 8192);
	change(&buf, CMD_UPDATE_EXTENT, "other", 0, ATTR_SIZE, 4096);
	change(&buf, CMD_CLONE, "disk", 1 << 20, ATTR_CLONE, 65536);
	change(&buf, CMD_UTIMES, "disk", 0, ATTR_SIZE, 1);
	change(&buf, CMD_TRUNCATE, "disk", 0, ATTR_SIZE, 1);
	change(&buf, CMD_FALLOCATE, "disk", 2 << 20, ATTR_SIZE, 512);
	change(&buf, CMD_ENCODED_WRITE, "disk", 3 << 20, ATTR_FILE_LEN, 1024);
	command(&buf, CMD_END, NULL);
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		struct cairn_err err = {0};
		struct seen seen = {0};
		bool ended;

		assert_ok(feed(&buf, pieces[i], &seen, &ended, &err), &err);
		assert_true(ended);
		assert_int_equal(seen.n, 4);
		assert_int_equal(seen.offset[0], 4096);
		assert_int_equal(seen.length[0], 8192);
		assert_int_equal(seen.offset[1], 1 << 20);
		assert_int_equal(seen.length[1], 65536);
		assert_int_equal(seen.length[2], 512);
		assert_int_equal(seen.length[3], 1024);
	}
}

static void written_data_counts_by_its_length(void **state)
{
	for (uint32_t version = 1; version <= 2; version++) {
		cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(65536);
		cairn_auto_buf struct cairn_buf attrs = CAIRN_BUF_INIT(65536);
		static const char data[3000];
		struct cairn_err err = {0};
		struct seen seen = {0};
		bool ended;

		(void)state;
		header(&buf, version);
		attr(&attrs, ATTR_PATH, "disk", 4);
		attr_u64(&attrs, ATTR_OFFSET, 12288);
		if (version == 1) {
			attr(&attrs, ATTR_DATA, data, sizeof(data));
		} else {
			add_le(&attrs, ATTR_DATA, 2);
			cairn_buf_add(&attrs, data, sizeof(data));
		}
		command(&buf, CMD_WRITE, &attrs);
		assert_ok(feed(&buf, 100, &seen, &ended, &err), &err);
		assert_false(ended);
		assert_int_equal(seen.n, 1);
		assert_int_equal(seen.offset[0], 12288);
		assert_int_equal(seen.length[0], sizeof(data));
	}
}

static void names_and_unknown_commands_are_not_guessed_at(void **state)
{
	static const unsigned numbers[] = {0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 26, 27, 65535};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(65536);
		struct cairn_err err = {0};
		struct seen seen = {0};
		bool ended;

		header(&buf, 1);
		change(&buf, numbers[i], "disk", 0, ATTR_SIZE, 1);
		assert_code(feed(&buf, 4096, &seen, &ended, &err), CAIRN_UNIMPLEMENTED);
	}
	for (uint32_t version = 0; version < 9; version += 3) {
		cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(65536);
		struct seen seen = {0};
		bool ended;

		header(&buf, version);
		assert_code(feed(&buf, 4096, &seen, &ended, NULL), CAIRN_UNIMPLEMENTED);
	}
}

static void every_flipped_bit_is_noticed(void **state)
{
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(65536);

	(void)state;
	header(&buf, 1);
	change(&buf, CMD_UPDATE_EXTENT, "disk", 4096, ATTR_SIZE, 8192);
	command(&buf, CMD_END, NULL);
	for (size_t bit = 0; bit < buf.len * 8; bit++) {
		struct seen seen = {0};
		bool ended = false;
		int rc;

		buf.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		rc = feed(&buf, 4096, &seen, &ended, NULL);
		buf.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		/* One bit of the version makes it 3, another one 0. */
		assert_true(rc < 0 || !ended);
	}
}

static void bad_commands_are_refused(void **state)
{
	static const struct {
		const char *path;
		uint64_t offset, length;
		unsigned length_attr;
	} cases[] = {
		{"disk", UINT64_MAX, 2, ATTR_SIZE},
		{"disk", 1, UINT64_MAX, ATTR_SIZE},
		{"disk", 0, 4096, ATTR_CLONE},
	};
	cairn_auto_buf struct cairn_buf attrs = CAIRN_BUF_INIT(65536);
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(1 << 20);
	struct seen seen = {0};
	bool ended;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cairn_buf_reset(&buf);
		header(&buf, 1);
		change(&buf, CMD_UPDATE_EXTENT, cases[i].path, cases[i].offset,
		       cases[i].length_attr, cases[i].length);
		assert_code(feed(&buf, 4096, &seen, &ended, NULL), CAIRN_DATA_LOSS);
	}
	cairn_buf_reset(&buf);
	header(&buf, 1);
	attr(&attrs, ATTR_SIZE, "12345678", 8);
	command(&buf, CMD_UPDATE_EXTENT, &attrs); /* no path */
	assert_code(feed(&buf, 4096, &seen, &ended, NULL), CAIRN_DATA_LOSS);
	cairn_buf_reset(&buf);
	header(&buf, 1);
	add_le(&buf, STREAM_COMMAND_MAX + 1, 4);
	add_le(&buf, CMD_END, 2);
	add_le(&buf, 0, 4);
	assert_code(feed(&buf, 4096, &seen, &ended, NULL), CAIRN_DATA_LOSS);
	cairn_buf_reset(&buf);
	cairn_buf_adds(&buf, "something else entirely");
	assert_code(feed(&buf, 4096, &seen, &ended, NULL), CAIRN_DATA_LOSS);
	assert_int_equal(seen.n, 0);
}

static void nothing_follows_the_end(void **state)
{
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(65536);
	struct seen seen = {0};
	bool ended;

	(void)state;
	header(&buf, 1);
	command(&buf, CMD_END, NULL);
	command(&buf, CMD_END, NULL);
	assert_code(feed(&buf, 4096, &seen, &ended, NULL), CAIRN_DATA_LOSS);
}

static void an_error_of_the_sink_is_passed_on(void **state)
{
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(65536);
	struct seen seen = {.fail_with = CAIRN_NO_SPACE};
	bool ended;

	(void)state;
	header(&buf, 1);
	change(&buf, CMD_UPDATE_EXTENT, "disk", 0, ATTR_SIZE, 1);
	assert_code(feed(&buf, 4096, &seen, &ended, NULL), CAIRN_NO_SPACE);
}

static void the_checksum_is_the_known_one(void **state)
{
	/* CRC-32C of "123456789" is e3069283 with the usual inversions. */
	(void)state;
	assert_int_equal(~btrfs_crc32c_raw(0xffffffff, "123456789", 9), 0xe3069283);
	assert_int_equal(btrfs_crc32c_raw(0, "", 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changes_of_the_file_are_told),
		cmocka_unit_test(written_data_counts_by_its_length),
		cmocka_unit_test(names_and_unknown_commands_are_not_guessed_at),
		cmocka_unit_test(every_flipped_bit_is_noticed),
		cmocka_unit_test(bad_commands_are_refused),
		cmocka_unit_test(nothing_follows_the_end),
		cmocka_unit_test(an_error_of_the_sink_is_passed_on),
		cmocka_unit_test(the_checksum_is_the_known_one),
	};

	return cmocka_run_group_tests_name("pool/btrfs/stream", tests, NULL, NULL);
}
