/* SPDX-License-Identifier: Apache-2.0 */

/* What to do with the certificate of a service now.
 *
 *   time ──────────────────────────────────────────────────────────────►
 *   certificate 1  ├────────────── 2/3 of its life ──────┬───┬────┤ expires
 *   certificate 2                                PREPARE │   │ SWITCH
 *   trusted        1                                     1+2      2
 *
 * PREPARE creates the next certificate and publishes its authority beside the old one; the
 * service keeps the old certificate. SWITCH, after the overlap, gives the service the new
 * one: by then clients have read both authorities. The old authority stays until it has
 * expired, with the old certificate.
 */
#ifndef CAIRN_CERTIFICATES_PLAN_H
#define CAIRN_CERTIFICATES_PLAN_H

#include <stdint.h>

struct certificates_validity;

enum certificates_step {
	CERTIFICATES_KEEP,
	CERTIFICATES_ISSUE, /* there is none to serve with: a new one, at once */
	CERTIFICATES_PREPARE,
	CERTIFICATES_SWITCH,
};

/* `current` and `next` are the certificates that can be used; NULL: there is none. */
enum certificates_step certificates_plan(const struct certificates_validity *current,
					 const struct certificates_validity *next, uint64_t now_s,
					 uint64_t overlap_s);

#endif
