/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/tree.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/blob.h"
#include "repo/index.h"
#include "repo/instant.h"
#include "repo/node_name.h"
#include "repo/packer.h"
#include "repo/repo_digest.h"
#include "repo/repo_impl.h"
#include "repo/repo_json.h"

#define TEXT_AT_A_TIME 65536

#define GO_DIR     (1U << 31)
#define GO_SYMLINK (1U << 27)
#define GO_SETUID  (1U << 23)
#define GO_SETGID  (1U << 22)
#define GO_STICKY  (1U << 20)

/* A tree is mostly hex digits of hashes: higher levels take five times as long and do not
 * make it smaller. */
#define TREE_LEVEL 1

/* Text is collected in small pieces, which are hashed and compressed; only the compressed
 * form is kept, with space for the seal before it. */
struct repo_tree_writer {
	struct repo *repo;
	EVP_MD_CTX *hash;
	ZSTD_CCtx *compress;
	struct cairn_buf text;
	struct cairn_buf out;
	uint64_t plain; /* bytes of text so far */
	char last[REPO_NAME_MAX + 1];
	struct repo_node like;      /* the last node, */
	struct cairn_buf like_text; /* and its text between name and content */
	bool any;                   /* at least one node was written */
	bool in_file;               /* between begin and end */
	bool any_id;
	bool done;
	uint64_t want, have; /* size of the file, and of its content so far */
};

/* ---- text ------------------------------------------------------------------ */

static int tree_write_pump(struct repo_tree_writer *writer, ZSTD_EndDirective end,
			   struct cairn_err *err)
{
	ZSTD_inBuffer in = {.src = writer->text.data, .size = writer->text.len};
	size_t left;

	if (cairn_buf_failed(&writer->text))
		return cairn_err_nomem(err, "a tree");
	if (EVP_DigestUpdate(writer->hash, in.src, in.size) != 1)
		return cairn_err_nomem(err, "a hash");
	writer->plain += in.size;
	if (writer->plain > REPO_BLOB_MAX)
		return cairn_err_set(err, CAIRN_NO_SPACE, "a tree of more than %zu bytes",
				     REPO_BLOB_MAX);
	do {
		ZSTD_outBuffer to = {.size = TEXT_AT_A_TIME};

		to.dst = cairn_buf_reserve(&writer->out, to.size);
		if (!to.dst)
			return cairn_err_nomem(err, "a tree");
		left = ZSTD_compressStream2(writer->compress, &to, &in, end);
		if (ZSTD_isError(left))
			return cairn_err_set(err, CAIRN_INTERNAL, "compression: %s",
					     ZSTD_getErrorName(left));
		writer->out.len += to.pos;
	} while (in.pos < in.size || (end == ZSTD_e_end && left != 0));
	cairn_buf_reset(&writer->text);
	return 0;
}

static int pump_some(struct repo_tree_writer *writer, struct cairn_err *err)
{
	if (cairn_buf_failed(&writer->text))
		return cairn_err_nomem(err, "a tree");
	return writer->text.len < TEXT_AT_A_TIME ? 0
						 : tree_write_pump(writer, ZSTD_e_continue, err);
}

/* ---- making ---------------------------------------------------------------- */

void repo_tree_writer_free(struct repo_tree_writer *writer)
{
	if (!writer)
		return;
	EVP_MD_CTX_free(writer->hash);
	/* Keep the context: making one takes longer than writing a small tree. */
	if (writer->compress)
		ZSTD_freeCCtx(atomic_exchange(&writer->repo->tree_context, writer->compress));
	cairn_buf_done(&writer->text);
	cairn_buf_done(&writer->out);
	cairn_buf_done(&writer->like_text);
	free(writer);
}

int repo_tree_writer_new(struct repo *repo, struct repo_tree_writer **ret, struct cairn_err *err)
{
	cairn_cleanup(repo_tree_writer_freep) struct repo_tree_writer *writer =
		cairn_calloc(1, sizeof(*writer));
	int rc = repo_may_write(repo, err);

	if (rc < 0)
		return rc;
	if (!writer)
		return cairn_err_nomem(err, "a tree");
	writer->repo = repo;
	cairn_buf_init(&writer->text, (size_t)1 << 20);
	cairn_buf_init(&writer->out, REPO_BLOB_MAX);
	cairn_buf_init(&writer->like_text, (size_t)1 << 20);
	writer->hash = EVP_MD_CTX_new();
	writer->compress = atomic_exchange(&repo->tree_context, NULL);
	if (writer->compress)
		(void)ZSTD_CCtx_reset(writer->compress, ZSTD_reset_session_and_parameters);
	else
		writer->compress = ZSTD_createCCtx();
	if (!writer->hash || !writer->compress || !repo_sha256() ||
	    EVP_DigestInit_ex(writer->hash, repo_sha256(), NULL) != 1 ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(writer->compress, ZSTD_c_compressionLevel,
						TREE_LEVEL)) ||
	    !cairn_buf_reserve(&writer->out, REPO_IV_SIZE))
		return cairn_err_nomem(err, "a tree");
	writer->out.len = REPO_IV_SIZE;
	cairn_buf_adds(&writer->text, "{\"nodes\":[");
	*ret = cairn_take(writer);
	return 0;
}

/* ---- nodes ----------------------------------------------------------------- */

static uint32_t go_mode(const struct repo_node *node)
{
	uint32_t mode = node->mode & 0777;

	mode |= node->type == REPO_NODE_DIR ? GO_DIR : 0;
	mode |= node->type == REPO_NODE_SYMLINK ? GO_SYMLINK : 0;
	mode |= node->mode & 04000 ? GO_SETUID : 0;
	mode |= node->mode & 02000 ? GO_SETGID : 0;
	mode |= node->mode & 01000 ? GO_STICKY : 0;
	return mode;
}

static void add_time(struct cairn_buf *out, const char *name, int64_t ns)
{
	char text[REPO_INSTANT_TEXT_MAX];

	cairn_buf_addf(out, ",\"%s\":\"%s\"", name, repo_instant_format(ns, text));
}

static void tree_write_add_string(struct cairn_buf *out, const char *name, const char *value)
{
	if (!value || !*value)
		return;
	cairn_buf_addf(out, ",\"%s\":", name);
	repo_json_string(out, value);
}

static void tree_write_add_number(struct cairn_buf *out, const char *name, uint64_t value)
{
	if (value)
		cairn_buf_addf(out, ",\"%s\":%" PRIu64, name, value);
}

/* True for names of letters and digits, which need no quoting. */
static bool tree_write_is_plain(const char *name)
{
	while ((*name >= '0' && *name <= '9') || (*name >= 'a' && *name <= 'z'))
		name++;
	return !*name;
}

static int tree_write_add_name(struct cairn_buf *out, const char *name, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf quoted = CAIRN_BUF_INIT(16 * REPO_NAME_MAX);
	cairn_auto_free char *text = NULL;

	if (tree_write_is_plain(name)) {
		cairn_buf_addc(out, '"');
		cairn_buf_adds(out, name);
		cairn_buf_addc(out, '"');
		return 0;
	}
	repo_name_quote(&quoted, name);
	text = cairn_buf_take_string(&quoted);
	if (!text)
		return cairn_err_nomem(err, "a name");
	repo_json_string(out, text);
	return 0;
}

/* Writes the fields between name and content in restic's order; zero fields are left out. */
static void tree_write_add_fields(struct cairn_buf *out, const struct repo_node *node)
{
	static const char *const types[] = {"file", "dir", "symlink"};

	cairn_buf_addf(out, ",\"type\":\"%s\"", types[node->type]);
	tree_write_add_number(out, "mode", go_mode(node));
	add_time(out, "mtime", node->mtime_ns);
	add_time(out, "atime", node->atime_ns);
	add_time(out, "ctime", node->ctime_ns);
	cairn_buf_addf(out, ",\"uid\":%u,\"gid\":%u", node->uid, node->gid);
	tree_write_add_string(out, "user", node->user);
	tree_write_add_string(out, "group", node->group);
	tree_write_add_number(out, "inode", node->inode);
	tree_write_add_number(out, "device_id", node->device_id);
	if (node->type == REPO_NODE_FILE)
		tree_write_add_number(out, "size", node->size);
	tree_write_add_number(out, "links", node->links);
	if (node->type == REPO_NODE_SYMLINK)
		tree_write_add_string(out, "linktarget", node->link_target);
}

/* True if the nodes differ in nothing but name and subtree. */
static bool is_alike(const struct repo_node *a, const struct repo_node *b)
{
	return a->type == b->type && a->mode == b->mode && a->mtime_ns == b->mtime_ns &&
	       a->atime_ns == b->atime_ns && a->ctime_ns == b->ctime_ns && a->uid == b->uid &&
	       a->gid == b->gid && a->inode == b->inode && a->device_id == b->device_id &&
	       a->size == b->size && a->links == b->links && !a->user && !b->user && !a->group &&
	       !b->group && !a->link_target && !b->link_target;
}

/* Writes all fields before the content. Reuses the text of the last node where only
 * the name differs, because a directory of segments has a hundred thousand such nodes
 * for 1 TiB. */
static int tree_write_add_node(struct repo_tree_writer *writer, const struct repo_node *node,
			       struct cairn_err *err)
{
	struct cairn_buf *out = &writer->text, *fields = &writer->like_text;
	int rc;

	cairn_buf_adds(out, "{\"name\":");
	rc = tree_write_add_name(out, node->name, err);
	if (!writer->any || !is_alike(&writer->like, node)) {
		cairn_buf_reset(fields);
		tree_write_add_fields(fields, node);
		writer->like = *node;
	}
	if (rc == 0 && cairn_buf_failed(fields))
		return cairn_err_nomem(err, "a tree");
	cairn_buf_add(out, fields->data, fields->len);
	return rc;
}

static int begin_node(struct repo_tree_writer *writer, const struct repo_node *node,
		      struct cairn_err *err)
{
	size_t n = strlen(node->name);
	int rc;

	if (writer->done || writer->in_file)
		return cairn_err_set(err, CAIRN_INTERNAL, "a node inside of another");
	if (n > REPO_NAME_MAX || !repo_name_valid(node->name, n))
		return cairn_err_set(err, CAIRN_INVALID, "'%s' cannot be a name in a tree",
				     node->name);
	if (writer->any && strcmp(writer->last, node->name) >= 0)
		return cairn_err_set(err, CAIRN_INVALID, "'%s' comes before '%s'", node->name,
				     writer->last);
	if (writer->any)
		cairn_buf_addc(&writer->text, ',');
	rc = tree_write_add_node(writer, node, err);
	if (rc < 0)
		return rc;
	memcpy(writer->last, node->name, n + 1);
	writer->any = true;
	return 0;
}

int repo_tree_writer_add(struct repo_tree_writer *writer, const struct repo_node *node,
			 struct cairn_err *err)
{
	char hex[REPO_ID_TEXT_MAX];

	if (node->type == REPO_NODE_DIR &&
	    !repo_blob_has(writer->repo, REPO_BLOB_TREE, &node->subtree))
		return cairn_err_set(err, CAIRN_NOT_FOUND, "tree %s is not in the repository",
				     repo_id_format(&node->subtree, hex));
	return repo_tree_writer_add_known(writer, node, err);
}

int repo_tree_writer_add_known(struct repo_tree_writer *writer, const struct repo_node *node,
			       struct cairn_err *err)
{
	char hex[REPO_ID_TEXT_MAX];
	int rc;

	if (node->type != REPO_NODE_DIR && node->type != REPO_NODE_SYMLINK)
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is neither a directory nor a link",
				     node->name);
	rc = begin_node(writer, node, err);
	if (rc < 0)
		return rc;
	cairn_buf_adds(&writer->text, ",\"content\":null");
	if (node->type == REPO_NODE_DIR) {
		cairn_buf_adds(&writer->text, ",\"subtree\":\"");
		cairn_buf_adds(&writer->text, repo_id_format(&node->subtree, hex));
		cairn_buf_addc(&writer->text, '"');
	}
	cairn_buf_addc(&writer->text, '}');
	return pump_some(writer, err);
}

int repo_tree_writer_file_begin(struct repo_tree_writer *writer, const struct repo_node *node,
				struct cairn_err *err)
{
	int rc;

	if (node->type != REPO_NODE_FILE)
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is not a file", node->name);
	rc = begin_node(writer, node, err);
	if (rc < 0)
		return rc;
	cairn_buf_adds(&writer->text, ",\"content\":[");
	writer->in_file = true;
	writer->any_id = false;
	writer->want = node->size;
	writer->have = 0;
	return pump_some(writer, err);
}

int repo_tree_writer_content_known(struct repo_tree_writer *writer, const struct repo_id *id,
				   uint64_t size, struct cairn_err *err)
{
	char text[REPO_ID_TEXT_MAX + 3];

	if (!writer->in_file)
		return cairn_err_set(err, CAIRN_INTERNAL, "content outside of a file");
	if (__builtin_add_overflow(writer->have, size, &writer->have))
		return cairn_err_set(err, CAIRN_RANGE, "content of '%s' is too long", writer->last);
	text[0] = ',';
	text[1] = '"';
	repo_id_format(id, text + 2);
	text[2 + REPO_ID_TEXT_LEN] = '"';
	cairn_buf_add(&writer->text, writer->any_id ? text : text + 1,
		      REPO_ID_TEXT_LEN + (writer->any_id ? 3 : 2));
	writer->any_id = true;
	return pump_some(writer, err);
}

int repo_tree_writer_content(struct repo_tree_writer *writer, const struct repo_id *ids, size_t n,
			     struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		uint64_t size = 0;

		rc = repo_blob_size(writer->repo, REPO_BLOB_DATA, &ids[i], &size, err);
		if (rc == 0)
			rc = repo_tree_writer_content_known(writer, &ids[i], size, err);
	}
	return rc;
}

int repo_tree_writer_file_end(struct repo_tree_writer *writer, struct cairn_err *err)
{
	if (!writer->in_file)
		return cairn_err_set(err, CAIRN_INTERNAL, "the end of no file");
	if (writer->have != writer->want)
		return cairn_err_set(err, CAIRN_INVALID,
				     "'%s' has %" PRIu64 " bytes, its content %" PRIu64,
				     writer->last, writer->want, writer->have);
	writer->in_file = false;
	cairn_buf_adds(&writer->text, "]}");
	return pump_some(writer, err);
}

/* ---- storing --------------------------------------------------------------- */

static int tree_write_seal(struct repo_tree_writer *writer, struct cairn_err *err)
{
	struct cairn_buf *out = &writer->out;
	struct repo_codec *codec;
	int rc;

	if (!cairn_buf_reserve(out, REPO_MAC_SIZE))
		return cairn_err_nomem(err, "a tree");
	rc = repo_codec_get(&writer->repo->codecs, &codec, err);
	if (rc < 0)
		return rc;
	rc = repo_crypt_seal(repo_codec_crypt(codec), out->data + REPO_IV_SIZE,
			     out->len - REPO_IV_SIZE, out->data, err);
	repo_codec_put(&writer->repo->codecs, codec);
	out->len += REPO_MAC_SIZE;
	return rc;
}

static int tree_write_store(struct repo_tree_writer *writer, const struct repo_id *id,
			    struct cairn_err *err)
{
	struct repo *repo = writer->repo;
	struct repo_sealed sealed = {.id = *id};
	bool known;
	int rc = repo_index_reserve(repo->index, REPO_BLOB_TREE, id, &sealed.entry, &known, err);

	if (rc < 0 || known) {
		repo->blobs_known += known;
		return rc;
	}
	rc = tree_write_seal(writer, err);
	sealed.n = writer->out.len;
	sealed.plain = (uint32_t)writer->plain;
	if (rc == 0)
		rc = repo_packer_append(repo->packer, REPO_BLOB_TREE, &sealed, 1, writer->out.data,
					err);
	if (rc < 0)
		return repo_fail(repo, err);
	repo->blobs_new++;
	repo->bytes_new += writer->plain;
	return 0;
}

int repo_tree_writer_finish(struct repo_tree_writer *writer, struct repo_id *ret_id,
			    struct cairn_err *err)
{
	struct cairn_err why = {0};
	struct repo_id id;
	int rc;

	if (writer->done || writer->in_file)
		return cairn_err_set(err, CAIRN_INTERNAL, "the tree is not complete");
	writer->done = true;
	cairn_buf_adds(&writer->text, "]}\n");
	rc = tree_write_pump(writer, ZSTD_e_end, &why);
	if (rc == 0 && EVP_DigestFinal_ex(writer->hash, id.bytes, NULL) != 1)
		rc = cairn_err_nomem(&why, "a hash");
	if (rc == 0)
		rc = tree_write_store(writer, &id, &why);
	if (rc < 0)
		return cairn_err_set(err, rc, "%s", why.msg);
	*ret_id = id;
	return 0;
}
