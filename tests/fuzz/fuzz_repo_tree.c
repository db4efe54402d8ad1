/* SPDX-License-Identifier: Apache-2.0 */

/* Trees: names are names, content belongs to files, everything is read twice the
 * same. */
#include <stdlib.h>
#include <string.h>

#include "repo/node_name.h"
#include "repo/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	uint64_t nodes, ids, sum;
	int in_file;
};

static void must(int condition)
{
	if (!condition)
		abort();
}

static int node(void *arg, const struct repo_node *node, struct cairn_err *err)
{
	struct seen *seen = arg;

	(void)err;
	must(repo_name_valid(node->name, strlen(node->name)));
	must((node->mode & ~07777U) == 0);
	must(node->type != REPO_NODE_DIR || !repo_id_is_zero(&node->subtree));
	seen->nodes++;
	seen->sum = seen->sum * 31 + strlen(node->name) + node->size + node->uid + node->inode +
		    (node->user ? strlen(node->user) : 0) +
		    (node->link_target ? strlen(node->link_target) : 0);
	seen->in_file = node->type == REPO_NODE_FILE;
	return 0;
}

static int content(void *arg, const struct repo_id *ids, size_t n, struct cairn_err *err)
{
	struct seen *seen = arg;

	(void)err;
	must(seen->in_file && n > 0);
	seen->ids += n;
	seen->sum = seen->sum * 31 + ids[n - 1].bytes[7];
	return 0;
}

static int node_end(void *arg, const struct repo_node *node, struct cairn_err *err)
{
	struct seen *seen = arg;

	(void)err;
	seen->sum += strlen(node->name);
	seen->in_file = 0;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen a = {0}, b = {0};
	struct repo_tree_visitor visitor = {
		.node = node, .content = content, .node_end = node_end, .arg = &a};
	int rc = repo_tree_parse((const char *)data, size, &visitor, NULL);

	visitor.arg = &b;
	must(repo_tree_parse((const char *)data, size, &visitor, NULL) == rc);
	must(a.nodes == b.nodes && a.ids == b.ids && a.sum == b.sum);
	return 0;
}
