/* SPDX-License-Identifier: Apache-2.0 */

/* Metrics of the backups of claims, from the records that `cairn backup create` leaves on them
 * (backup/cluster/cluster_record.h). Names are those that a push gateway would get. */
#ifndef CAIRN_INVENTORY_BACKUP_METRICS_H
#define CAIRN_INVENTORY_BACKUP_METRICS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct cairn_buf;
struct cairn_err;
struct inventory_backup_metrics;
struct kube_client;

/* Limits of the records that are shown: the size of their text, and how many of one claim. */
#define INVENTORY_BACKUP_TEXT_MAX         (15U << 20) /* less than NET_METRICS_TEXT_MAX */
#define INVENTORY_BACKUP_RECORDS_OF_CLAIM 4U

/* Watches the claims of the namespace, or all if it is NULL. The client is borrowed. */
int inventory_backup_metrics_new(struct kube_client *client, const char *ns,
				 struct inventory_backup_metrics **ret, struct cairn_err *err);
void inventory_backup_metrics_free(struct inventory_backup_metrics *metrics); /* or NULL */

/* True once all claims were read. */
bool inventory_backup_metrics_ready(const struct inventory_backup_metrics *metrics);

/* Appends the metrics in Prometheus' text format. */
void inventory_backup_metrics_write(const struct inventory_backup_metrics *metrics,
				    struct cairn_buf *buf);

/* The same for these claims. `current`: they are what the API server has. Pure. */
void inventory_backup_metrics_text(json_t *const *claims, size_t n, bool current,
				   struct cairn_buf *buf);

/* Leaves of a claim only its name and its records. */
void inventory_backup_metrics_trim(json_t *claim);

#endif
