/* SPDX-License-Identifier: Apache-2.0 */

/* Metrics of a backup for a Prometheus push gateway. */
#ifndef CAIRN_BACKUP_PUSH_H
#define CAIRN_BACKUP_PUSH_H

#include <stdint.h>

struct backup_result;
struct backup_source;
struct cairn_err;

#define PUSH_TIMEOUT_MS 10000L /* an unresponsive gateway must not delay the backup */

/* Replaces the metrics of the volume's group at the gateway (a base URL).
 *
 * CAIRN_UNAVAILABLE  the gateway cannot be reached, or rejected the metrics
 */
int backup_push_metrics(const char *gateway, const struct backup_source *source,
			const struct backup_result *result, uint64_t elapsed_ns,
			struct cairn_err *err);

/* Says that the last attempt failed; what the gateway knows of the last success stays. Codes
 * as above. */
int backup_push_failure(const char *gateway, const char *volume, struct cairn_err *err);

#endif
