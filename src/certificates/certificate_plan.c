/* SPDX-License-Identifier: Apache-2.0 */

#include "certificates/certificate_plan.h"

#include <stddef.h>

#include "certificates/certificate_pair.h"

enum certificates_step certificates_plan(const struct certificates_validity *current,
					 const struct certificates_validity *next, uint64_t now_s,
					 uint64_t overlap_s)
{
	uint64_t life_s;

	if (!current)
		return next ? CERTIFICATES_SWITCH : CERTIFICATES_ISSUE;
	if (next)
		return now_s >= next->made_s + overlap_s ? CERTIFICATES_SWITCH : CERTIFICATES_KEEP;
	life_s = current->ends_s - current->made_s;
	return now_s >= current->made_s + life_s / 3 * 2 ? CERTIFICATES_PREPARE : CERTIFICATES_KEEP;
}
