/* SPDX-License-Identifier: Apache-2.0 */

#include "older/session/settings.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "kube/kinds.h"
#include "kube/object.h"

int session_settings_read(const json_t *map, struct session_settings *ret, struct cairn_err *err)
{
	const char *text = kube_str(map, "data", SESSION_EXPIRY_KEY);
	uint64_t ms;

	ret->expiry_ms = SESSION_EXPIRY_DEFAULT_MS;
	if (!text)
		return 0;
	if (cairn_parse_duration_ms(text, &ms, NULL) != 0)
		return cairn_err_set(err, CAIRN_INVALID,
				     "%s: '%.32s' is not a duration such as 10m",
				     SESSION_EXPIRY_KEY, text);
	if (ms < SESSION_EXPIRY_MIN_MS || ms > SESSION_EXPIRY_MAX_MS)
		return cairn_err_set(err, CAIRN_INVALID, "%s: must be between 1s and 7d",
				     SESSION_EXPIRY_KEY);
	ret->expiry_ms = ms;
	return 0;
}

static bool is_namespace(const char *text, size_t n)
{
	if (n == 0 || n > SESSION_NAMESPACE_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!islower((unsigned char)text[i]) && !isdigit((unsigned char)text[i]) &&
		    (text[i] != '-' || i == 0 || i == n - 1))
			return false;
	return true;
}

/* Returns the second label of a Service's name, or NULL. */
static const char *namespace_in(const char *address, size_t *ret_n)
{
	const char *dot = strchr(address, '.');
	size_t n = dot ? strcspn(dot + 1, ".:") : 0;
	const char *after = dot ? dot + 1 + n : NULL;
	bool digits = true;

	if (!dot || strspn(address, "0123456789.:") == strlen(address))
		return NULL;
	for (size_t i = 0; i < n; i++)
		digits = digits && isdigit((unsigned char)dot[1 + i]);
	if (digits || (after[0] == '.' && (strncmp(after, ".svc", 4) != 0 ||
					   (after[4] != '.' && after[4] != ':' && after[4]))))
		return NULL;
	*ret_n = n;
	return dot + 1;
}

int session_driver_namespace(const json_t *configuration, const char *fallback,
			     char out[SESSION_NAMESPACE_MAX + 1], struct cairn_err *err)
{
	const char *found = kube_annotation(configuration, KUBE_CBT_NAMESPACE_ANNOTATION);
	const char *address = kube_str(configuration, "spec", "address");
	size_t n = found ? strlen(found) : 0;

	if (!found && address)
		found = namespace_in(address, &n);
	if (!found) {
		found = fallback;
		n = strlen(fallback);
	}
	if (!is_namespace(found, n))
		return cairn_err_set(err, CAIRN_INVALID,
				     "SnapshotServicesConfiguration '%s' does not say in which "
				     "namespace its driver runs: set the annotation %s",
				     kube_name(configuration), KUBE_CBT_NAMESPACE_ANNOTATION);
	memcpy(out, found, n);
	out[n] = '\0';
	return 0;
}
