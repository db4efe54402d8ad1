/* SPDX-License-Identifier: Apache-2.0 */

/* Client of the local CSI driver for DifferentialSnapshots. Calls block; thread-safe. */
#ifndef CAIRN_DIFFSNAP_DRIVER_H
#define CAIRN_DIFFSNAP_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "csi_differential.pb-c.h"
#include "older/data/data_block.h"

struct cairn_err;
struct diffsnap_driver;
struct diffsnap_resource_spec;

/* Does not connect yet. `socket` is "unix:///path" or "unix:/path". */
int diffsnap_driver_new(const char *socket, uint64_t timeout_ms, struct diffsnap_driver **ret,
			struct cairn_err *err);
void diffsnap_driver_free(struct diffsnap_driver *driver); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct diffsnap_driver, diffsnap_driver_free);

/* Returns the driver's name; retries until it answers or the timeout is over. The name is
 * cached and borrowed. */
int diffsnap_driver_name(struct diffsnap_driver *driver, const char **ret, struct cairn_err *err);

/* Checks for the capability DIFFERENTIAL_SNAPSHOT_SERVICE. */
int diffsnap_driver_supports(struct diffsnap_driver *driver, bool *ret, struct cairn_err *err);

/* A page from `start` ("" is the beginning) of at most `max` entries. Data tokens are bound
 * to `holder`, the text of data_holder.h ("": to none). The caller
 * frees it with proto_message_free(&page->base). Codes are the driver's.
 *
 * CAIRN_INTERNAL  an invalid answer: blocks out of order or without a size
 */
int diffsnap_driver_page(struct diffsnap_driver *driver,
			 const struct diffsnap_resource_spec *resource, const char *start,
			 uint64_t max, const char *holder,
			 Csi__V1__DifferentialSnapshotResponse **ret, struct cairn_err *err);

/* Reads the data of a block, as data_block_get(). */
int diffsnap_driver_block(struct diffsnap_driver *driver, const char *token, const char *holder,
			  data_piece_fn piece, void *arg, struct cairn_err *err);

#endif
