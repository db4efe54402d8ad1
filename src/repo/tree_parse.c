/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/tree.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "repo/instant.h"
#include "repo/node_name.h"
#include "repo/scan.h"

#define IDS_AT_A_TIME 512

/* Go's mode bits besides the permissions. */
#define GO_SETUID (1U << 23)
#define GO_SETGID (1U << 22)
#define GO_STICKY (1U << 20)

/* A node being parsed. Strings are collected in `text`. While it grows they are stored as
 * offsets + 1; pointers are set at the end. */
struct parsing {
	const char *json;
	struct repo_node node;
	struct cairn_buf text;
	size_t name, user, group, link_target;
	struct repo_scan content; /* the position before the list */
	bool has_content;
};

static int no_tree(const struct parsing *parsing, const struct repo_scan *scan,
		   struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_DATA_LOSS, "not a tree, at byte %zu",
			     (size_t)(scan->at - parsing->json));
}

/* Appends a string and a NUL. Returns its offset + 1, or 0 if the string is invalid. */
static size_t keep_string(struct parsing *parsing, struct repo_scan *scan, bool quoted)
{
	cairn_auto_buf struct cairn_buf plain = CAIRN_BUF_INIT(8 * REPO_NAME_MAX);
	struct repo_scan_text text;
	size_t at = parsing->text.len;
	bool fine;

	repo_scan_string(scan, &text);
	if (scan->failed)
		return 0;
	fine = repo_scan_unescape(&text, &plain);
	if (fine && quoted)
		fine = repo_name_unquote(&parsing->text, (const char *)plain.data, plain.len);
	else if (fine)
		cairn_buf_add(&parsing->text, plain.data, plain.len);
	fine = fine && !memchr(parsing->text.data ? (char *)parsing->text.data + at : "", 0,
			       parsing->text.len - at);
	cairn_buf_addc(&parsing->text, 0);
	return fine && !cairn_buf_failed(&parsing->text) ? at + 1 : 0;
}

static enum repo_node_type type_of(const struct repo_scan_text *text)
{
	return repo_scan_is(text, "file")      ? REPO_NODE_FILE
	       : repo_scan_is(text, "dir")     ? REPO_NODE_DIR
	       : repo_scan_is(text, "symlink") ? REPO_NODE_SYMLINK
					       : REPO_NODE_OTHER;
}

static bool scan_time(struct repo_scan *scan, int64_t *ret)
{
	struct repo_scan_text text;

	repo_scan_string(scan, &text);
	return !scan->failed && repo_instant_parse(text.at, text.n, ret);
}

static uint32_t tree_parse_permissions(uint64_t mode)
{
	return (uint32_t)(mode & 0777) | (mode & GO_SETUID ? 04000U : 0) |
	       (mode & GO_SETGID ? 02000U : 0) | (mode & GO_STICKY ? 01000U : 0);
}

static bool tree_parse_scan_u32(struct repo_scan *scan, uint32_t *ret)
{
	uint64_t value = repo_scan_u64(scan);

	*ret = (uint32_t)value;
	return !scan->failed && value <= UINT32_MAX;
}

/* Parses the member if it is a number or a time; *ret_known says whether it was. */
static bool scan_plain(struct repo_node *node, const struct repo_scan_text *key,
		       struct repo_scan *scan, bool *ret_known)
{
	*ret_known = true;
	if (repo_scan_is(key, "mode"))
		return node->mode = tree_parse_permissions(repo_scan_u64(scan)), !scan->failed;
	if (repo_scan_is(key, "mtime"))
		return scan_time(scan, &node->mtime_ns);
	if (repo_scan_is(key, "atime"))
		return scan_time(scan, &node->atime_ns);
	if (repo_scan_is(key, "ctime"))
		return scan_time(scan, &node->ctime_ns);
	if (repo_scan_is(key, "uid"))
		return tree_parse_scan_u32(scan, &node->uid);
	if (repo_scan_is(key, "gid"))
		return tree_parse_scan_u32(scan, &node->gid);
	if (repo_scan_is(key, "inode"))
		return node->inode = repo_scan_u64(scan), !scan->failed;
	if (repo_scan_is(key, "device_id"))
		return node->device_id = repo_scan_u64(scan), !scan->failed;
	if (repo_scan_is(key, "size"))
		return node->size = repo_scan_u64(scan), !scan->failed;
	if (repo_scan_is(key, "links"))
		return node->links = repo_scan_u64(scan), !scan->failed;
	*ret_known = false;
	return true;
}

static bool scan_member(struct parsing *parsing, const struct repo_scan_text *key,
			struct repo_scan *scan)
{
	struct repo_scan_text text;
	bool known, fine = scan_plain(&parsing->node, key, scan, &known);

	if (known)
		return fine;
	if (repo_scan_is(key, "name"))
		return (parsing->name = keep_string(parsing, scan, true)) != 0;
	if (repo_scan_is(key, "user"))
		return (parsing->user = keep_string(parsing, scan, false)) != 0;
	if (repo_scan_is(key, "group"))
		return (parsing->group = keep_string(parsing, scan, false)) != 0;
	if (repo_scan_is(key, "linktarget"))
		return (parsing->link_target = keep_string(parsing, scan, false)) != 0;
	if (repo_scan_is(key, "type")) {
		repo_scan_string(scan, &text);
		parsing->node.type = type_of(&text);
		return !scan->failed;
	}
	if (repo_scan_is(key, "subtree") && !repo_scan_null(scan)) {
		repo_scan_string(scan, &text);
		return !scan->failed && repo_id_parse(text.at, text.n, &parsing->node.subtree);
	}
	if (repo_scan_is(key, "content") && !repo_scan_null(scan)) {
		parsing->content = *scan;
		parsing->has_content = true;
		repo_scan_skip(scan);
	} else if (!repo_scan_is(key, "content") && !repo_scan_is(key, "subtree")) {
		repo_scan_skip(scan);
	}
	return !scan->failed;
}

static const char *string_at(const struct parsing *parsing, size_t offset)
{
	return offset ? (const char *)parsing->text.data + offset - 1 : NULL;
}

static int scan_content(struct parsing *parsing, const struct repo_tree_visitor *visitor,
			struct cairn_err *err)
{
	struct repo_id ids[IDS_AT_A_TIME];
	struct repo_scan *scan = &parsing->content;
	size_t n = 0;
	int rc = 0;

	repo_scan_array(scan);
	while (rc == 0 && repo_scan_element(scan)) {
		struct repo_scan_text text;

		repo_scan_string(scan, &text);
		if (scan->failed || !repo_id_parse(text.at, text.n, &ids[n]))
			return no_tree(parsing, scan, err);
		if (++n == IDS_AT_A_TIME) {
			rc = visitor->content(visitor->arg, ids, n, err);
			n = 0;
		}
	}
	if (rc == 0 && scan->failed)
		return no_tree(parsing, scan, err);
	return rc == 0 && n > 0 ? visitor->content(visitor->arg, ids, n, err) : rc;
}

static int tree_parse_tell(struct parsing *parsing, const struct repo_tree_visitor *visitor,
			   struct cairn_err *err)
{
	struct repo_node *node = &parsing->node;
	int rc = 0;

	node->name = string_at(parsing, parsing->name);
	node->user = string_at(parsing, parsing->user);
	node->group = string_at(parsing, parsing->group);
	node->link_target = string_at(parsing, parsing->link_target);
	if (visitor->node)
		rc = visitor->node(visitor->arg, node, err);
	if (rc == 0 && node->type == REPO_NODE_FILE && parsing->has_content && visitor->content)
		rc = scan_content(parsing, visitor, err);
	if (rc == 0 && visitor->node_end)
		rc = visitor->node_end(visitor->arg, node, err);
	return rc;
}

static bool is_sound(const struct parsing *parsing)
{
	const char *name = string_at(parsing, parsing->name);

	if (!name || !repo_name_valid(name, strlen(name)))
		return false;
	return parsing->node.type != REPO_NODE_DIR || !repo_id_is_zero(&parsing->node.subtree);
}

static int parse_node(struct parsing *parsing, struct repo_scan *scan,
		      const struct repo_tree_visitor *visitor, struct cairn_err *err)
{
	struct repo_scan_text key;
	bool fine = true;

	parsing->node = (struct repo_node){.type = REPO_NODE_OTHER};
	parsing->name = parsing->user = parsing->group = parsing->link_target = 0;
	parsing->has_content = false;
	cairn_buf_reset(&parsing->text);
	repo_scan_object(scan);
	while (fine && repo_scan_member(scan, &key))
		fine = scan_member(parsing, &key, scan);
	if (!fine || scan->failed || !is_sound(parsing))
		return no_tree(parsing, scan, err);
	return tree_parse_tell(parsing, visitor, err);
}

int repo_tree_parse(const char *json, size_t n, const struct repo_tree_visitor *visitor,
		    struct cairn_err *err)
{
	struct parsing parsing = {.json = json, .text = CAIRN_BUF_INIT(64 * REPO_NAME_MAX)};
	struct repo_scan_text key;
	struct repo_scan scan;
	bool has_nodes = false;
	int rc = 0;

	repo_scan_init(&scan, json, n);
	repo_scan_object(&scan);
	while (rc == 0 && repo_scan_member(&scan, &key)) {
		if (!repo_scan_is(&key, "nodes")) {
			repo_scan_skip(&scan);
			continue;
		}
		has_nodes = true;
		if (repo_scan_null(&scan))
			continue;
		repo_scan_array(&scan);
		while (rc == 0 && repo_scan_element(&scan))
			rc = parse_node(&parsing, &scan, visitor, err);
	}
	if (rc == 0 && (!has_nodes || !repo_scan_end(&scan)))
		rc = no_tree(&parsing, &scan, err);
	cairn_buf_done(&parsing.text);
	return rc;
}
