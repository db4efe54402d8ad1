/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/cluster/cluster_schedule.h"

#include <stdlib.h>
#include <string.h>

#include "backup/cluster/cluster_objects.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/object.h"

void backup_cluster_schedule_done(struct cluster_schedule *schedule)
{
	for (size_t i = 0; i < schedule->n; i++) {
		free(schedule->targets[i].claim);
		free(schedule->targets[i].volume);
	}
	for (size_t i = 0; i < schedule->n_nodes; i++)
		free(schedule->nodes[i].name);
	free(schedule->targets);
	free(schedule->nodes);
	*schedule = (struct cluster_schedule){0};
}

/* --- filling --- */

/* Made by `cairn backup` for itself: from the snapshot of another claim, or not restored yet. */
static bool is_of_a_run(const json_t *claim)
{
	const char *role = kube_label(claim, CLUSTER_LABEL_ROLE);

	return kube_label(claim, CLUSTER_LABEL_RUN) &&
	       (cairn_text_same(role, CLUSTER_ROLE_CREATE) ||
		cairn_text_same(role, CLUSTER_ROLE_RESTORE));
}

static int add_target(struct cluster_schedule *schedule, const json_t *claim,
		      const char *repository, struct cairn_err *err)
{
	const char *volume = kube_str(claim, "spec", "volumeName");
	struct cluster_target *target = &schedule->targets[schedule->n];

	*target = (struct cluster_target){.node = CLUSTER_SCHEDULE_NONE};
	target->claim = cairn_strdup(kube_name(claim));
	target->volume = volume && *volume ? cairn_strdup(volume) : NULL;
	schedule->n++;
	if (!target->claim || (volume && *volume && !target->volume))
		return cairn_err_nomem(err, "list of claims");
	if (kube_is_deleted(claim))
		target->skipped = "it is being deleted";
	else if (!target->volume)
		target->skipped = "it has no volume yet";
	else if (cairn_text_same(target->claim, repository))
		target->skipped = "it holds the repository";
	if (target->skipped)
		target->state = CLUSTER_TARGET_SKIPPED;
	return 0;
}

int backup_cluster_schedule_fill(struct cluster_schedule *schedule, const json_t *claims,
				 const char *repository, struct cairn_err *err)
{
	const json_t *items = kube_at(claims, "items");
	size_t room = json_array_size(items) + 1;
	int rc = 0;
	size_t i;
	json_t *item;

	schedule->targets = cairn_calloc(room, sizeof(*schedule->targets));
	schedule->nodes = cairn_calloc(room, sizeof(*schedule->nodes));
	if (!schedule->targets || !schedule->nodes)
		return cairn_err_nomem(err, "list of claims");
	json_array_foreach(items, i, item)
	{
		if (!rc && !is_of_a_run(item))
			rc = add_target(schedule, item, repository, err);
	}
	return rc;
}

/* --- nodes --- */

static bool key_ends_with(const char *text, const char *end)
{
	size_t n = strlen(text);
	size_t n_end = strlen(end);

	return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

/* Each driver has a label of its own for its topology; those of zones have a common end. */
static bool is_larger_than_a_node(const char *key)
{
	return key_ends_with(key, "/zone") || key_ends_with(key, "/region");
}

static const char *node_of_requirements(const json_t *requirements)
{
	size_t i;
	json_t *one;

	json_array_foreach(requirements, i, one)
	{
		const char *key = kube_str(one, "key");
		const json_t *values = kube_at(one, "values");
		const char *value = json_string_value(json_array_get(values, 0));

		if (key && value && *value && json_array_size(values) == 1 &&
		    cairn_text_same(kube_str(one, "operator"), "In") && !is_larger_than_a_node(key))
			return value;
	}
	return NULL;
}

const char *backup_cluster_volume_node(const json_t *volume)
{
	const json_t *terms =
		kube_at(volume, "spec", "nodeAffinity", "required", "nodeSelectorTerms");
	const json_t *term = json_array_get(terms, 0);
	const char *node;

	if (json_array_size(terms) != 1)
		return NULL;
	node = node_of_requirements(kube_at(term, "matchFields"));
	return node ? node : node_of_requirements(kube_at(term, "matchExpressions"));
}

int backup_cluster_schedule_place(struct cluster_schedule *schedule, size_t target,
				  const char *node, struct cairn_err *err)
{
	size_t i = 0;

	if (!node)
		return 0;
	while (i < schedule->n_nodes && strcmp(schedule->nodes[i].name, node) != 0)
		i++;
	if (i == schedule->n_nodes) {
		char *name = cairn_strdup(node);

		if (!name)
			return cairn_err_nomem(err, "list of nodes");
		schedule->nodes[schedule->n_nodes++] = (struct cluster_schedule_node){.name = name};
	}
	schedule->targets[target].node = i;
	return 0;
}

const char *backup_cluster_schedule_node(const struct cluster_schedule *schedule, size_t target)
{
	size_t node = schedule->targets[target].node;

	return node == CLUSTER_SCHEDULE_NONE ? NULL : schedule->nodes[node].name;
}

/* --- order --- */

static size_t timeouts_of(const struct cluster_schedule *schedule,
			  const struct cluster_target *target)
{
	return target->node == CLUSTER_SCHEDULE_NONE ? 0 : schedule->nodes[target->node].timeouts;
}

static bool may_begin(const struct cluster_schedule *schedule, const struct cluster_target *target)
{
	return target->state == CLUSTER_TARGET_WAITS &&
	       (target->node == CLUSTER_SCHEDULE_NONE ||
		schedule->nodes[target->node].running < schedule->jobs_per_node);
}

size_t backup_cluster_schedule_begin(struct cluster_schedule *schedule)
{
	size_t best = CLUSTER_SCHEDULE_NONE;
	struct cluster_target *target;

	if (schedule->running >= schedule->jobs)
		return CLUSTER_SCHEDULE_NONE;
	for (size_t i = 0; i < schedule->n; i++) {
		target = &schedule->targets[i];
		if (may_begin(schedule, target) &&
		    (best == CLUSTER_SCHEDULE_NONE ||
		     timeouts_of(schedule, target) <
			     timeouts_of(schedule, &schedule->targets[best])))
			best = i;
	}
	if (best == CLUSTER_SCHEDULE_NONE)
		return best;
	target = &schedule->targets[best];
	target->state = CLUSTER_TARGET_RUNS;
	schedule->running++;
	if (target->node != CLUSTER_SCHEDULE_NONE)
		schedule->nodes[target->node].running++;
	return best;
}

void backup_cluster_schedule_end(struct cluster_schedule *schedule, size_t target, bool timed_out)
{
	struct cluster_target *ended = &schedule->targets[target];

	ended->state = CLUSTER_TARGET_ENDED;
	schedule->running--;
	if (ended->node == CLUSTER_SCHEDULE_NONE)
		return;
	schedule->nodes[ended->node].running--;
	schedule->nodes[ended->node].timeouts += timed_out;
}

bool backup_cluster_schedule_waits(const struct cluster_schedule *schedule)
{
	for (size_t i = 0; i < schedule->n; i++)
		if (schedule->targets[i].state == CLUSTER_TARGET_WAITS)
			return true;
	return false;
}
