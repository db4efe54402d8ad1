/* SPDX-License-Identifier: Apache-2.0 */

#include "inventory/backups.h"

#include <stdbool.h>
#include <string.h>

#include "backup/cluster/cluster_objects.h"
#include "base/err.h"
#include "base/text.h"
#include "inventory/inventory_objects.h"
#include "kube/object.h"
#include "kube/timestamp.h"

#define CLAIM_FLAG    "--pvc"
#define SELECTOR_FLAG "--selector"

/* The text if it can be the name of a claim, else NULL. Users choose annotations and arguments
 * freely, and what they write there must not reach the terminal of another user. */
static const char *name_or_null(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";

	return text && *text && !text[strspn(text, letters)] ? text : NULL;
}

/* The text if it can be a label selector, else NULL. */
static const char *selector_or_null(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-._/=!,() ";

	return text && *text && !text[strspn(text, letters)] ? text : NULL;
}

/* The value of the container's variable that "$(NAME)" stands for; the text itself if it
 * stands for none. */
static const char *expanded(const json_t *container, const char *text)
{
	size_t n = strlen(text);
	size_t i;
	json_t *variable;

	if (n < 4 || strncmp(text, "$(", 2) != 0 || text[n - 1] != ')')
		return text;
	json_array_foreach(kube_at(container, "env"), i, variable)
	{
		const char *name = kube_str(variable, "name");

		if (name && strlen(name) == n - 3 && strncmp(name, text + 2, n - 3) == 0)
			return kube_str(variable, "value");
	}
	return NULL;
}

/* The value of the flag of a container's `backup create`; NULL for another command. */
static const char *flag_of_container(const json_t *container, const char *flag)
{
	const json_t *args = kube_at(container, "args");
	size_t n = strlen(flag);
	size_t i;
	json_t *word;

	if (!cairn_text_same(json_string_value(json_array_get(args, 0)), "backup") ||
	    !cairn_text_same(json_string_value(json_array_get(args, 1)), "create"))
		return NULL;
	json_array_foreach(args, i, word)
	{
		const char *text = json_string_value(word);
		const char *next = json_string_value(json_array_get(args, i + 1));

		if (text && strncmp(text, flag, n) == 0 && text[n] == '=')
			return expanded(container, text + n + 1);
		if (text && next && strcmp(text, flag) == 0)
			return expanded(container, next);
	}
	return NULL;
}

static const char *flag_of_schedule(const json_t *cronjob, const char *flag)
{
	const char *value = NULL;
	size_t i;
	json_t *container;

	json_array_foreach(
		kube_at(cronjob, "spec", "jobTemplate", "spec", "template", "spec", "containers"),
		i, container)
	{
		value = flag_of_container(container, flag);
		if (value)
			break;
	}
	return value;
}

static bool fill_schedule(const json_t *cronjob, struct inventory_backup *row)
{
	row->claim = name_or_null(flag_of_schedule(cronjob, CLAIM_FLAG));
	if (!row->claim)
		row->claim = selector_or_null(flag_of_schedule(cronjob, SELECTOR_FLAG));
	row->what = "schedule";
	row->schedule = kube_str(cronjob, "spec", "schedule");
	row->state = "active";
	if (kube_is(cronjob, "spec", "suspend"))
		row->state = "suspended";
	else if (json_array_size(kube_at(cronjob, "status", "active")) > 0)
		row->state = "running";
	if (!kube_time_parse(kube_str(cronjob, "status", "lastSuccessfulTime"), &row->time_ns))
		row->time_ns = 0;
	return row->claim != NULL;
}

static bool has_condition(const json_t *job, const char *type)
{
	return cairn_text_same(kube_str(kube_condition(job, type), "status"), "True");
}

static bool fill_run(const json_t *job, struct inventory_backup *row)
{
	row->claim = name_or_null(kube_annotation(job, CLUSTER_ANNOTATION_OF));
	row->what = "run";
	row->state = "running";
	if (has_condition(job, "Complete"))
		row->state = "complete";
	else if (has_condition(job, "Failed"))
		row->state = "failed";
	if (!kube_time_parse(kube_str(job, "metadata", "creationTimestamp"), &row->time_ns))
		row->time_ns = 0;
	return cairn_text_same(kube_label(job, CLUSTER_LABEL_ROLE), CLUSTER_ROLE_CREATE);
}

static bool fill_base(const json_t *snapshot, struct inventory_backup *row)
{
	row->claim = name_or_null(kube_annotation(snapshot, CLUSTER_ANNOTATION_OF));
	row->what = "base";
	row->state = kube_is(snapshot, "status", "readyToUse") ? "ready" : "not ready";
	if (!kube_time_parse(kube_str(snapshot, "status", "creationTime"), &row->time_ns))
		row->time_ns = 0;
	return cairn_text_same(kube_label(snapshot, CLUSTER_LABEL_ROLE), CLUSTER_ROLE_BASE);
}

int inventory_backups(const struct inventory *inventory, inventory_backup_fn *take, void *arg,
		      struct cairn_err *err)
{
	static const struct {
		enum inventory_kind kind;
		bool (*fill)(const json_t *object, struct inventory_backup *row);
	} sources[] = {
		{INVENTORY_CRONJOBS, fill_schedule},
		{INVENTORY_JOBS, fill_run},
		{INVENTORY_SNAPSHOTS, fill_base},
	};
	int rc = 0;
	size_t i;
	json_t *item;

	for (size_t k = 0; k < sizeof(sources) / sizeof(sources[0]); k++) {
		json_array_foreach(inventory_items(inventory, sources[k].kind), i, item)
		{
			struct inventory_backup row = {.ns = kube_namespace(item),
						       .name = kube_name(item)};

			if (sources[k].fill(item, &row))
				rc = take(arg, &row, err);
			if (rc)
				return rc;
		}
	}
	return 0;
}
