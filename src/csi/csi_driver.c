/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/csi_driver.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "csi/service.h"
#include "net/grpc/call.h"
#include "pool/catalogue/ids.h"
#include "proto/message.h"

#define NAME_MAX_BYTES  63 /* CSI's limit on a driver's name */
#define LABEL_MAX_BYTES 63 /* Kubernetes' limit on a label value */

/* Timeout for a volume's lock, which only our own cleanup and other programs can hold
 * (turn.h). The cleanup commits while it holds the lock: after a driver with a thousand
 * callers was killed this takes seconds, and is not a conflict on the volume. */
#define LOCK_WAIT_MS 3000

/* Letters at both ends, and letters, digits, dots, dashes and underscores. */
static int csi_driver_check_name(const char *name, struct cairn_err *err)
{
	size_t n = strlen(name);
	bool good = n >= 2 && n <= NAME_MAX_BYTES && isalpha((unsigned char)name[0]) &&
		    isalpha((unsigned char)name[n - 1]);

	for (size_t i = 0; i < n; i++)
		good = good && (isalnum((unsigned char)name[i]) || strchr(".-_", name[i]));
	if (!good)
		return cairn_err_set(err, CAIRN_INVALID,
				     "'%s' is not a driver name: 2 to %d letters, digits, dots and "
				     "dashes, with letters at both ends",
				     name, NAME_MAX_BYTES);
	return 0;
}

/* Checks CSI's limit, and that of a label value if the id becomes one. */
static int check_node_id(const char *id, bool topology, struct cairn_err *err)
{
	size_t n = id ? strlen(id) : 0;
	bool label = n > 0 && n <= LABEL_MAX_BYTES && isalnum((unsigned char)id[0]) &&
		     isalnum((unsigned char)id[n - 1]);

	if (n == 0)
		return csi_require(id, "the node id", err);
	if (n > CSI_NODE_ID_MAX || !cairn_text_printable(id, n))
		return cairn_err_set(err, CAIRN_INVALID,
				     "the node id must have at most %u bytes, and no control "
				     "characters",
				     CSI_NODE_ID_MAX);
	for (size_t i = 0; i < n; i++)
		label = label && (isalnum((unsigned char)id[i]) || strchr(".-_", id[i]));
	if (topology && !label)
		return cairn_err_set(
			err, CAIRN_INVALID,
			"node id '%.64s' is not a valid label value, as topology requires: 1 to "
			"%d letters, digits, dots and dashes",
			id, LABEL_MAX_BYTES);
	return 0;
}

static bool is_same_directory(const char *a, const char *b)
{
	struct stat sa;
	struct stat sb;

	return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
	       sa.st_ino == sb.st_ino;
}

/* Names and directories must differ: otherwise a pool's volumes would be listed twice. */
static int check_differ(const struct csi_pool_spec *a, const struct csi_pool_spec *b,
			struct cairn_err *err)
{
	if (strcmp(a->name, b->name) == 0)
		return cairn_err_set(err, CAIRN_INVALID, "two pools are called '%s'", a->name);
	if (is_same_directory(a->dir, b->dir))
		return cairn_err_set(err, CAIRN_INVALID, "pools '%s' and '%s' are the same one",
				     b->name, a->name);
	return 0;
}

static int open_pools(struct csi_driver *driver, const struct csi_options *options,
		      struct cairn_err *err)
{
	if (options->n_pools == 0 || options->n_pools > CSI_POOLS_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "a driver serves 1 to %u pools, not %zu",
				     CSI_POOLS_MAX, options->n_pools);
	driver->pools = cairn_calloc(options->n_pools, sizeof(*driver->pools));
	if (!driver->pools)
		return cairn_err_nomem(err, "driver");
	for (size_t i = 0; i < options->n_pools; i++) {
		/* The completer cleans up after a killed driver, in the background. */
		struct pool_open_spec spec = {.dir = options->pools[i].dir,
					      .settle_later = true,
					      .lock_wait_ms = LOCK_WAIT_MS};
		int rc = 0;

		for (size_t j = 0; j < i && !rc; j++)
			rc = check_differ(&options->pools[i], &options->pools[j], err);
		if (rc)
			return rc;
		driver->pools[i].name = cairn_strdup(options->pools[i].name);
		if (!driver->pools[i].name)
			return cairn_err_nomem(err, "driver");
		driver->n_pools++;
		rc = pool_open(&spec, &driver->pools[i].pool, err);
		if (rc)
			return rc;
	}
	return 0;
}

/* Options of the older flavours: block size, token lifetime and token key. */
static int set_up_older(struct csi_driver *driver, const struct csi_options *options,
			struct cairn_err *err)
{
	uint64_t block = options->delta_block ? options->delta_block : CSI_DELTA_BLOCK_DEFAULT;
	uint64_t ttl = options->token_ttl_s ? options->token_ttl_s : CSI_TOKEN_TTL_DEFAULT_S;

	if (block % POOL_SECTOR != 0 || block > CSI_DELTA_BLOCK_MAX)
		return cairn_err_set(err, CAIRN_INVALID,
				     "blocks of deltas must be a multiple of %u and at most %u "
				     "bytes",
				     POOL_SECTOR, CSI_DELTA_BLOCK_MAX);
	if (ttl > CSI_TOKEN_TTL_MAX_S)
		return cairn_err_set(err, CAIRN_INVALID, "data tokens live %u seconds at most",
				     CSI_TOKEN_TTL_MAX_S);
	driver->older = options->older;
	driver->delta_block = block;
	driver->compare_max = options->compare_max;
	driver->token_ttl_s = (uint32_t)ttl;
	if ((driver->older & (CSI_OLDER_DIFFERENTIAL | CSI_OLDER_DELTAS)) == 0)
		return 0;
	return csi_token_key_load(driver->pools[0].pool, &driver->token_key, err);
}

int csi_driver_new(const struct csi_options *options, struct csi_driver **ret,
		   struct cairn_err *err)
{
	const char *name = options->name ? options->name : CSI_NAME_DEFAULT;
	cairn_cleanup(csi_driver_freep) struct csi_driver *driver =
		cairn_calloc(1, sizeof(*driver));
	int rc;

	if (!driver)
		return cairn_err_nomem(err, "driver");
	csi_turns_init(&driver->turns);
	rc = csi_driver_check_name(name, err);
	if (!rc)
		rc = check_node_id(options->node_id, options->topology, err);
	if (!rc && options->volumes_max > INT64_MAX)
		rc = cairn_err_set(err, CAIRN_INVALID, "the limit of volumes is too large");
	if (!rc && options->fixed_length % POOL_SECTOR != 0)
		rc = cairn_err_set(err, CAIRN_INVALID,
				   "blocks of fixed length must be a multiple of %u bytes",
				   POOL_SECTOR);
	if (rc)
		return rc;
	driver->name = cairn_strdup(name);
	driver->version = cairn_strdup(options->version);
	driver->node_id = cairn_strdup(options->node_id);
	driver->topology_key = options->topology ? cairn_printf("topology.%s/node", name) : NULL;
	driver->fixed_length = options->fixed_length;
	driver->volumes_max = options->volumes_max;
	driver->node_expansion = options->node_expansion;
	if (!driver->name || !driver->version || !driver->node_id ||
	    (options->topology && !driver->topology_key))
		return cairn_err_nomem(err, "driver");
	rc = open_pools(driver, options, err);
	if (!rc)
		rc = set_up_older(driver, options, err);
	if (!rc)
		rc = csi_changeset_worker_new(&driver->completer, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < driver->n_pools; i++)
		csi_changeset_worker_add(driver->completer, driver->pools[i].pool, NULL);
	*ret = cairn_take(driver);
	return 0;
}

void csi_driver_free(struct csi_driver *driver)
{
	csi_changeset_worker_freep(&driver->completer);
	for (size_t i = 0; i < driver->n_pools; i++) {
		pool_closep(&driver->pools[i].pool);
		free(driver->pools[i].name);
	}
	csi_turns_done(&driver->turns);
	free(driver->pools);
	free(driver->bindings);
	free(driver->topology_key);
	free(driver->node_id);
	free(driver->version);
	free(driver->name);
	free(driver);
}

bool csi_driver_wants_reopening(const struct csi_driver *driver)
{
	for (size_t i = 0; i < driver->n_pools; i++)
		if (pool_wants_reopening(driver->pools[i].pool))
			return true;
	return false;
}

int csi_require(const char *value, const char *what, struct cairn_err *err)
{
	if (!value || !value[0])
		return cairn_err_set(err, CAIRN_INVALID, "%s is missing", what);
	return 0;
}

int csi_require_path(const char *value, const char *what, struct cairn_err *err)
{
	int rc = csi_require(value, what, err);

	if (!rc && (value[0] != '/' || strlen(value) >= PATH_MAX))
		rc = cairn_err_set(err, CAIRN_INVALID, "%s is not an absolute path, or too long",
				   what);
	return rc;
}

int csi_request_recv(struct net_call *call, const ProtobufCMessageDescriptor *type,
		     ProtobufCMessage **ret, struct cairn_err *err)
{
	const uint8_t *data;
	size_t len;
	int rc = net_call_recv(call, &data, &len, err);

	if (rc == 0)
		return cairn_err_set(err, CAIRN_INVALID, "the request has no message");
	return rc < 0 ? rc : proto_unpack(type, data, len, ret, err);
}

int csi_reply(struct cairn_buf *reply, const ProtobufCMessage *message, struct cairn_err *err)
{
	proto_pack(message, reply);
	if (cairn_buf_failed(reply))
		return cairn_err_set(err, CAIRN_NO_SPACE, "the reply is too large");
	return 0;
}

static int run_unary(struct net_call *call, void *arg, struct cairn_err *err)
{
	const struct csi_unary_binding *binding = arg;
	proto_auto_message ProtobufCMessage *request = NULL;
	cairn_auto_buf struct cairn_buf reply = CAIRN_BUF_INIT(CSI_REPLY_MAX);
	int rc = csi_request_recv(call, binding->method->request, &request, err);

	if (!rc)
		rc = binding->method->run(binding->driver, request, &reply, err);
	return rc ? rc : net_call_send(call, reply.data, reply.len, err);
}

static int bind_all(struct csi_driver *driver, struct net_server *server,
		    const struct csi_unary *methods, size_t n, struct cairn_err *err)
{
	for (size_t i = 0; i < n; i++) {
		struct csi_unary_binding *binding = &driver->bindings[driver->n_bindings++];
		struct net_method method = {
			.path = methods[i].path,
			.kind = NET_UNARY,
			.handler = run_unary,
			.arg = binding,
			.request_max = CSI_REQUEST_MAX,
		};
		int rc;

		*binding = (struct csi_unary_binding){.driver = driver, .method = &methods[i]};
		rc = net_server_add(server, &method, 1, err);
		if (rc)
			return rc;
	}
	return 0;
}

static int add_handlers(struct csi_driver *driver, struct net_server *server, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < csi_handlers_n && !rc; i++) {
		struct net_method method = {
			.path = csi_handlers[i].path,
			.kind = csi_handlers[i].kind,
			.handler = csi_handlers[i].handler,
			.arg = driver,
			.request_max = CSI_REQUEST_MAX,
		};

		if (csi_handler_is_on(driver, &csi_handlers[i]))
			rc = net_server_add(server, &method, 1, err);
	}
	return rc;
}

int csi_driver_serve(struct csi_driver *driver, struct net_server *server, struct cairn_err *err)
{
	size_t n = csi_identity_n + csi_controller_n + csi_node_n + csi_group_n;
	int rc;

	driver->bindings = cairn_calloc(n, sizeof(*driver->bindings));
	if (!driver->bindings)
		return cairn_err_nomem(err, "driver");
	rc = bind_all(driver, server, csi_identity_methods, csi_identity_n, err);
	if (!rc)
		rc = bind_all(driver, server, csi_controller_methods, csi_controller_n, err);
	if (!rc)
		rc = bind_all(driver, server, csi_node_methods, csi_node_n, err);
	if (!rc)
		rc = bind_all(driver, server, csi_group_methods, csi_group_n, err);
	return rc ? rc : add_handlers(driver, server, err);
}

int csi_find_volume(struct csi_driver *driver, const char *id, struct pool **ret_pool,
		    struct pool_volume *ret, struct cairn_err *err)
{
	uint64_t bits;
	int rc = csi_require(id, "the volume id", err);

	if (rc)
		return rc;
	for (size_t i = 0; pool_ids_parse_volume(id, &bits) && i < driver->n_pools; i++) {
		rc = pool_volume_get(driver->pools[i].pool, id, ret, err);
		if (rc == 0 && !ret->deleted) {
			*ret_pool = driver->pools[i].pool;
			return 0;
		}
		if (rc && rc != CAIRN_NOT_FOUND)
			return rc;
	}
	return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no volume '%s'", id);
}

int csi_take_volume(struct csi_driver *driver, const char *id, struct csi_op_lock *turn,
		    struct pool **ret_pool, struct pool_volume *ret, struct cairn_err *err)
{
	int rc = csi_require(id, "the volume id", err);

	if (!rc)
		rc = csi_op_lock_take(&driver->turns, id, turn, err);
	return rc ? rc : csi_find_volume(driver, id, ret_pool, ret, err);
}

int csi_find_base(struct csi_driver *driver, const char *id, struct pool **ret_pool,
		  struct pool_snapshot *ret, struct cairn_err *err)
{
	uint64_t bits;
	uint64_t number;
	int worst = CAIRN_NOT_FOUND;
	int rc = csi_require(id, "the snapshot id", err);

	if (rc)
		return rc;
	for (size_t i = 0; pool_ids_parse_snapshot(id, &bits, &number) && i < driver->n_pools;
	     i++) {
		struct cairn_err why = {0};

		rc = pool_snapshot_get(driver->pools[i].pool, id, ret, &why);
		if (rc == 0) {
			*ret_pool = driver->pools[i].pool;
			return 0;
		}
		/* That it has expired in one pool, a copy for example, means nothing if another
		 * pool cannot be read. */
		if (rc != CAIRN_NOT_FOUND &&
		    (worst == CAIRN_NOT_FOUND || worst == CAIRN_PRECONDITION)) {
			worst = rc;
			if (err)
				*err = why;
		}
	}
	if (worst != CAIRN_NOT_FOUND)
		return worst;
	return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no snapshot '%s'", id);
}

int csi_find_snapshot(struct csi_driver *driver, const char *id, struct pool **ret_pool,
		      struct pool_snapshot *ret, struct cairn_err *err)
{
	int rc = csi_find_base(driver, id, ret_pool, ret, err);

	if (rc == CAIRN_PRECONDITION || (rc == 0 && ret->deleted))
		return cairn_err_set(err, CAIRN_NOT_FOUND, "snapshot '%s' was deleted", id);
	return rc;
}
