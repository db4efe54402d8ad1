/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/yaml.h"

#include <string.h>
#include <yaml.h>

#include "base/err.h"
#include "kube/object.h"

struct conversion {
	yaml_document_t *document;
	size_t nodes;
};

static int yaml_convert(struct conversion *in, int index, unsigned depth, json_t **ret,
			struct cairn_err *err);

static bool yaml_is_plain(const yaml_node_t *node, const char *text)
{
	return node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       node->data.scalar.length == strlen(text) &&
	       memcmp(node->data.scalar.value, text, strlen(text)) == 0;
}

static json_t *yaml_scalar(const yaml_node_t *node)
{
	if (yaml_is_plain(node, "") || yaml_is_plain(node, "~") || yaml_is_plain(node, "null"))
		return json_null();
	if (yaml_is_plain(node, "true") || yaml_is_plain(node, "True"))
		return json_true();
	if (yaml_is_plain(node, "false") || yaml_is_plain(node, "False"))
		return json_false();
	return json_stringn((const char *)node->data.scalar.value, node->data.scalar.length);
}

static int yaml_sequence(struct conversion *in, const yaml_node_t *node, unsigned depth,
			 json_t *array, struct cairn_err *err)
{
	const yaml_node_item_t *item = node->data.sequence.items.start;

	for (; item < node->data.sequence.items.top; item++) {
		json_t *value = NULL;
		int rc = yaml_convert(in, *item, depth + 1, &value, err);

		if (rc)
			return rc;
		if (json_array_append_new(array, value) < 0)
			return cairn_err_nomem(err, "YAML list");
	}
	return 0;
}

static int yaml_mapping(struct conversion *in, const yaml_node_t *node, unsigned depth,
			json_t *object, struct cairn_err *err)
{
	const yaml_node_pair_t *pair = node->data.mapping.pairs.start;

	for (; pair < node->data.mapping.pairs.top; pair++) {
		const yaml_node_t *key = yaml_document_get_node(in->document, pair->key);
		json_t *value = NULL;
		int rc;

		if (!key || key->type != YAML_SCALAR_NODE ||
		    strlen((const char *)key->data.scalar.value) != key->data.scalar.length)
			return cairn_err_set(err, CAIRN_INVALID, "line %zu: a key is not text",
					     node->start_mark.line + 1);
		rc = yaml_convert(in, pair->value, depth + 1, &value, err);
		if (rc)
			return rc;
		if (json_object_set_new(object, (const char *)key->data.scalar.value, value) < 0)
			return cairn_err_nomem(err, "YAML mapping");
	}
	return 0;
}

static int yaml_convert(struct conversion *in, int index, unsigned depth, json_t **ret,
			struct cairn_err *err)
{
	const yaml_node_t *node = yaml_document_get_node(in->document, index);
	kube_auto_json json_t *made = NULL;
	int rc = 0;

	if (!node || depth > KUBE_YAML_DEPTH_MAX || ++in->nodes > KUBE_YAML_NODES_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "nested too deep or too large");
	if (node->type == YAML_SEQUENCE_NODE)
		made = json_array();
	else if (node->type == YAML_MAPPING_NODE)
		made = json_object();
	else
		made = yaml_scalar(node);
	if (!made)
		return cairn_err_nomem(err, "YAML value");
	if (node->type == YAML_SEQUENCE_NODE)
		rc = yaml_sequence(in, node, depth, made, err);
	else if (node->type == YAML_MAPPING_NODE)
		rc = yaml_mapping(in, node, depth, made, err);
	if (!rc)
		*ret = cairn_take(made);
	return rc;
}

static int convert_document(yaml_document_t *document, json_t **ret, struct cairn_err *err)
{
	struct conversion in = {.document = document};

	if (!yaml_document_get_root_node(document)) {
		*ret = json_null();
		return 0;
	}
	return yaml_convert(&in, 1, 0, ret, err);
}

int kube_yaml_parse(const char *text, size_t n, json_t **ret, struct cairn_err *err)
{
	yaml_document_t document;
	yaml_parser_t parser;
	int rc;

	if (!yaml_parser_initialize(&parser))
		return cairn_err_nomem(err, "YAML parser");
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
	if (yaml_parser_load(&parser, &document)) {
		rc = convert_document(&document, ret, err);
		yaml_document_delete(&document);
	} else if (parser.error == YAML_MEMORY_ERROR) {
		rc = cairn_err_nomem(err, "YAML document");
	} else {
		rc = cairn_err_set(err, CAIRN_INVALID, "line %zu: %s", parser.problem_mark.line + 1,
				   parser.problem ? parser.problem : "no YAML");
	}
	yaml_parser_delete(&parser);
	return rc;
}
