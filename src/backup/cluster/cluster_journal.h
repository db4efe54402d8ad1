/* SPDX-License-Identifier: Apache-2.0 */

/* What a run of a backup leaves for people and for monitoring: Events on the claim and on a
 * snapshot that stays, and the record on the claim (cluster_record.h).
 *
 * Nothing of it fails the run. What is refused is said once.
 */
#ifndef CAIRN_BACKUP_CLUSTER_JOURNAL_H
#define CAIRN_BACKUP_CLUSTER_JOURNAL_H

#include <jansson.h>
#include <stdint.h>

struct cairn_err;
struct cluster_run;
struct kube_recorder;

/* Zeroed before the begin. */
struct cluster_journal {
	struct cluster_run *run;
	struct kube_recorder *recorder; /* NULL: no Events */
	uint64_t begun_ns;
};

/* Of a run that is connected. */
void backup_cluster_journal_begin(struct cluster_journal *journal, struct cluster_run *run);

/* The backup of `object`, the claim or a snapshot that stays, has started. */
void backup_cluster_journal_started(struct cluster_journal *journal, const json_t *object);

/* The backup is made; `snapshot` (or NULL) stays, and `summary` is what the Job said, or NULL. */
void backup_cluster_journal_finished(struct cluster_journal *journal, const json_t *claim,
				     const json_t *snapshot, const json_t *summary);

/* The run failed with `why`; `snapshot` (or NULL) stays. */
void backup_cluster_journal_failed(struct cluster_journal *journal, const json_t *claim,
				   const json_t *snapshot, const struct cairn_err *why);

/* Writes what waits, and frees; the run is still connected. */
void backup_cluster_journal_done(struct cluster_journal *journal);

#endif
