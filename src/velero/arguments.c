/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/arguments.h"

#include <stddef.h>
#include <string.h>

#include "velero/velero_names.h"

/* The value of flag `name` at argv[i], which may be the next word; NULL if argv[i] is
 * another flag. */
static const char *value_at(int argc, char *const *argv, int i, const char *name)
{
	const char *word = argv[i];
	size_t n = strlen(name);

	if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, name, n) != 0)
		return NULL;
	word += 2 + n;
	if (*word == '=')
		return word + 1;
	return *word == '\0' && i + 1 < argc ? argv[i + 1] : NULL;
}

/* Velero also has "trace" and "warning". With a level that is unknown here, errors are
 * still logged. */
static enum cairn_log_level level_of(const char *text)
{
	int level;

	if (strcmp(text, "trace") == 0)
		return CAIRN_LOG_DEBUG;
	if (strcmp(text, "warning") == 0)
		return CAIRN_LOG_WARN;
	level = cairn_log_level_parse(text);
	return level < 0 ? CAIRN_LOG_ERROR : (enum cairn_log_level)level;
}

struct velero_arguments velero_arguments_read(int argc, char *const *argv)
{
	struct velero_arguments read = {.log_level = CAIRN_LOG_INFO};

	for (int i = 1; i < argc && argv[i]; i++) {
		const char *value;

		if ((value = value_at(argc, argv, i, "kubeconfig")))
			read.kubeconfig = value;
		else if ((value = value_at(argc, argv, i, "namespace")))
			read.ns = value;
		else if ((value = value_at(argc, argv, i, "features")))
			read.csi_enabled = read.csi_enabled || velero_list_has(value, "EnableCSI");
		else if ((value = value_at(argc, argv, i, "log-level")))
			read.log_level = level_of(value);
	}
	return read;
}
