/* SPDX-License-Identifier: Apache-2.0 */

/* Calls to a CSI driver, as load and benchmarks make them: no retries, every
 * failure is returned as the driver's own code. Any thread may call. */
#ifndef CAIRN_TESTS_CSI_CLIENT_H
#define CAIRN_TESTS_CSI_CLIENT_H

#include <stddef.h>
#include <stdint.h>

struct block_sink;
struct cairn_err;
struct net_channel;

#define CSI_CLIENT_ID_SIZE 129 /* the longest id that CSI allows, and its NUL */

struct csi_client {
	struct net_channel *channel;
	uint64_t timeout_ms; /* of each call */
};

/* `client` is then freed with net_channel_free(client->channel). */
int csi_client_init(struct csi_client *client, const char *socket_path, uint64_t timeout_ms,
		    struct cairn_err *err);

/* A volume for block access. */
int csi_client_create_volume(const struct csi_client *client, const char *name, uint64_t size,
			     char ret_id[CSI_CLIENT_ID_SIZE], struct cairn_err *err);
int csi_client_delete_volume(const struct csi_client *client, const char *id,
			     struct cairn_err *err);
int csi_client_create_snapshot(const struct csi_client *client, const char *volume_id,
			       const char *name, char ret_id[CSI_CLIENT_ID_SIZE],
			       struct cairn_err *err);
int csi_client_delete_snapshot(const struct csi_client *client, const char *id,
			       struct cairn_err *err);

/* How many volumes and snapshots the driver lists. */
int csi_client_count(const struct csi_client *client, size_t *ret_volumes, size_t *ret_snapshots,
		     struct cairn_err *err);

struct csi_stream {
	uint64_t first_ns; /* from the start to the first message; 0: there was none */
	uint64_t wall_ns;
	uint64_t messages, tuples, bytes, capacity;
};

/* GetMetadataDelta, or without a base GetMetadataAllocated, to its end. Each
 * message is checked by the rules and its ranges go to `sink` (NULL: nowhere). */
int csi_client_stream(const struct csi_client *client, const char *base, const char *target,
		      const struct block_sink *sink, struct csi_stream *ret, struct cairn_err *err);

#endif
