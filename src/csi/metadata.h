/* SPDX-License-Identifier: Apache-2.0 */

/* Streams block metadata, for every flavour of the request. */
#ifndef CAIRN_CSI_METADATA_H
#define CAIRN_CSI_METADATA_H

#include <stdint.h>

struct cairn_err;
struct csi_driver;
struct net_call;

/* The values of the block metadata type in the response. */
enum csi_metadata_flavour {
	CSI_METADATA_SHIPPED, /* csi.v1: FIXED_LENGTH 1, VARIABLE_LENGTH 2 */
	CSI_METADATA_SESSION, /* snapshot_session.proto: 0 and 1 */
};

struct csi_metadata_query {
	enum csi_metadata_flavour flavour;
	const char *volume; /* volume of both snapshots; NULL: not checked */
	const char *base;   /* NULL: report allocated blocks */
	const char *target;
	uint64_t starting_offset;
	uint32_t max_results; /* 0: a default number */
};

/* Answers the call.
 *
 * CAIRN_NOT_FOUND  no such snapshot, or not of that volume
 * and the codes of pool_delta_open() and call.h
 */
int csi_metadata_stream(struct net_call *call, struct csi_driver *driver,
			const struct csi_metadata_query *query, struct cairn_err *err);

#endif
