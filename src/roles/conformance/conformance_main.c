/* SPDX-License-Identifier: Apache-2.0 */

/* The module of `cairn conformance`. */

#include "cli/role.h"

#include "conformance/options.h"

__attribute__((visibility("default"))) int
cairn_role_conformance(const struct suite_options *options, struct cairn_err *err)
{
	return suite_run(options, err);
}
