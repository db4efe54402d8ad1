/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/device/mountinfo.h"

#include <string.h>

#include "base/num.h"

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* The kernel writes space, tab, newline, '#' and backslash as \ooo. Other
 * sequences with a backslash are left unchanged. */
static void decode_escapes(char *text)
{
	char *out = text;

	for (const char *in = text; *in;) {
		if (in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && is_octal(in[2]) &&
		    is_octal(in[3]) && (in[1] | in[2] | in[3]) != '0') {
			*out++ = (char)((in[1] - '0') << 6 | (in[2] - '0') << 3 | (in[3] - '0'));
			in += 4;
		} else {
			*out++ = *in++;
		}
	}
	*out = '\0';
}

/* Splits off the next field; NULL when the line has no more. */
static char *take_field(char **line)
{
	char *field = *line;
	char *space;

	if (!field || !*field)
		return NULL;
	space = strchr(field, ' ');
	if (space)
		*space++ = '\0';
	*line = space;
	return field;
}

static bool parse_device(char *text, uint32_t *ret_major, uint32_t *ret_minor)
{
	char *colon = strchr(text, ':');
	uint64_t major;
	uint64_t minor;

	if (!colon)
		return false;
	*colon = '\0';
	if (cairn_parse_u64(text, &major, NULL) < 0 || cairn_parse_u64(colon + 1, &minor, NULL) < 0)
		return false;
	if (major > UINT32_MAX || minor > UINT32_MAX)
		return false;
	*ret_major = (uint32_t)major;
	*ret_minor = (uint32_t)minor;
	return true;
}

static bool parse_numbers(char **line, struct mountinfo_entry *entry)
{
	char *id = take_field(line);
	char *parent = take_field(line);
	char *device = take_field(line);

	return id && parent && device && cairn_parse_u64(id, &entry->id, NULL) == 0 &&
	       cairn_parse_u64(parent, &entry->parent_id, NULL) == 0 &&
	       parse_device(device, &entry->major, &entry->minor);
}

/* "ro,noatime": the kernel writes "ro" or "rw" first. */
static bool says_read_only(const char *options)
{
	return strcmp(options, "ro") == 0 || strncmp(options, "ro,", 3) == 0;
}

/* The options that ext4 shows after errors, and that any filesystem has which the
 * kernel made read-only. */
static bool says_stopped(const char *options, bool mount_is_read_only)
{
	static const char *const words[] = {"emergency_ro", "shutdown"};

	if (!options)
		return false;
	if (!mount_is_read_only && says_read_only(options))
		return true;
	while (*options) {
		size_t n = strcspn(options, ",");

		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if (n == strlen(words[i]) && strncmp(options, words[i], n) == 0)
				return true;
		options += n + (options[n] == ',');
	}
	return false;
}

/* 36 35 98:0 /root /mount/point options tag:value... - type source superoptions */
static bool parse_line(char *line, struct mountinfo_entry *entry)
{
	char *root;
	char *mount_point;
	char *options;
	char *fs_type;
	char *source;
	char *tag;

	if (!parse_numbers(&line, entry))
		return false;
	root = take_field(&line);
	mount_point = take_field(&line);
	options = take_field(&line);
	if (!root || !mount_point || !options)
		return false;
	do
		tag = take_field(&line);
	while (tag && strcmp(tag, "-") != 0);
	fs_type = take_field(&line);
	source = take_field(&line);
	if (!tag || !fs_type || !source)
		return false;
	/* Only the source may be empty: mount(2) accepts any text for it. */
	if (!*root || !*mount_point || !*fs_type)
		return false;
	decode_escapes(root);
	decode_escapes(mount_point);
	decode_escapes(fs_type);
	decode_escapes(source);
	entry->root = root;
	entry->mount_point = mount_point;
	entry->read_only = says_read_only(options);
	entry->stopped = says_stopped(take_field(&line), entry->read_only);
	entry->fs_type = fs_type;
	entry->source = source;
	return true;
}

bool pool_mountinfo_next(char **cursor, struct mountinfo_entry *ret)
{
	while (**cursor) {
		struct mountinfo_entry entry;
		char *line = *cursor;
		char *end = strchr(line, '\n');

		if (end)
			*end = '\0';
		*cursor = end ? end + 1 : line + strlen(line);
		if (parse_line(line, &entry)) {
			*ret = entry;
			return true;
		}
	}
	return false;
}
