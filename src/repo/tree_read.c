/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "repo/blob.h"

int repo_tree_read(struct repo *repo, const struct repo_id *tree,
		   const struct repo_tree_visitor *visitor, struct cairn_err *err)
{
	cairn_auto_free uint8_t *json = NULL;
	struct cairn_err why = {0};
	char hex[REPO_ID_TEXT_MAX];
	size_t n;
	int rc = repo_blob_get(repo, REPO_BLOB_TREE, tree, &json, &n, &why);

	if (rc == 0)
		rc = repo_tree_parse((const char *)json, n, visitor, &why);
	if (rc == CAIRN_NOT_FOUND) /* the tree, or a blob that it refers to */
		rc = CAIRN_DATA_LOSS;
	if (rc < 0)
		return cairn_err_set(err, rc, "tree %s: %s", repo_id_format(tree, hex), why.msg);
	return rc;
}

/* ---- finding --------------------------------------------------------------- */

struct finding {
	const char *name;
	size_t name_len;
	struct repo_found_node *found;
};

static char *tree_read_append(char **at, const char *text)
{
	size_t n = text ? strlen(text) + 1 : 0;
	char *start = *at;

	if (!text)
		return NULL;
	memcpy(start, text, n);
	*at += n;
	return start;
}

static size_t tree_read_room(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static int tree_read_keep(struct repo_found_node *found, const struct repo_node *node,
			  struct cairn_err *err)
{
	char *at;

	free(found->names);
	found->node = *node;
	found->names = at =
		cairn_alloc(tree_read_room(node->name) + tree_read_room(node->user) +
			    tree_read_room(node->group) + tree_read_room(node->link_target));
	if (!at)
		return cairn_err_nomem(err, "a node");
	found->node.name = tree_read_append(&at, node->name);
	found->node.user = tree_read_append(&at, node->user);
	found->node.group = tree_read_append(&at, node->group);
	found->node.link_target = tree_read_append(&at, node->link_target);
	return 0;
}

static int tree_read_compare(void *arg, const struct repo_node *node, struct cairn_err *err)
{
	struct finding *finding = arg;
	int rc;

	if (strlen(node->name) != finding->name_len ||
	    memcmp(node->name, finding->name, finding->name_len) != 0)
		return 0;
	rc = tree_read_keep(finding->found, node, err);
	return rc < 0 ? rc : 1;
}

void repo_found_node_done(struct repo_found_node *found)
{
	free(found->names);
	*found = (struct repo_found_node){0};
}

int repo_tree_find(struct repo *repo, const struct repo_id *root, const char *path,
		   struct repo_found_node *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_found_node_done) struct repo_found_node found = {.tree = *root};
	const char *rest = path + strspn(path, "/");
	bool any = false;

	while (*rest) {
		struct finding finding = {
			.name = rest, .name_len = strcspn(rest, "/"), .found = &found};
		const struct repo_tree_visitor visitor = {.node = tree_read_compare,
							  .arg = &finding};
		int rc;

		if (any && found.node.type != REPO_NODE_DIR)
			break;
		if (any)
			found.tree = found.node.subtree;
		rc = repo_tree_read(repo, &found.tree, &visitor, err);
		if (rc < 0)
			return rc;
		any = rc > 0;
		if (!any)
			break;
		rest += finding.name_len;
		rest += strspn(rest, "/");
	}
	if (!any || *rest)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no '%s' in this snapshot",
				     path);
	*ret = found;
	found.names = NULL;
	return 0;
}

/* ---- the content of one file ------------------------------------------------ */

struct reading {
	const char *name;
	bool inside, seen;
	int (*content)(void *arg, const struct repo_id *ids, size_t n, struct cairn_err *err);
	void *arg;
};

static int tree_read_enter(void *arg, const struct repo_node *node, struct cairn_err *err)
{
	struct reading *reading = arg;

	(void)err;
	reading->inside = node->type == REPO_NODE_FILE && strcmp(node->name, reading->name) == 0;
	reading->seen = reading->seen || reading->inside;
	return 0;
}

static int pass_on(void *arg, const struct repo_id *ids, size_t n, struct cairn_err *err)
{
	struct reading *reading = arg;

	return reading->inside ? reading->content(reading->arg, ids, n, err) : 0;
}

static int tree_read_leave(void *arg, const struct repo_node *node, struct cairn_err *err)
{
	struct reading *reading = arg;

	(void)node;
	(void)err;
	return reading->inside; /* no other node is of interest */
}

int repo_tree_read_content(struct repo *repo, const struct repo_id *tree, const char *name,
			   int (*content)(void *arg, const struct repo_id *ids, size_t n,
					  struct cairn_err *err),
			   void *arg, struct cairn_err *err)
{
	struct reading reading = {.name = name, .content = content, .arg = arg};
	const struct repo_tree_visitor visitor = {.node = tree_read_enter,
						  .content = pass_on,
						  .node_end = tree_read_leave,
						  .arg = &reading};
	int rc = repo_tree_read(repo, tree, &visitor, err);

	if (rc < 0)
		return rc;
	if (!reading.seen)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no file '%s' in this tree",
				     name);
	return 0;
}
