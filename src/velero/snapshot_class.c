/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/snapshot_class.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "kube/object.h"
#include "velero/velero_names.h"

#define KEY_MAX 384

struct search {
	const json_t *classes;
	const char *driver;
};

static bool has_name(const json_t *class_object, const void *name)
{
	return strcmp(kube_name(class_object), name) == 0;
}

static bool is_labelled(const json_t *class_object, const void *unused)
{
	(void)unused;
	return kube_label(class_object, VELERO_LABEL_CLASS) != NULL;
}

static bool snapshot_class_is_default(const json_t *class_object, const void *unused)
{
	const char *value = kube_annotation(class_object, VELERO_ANNOTATION_IS_DEFAULT);

	(void)unused;
	return value && strcmp(value, "false") != 0;
}

static bool is_any(const json_t *class_object, const void *unused)
{
	(void)class_object;
	(void)unused;
	return true;
}

/* The first class of the driver for which `is` returns true; *ret_n is the number of such
 * classes. */
static const json_t *snapshot_class_find(const struct search *search,
					 bool (*is)(const json_t *class_object, const void *arg),
					 const void *arg, size_t *ret_n)
{
	const json_t *found = NULL;
	json_t *class_object;
	size_t i;

	*ret_n = 0;
	json_array_foreach(kube_at(search->classes, "items"), i, class_object)
	{
		const char *driver = kube_str(class_object, "driver");

		if (!driver || strcmp(driver, search->driver) != 0 || !is(class_object, arg))
			continue;
		if (!found)
			found = class_object;
		(*ret_n)++;
	}
	return found;
}

/* The annotation of the backup for the driver. In its key the driver's name is in lower case. */
static const char *backup_annotation(const json_t *backup, const char *driver)
{
	char key[KEY_MAX];
	int n = snprintf(key, sizeof(key), VELERO_LABEL_CLASS "_%s", driver);

	if (n < 0 || (size_t)n >= sizeof(key))
		return NULL;
	for (char *p = key; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	return kube_annotation(backup, key);
}

/* Finds the class that an annotation names. An annotation that does not name a class of the
 * driver is noted in *ret_missing and skipped. */
static const json_t *snapshot_class_find_named(const struct search *search, const json_t *claim,
					       const json_t *backup, const char **ret_missing)
{
	const char *const names[] = {
		kube_annotation(claim, VELERO_LABEL_CLASS),
		backup_annotation(backup, search->driver),
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const json_t *found;
		size_t n;

		if (!names[i])
			continue;
		found = snapshot_class_find(search, has_name, names[i], &n);
		if (found)
			return found;
		*ret_missing = names[i];
	}
	return NULL;
}

int velero_class_choose(const json_t *classes, const char *driver, const json_t *claim,
			const json_t *backup, struct velero_class_choice *ret,
			struct cairn_err *err)
{
	const struct search search = {.classes = classes, .driver = driver};
	struct velero_class_choice choice = {0};
	size_t n;

	choice.class_object = snapshot_class_find_named(&search, claim, backup, &choice.missing);
	if (!choice.class_object)
		choice.class_object = snapshot_class_find(&search, is_labelled, NULL, &n);
	if (!choice.class_object)
		choice.class_object =
			snapshot_class_find(&search, snapshot_class_is_default, NULL, &n);
	if (!choice.class_object) {
		choice.class_object = snapshot_class_find(&search, is_any, NULL, &n);
		if (n == 0)
			return cairn_err_set(err, CAIRN_NOT_FOUND,
					     "driver %s has no VolumeSnapshotClass", driver);
		if (n > 1)
			return cairn_err_set(err, CAIRN_PRECONDITION,
					     "driver %s has %zu VolumeSnapshotClasses: label one "
					     "with " VELERO_LABEL_CLASS,
					     driver, n);
	}
	*ret = choice;
	return 0;
}
