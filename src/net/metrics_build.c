/* SPDX-License-Identifier: Apache-2.0 */

#include "net/metrics_build.h"

#include <stddef.h>

#include "net/metrics.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

int net_metrics_add_build(struct net_metrics *metrics, const char *version, struct cairn_err *err)
{
	const char *const versions[] = {version, NULL};
	static const char *const compilers[] = {COMPILER, NULL};
	const struct net_metric_spec spec = {
		.name = "cairn_build_info",
		.help = "1, labelled with the version of Cairn and its compiler.",
		.kind = NET_GAUGE,
		.labels = {{"version", versions}, {"compiler", compilers}},
	};
	struct net_metric *info;
	int rc = net_metrics_add(metrics, &spec, &info, err);

	if (!rc)
		net_metric_set(info, 0, 1);
	return rc;
}
