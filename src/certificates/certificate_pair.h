/* SPDX-License-Identifier: Apache-2.0 */

/* Certificates of services, as PEM texts.
 *
 * Each certificate has an authority of its own, whose key is discarded when it has signed:
 * there is no key in the cluster that could sign another. A client trusts a bundle of
 * authorities, so that the old and the new certificate are both good during a renewal.
 */
#ifndef CAIRN_CERTIFICATES_PAIR_H
#define CAIRN_CERTIFICATES_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;

/* First part of the common name of an authority; a number follows. */
#define CERTIFICATES_AUTHORITY "cairn authority "

/* Authorities in a bundle; more are dropped, oldest first. Renewals leave two. */
#define CERTIFICATES_BUNDLE_MAX 4U

struct certificates_pair {
	char *crt, *key;
};

void certificates_pair_done(struct certificates_pair *pair); /* wipes the key */

/* Creates a certificate of SERVICE.NAMESPACE.svc, valid for `life_s` seconds from `now_s`
 * (since 1970), and the authority that signed it. Both are also valid for a time before
 * `now_s`, a ninth of the life and at most CERTIFICATES_SLOW_CLOCK_S, so that peers whose
 * clock is behind accept them at once. The caller frees `*ret_ca`. */
#define CERTIFICATES_SLOW_CLOCK_S 3600U
int certificates_issue(const char *service, const char *ns, uint64_t now_s, uint64_t life_s,
		       struct certificates_pair *ret, char **ret_ca, struct cairn_err *err);

/* Seconds since 1970. `made_s` is when certificates_issue() made it, which is later than the
 * certificate's own notBefore. */
struct certificates_validity {
	uint64_t made_s, ends_s;
};

/* True if certificates_issue() or deploy/certificates made this certificate, to judge by the
 * name of its authority; text that is not a certificate was not made here. */
bool certificates_is_own(const char *crt, const char *service, const char *ns);

/* When the certificate expires; 0 if that cannot be read. */
uint64_t certificates_end(const char *crt);

/* Checks that the pair can serve SERVICE.NAMESPACE.svc now: the key belongs to the
 * certificate, which has the names and is signed by an authority of the bundle. One that is
 * not valid yet can: the clock of the process that made it is ahead of this one.
 *
 * CAIRN_INVALID  it cannot, with the reason; also for NULL texts
 */
int certificates_check(const struct certificates_pair *pair, const char *bundle,
		       const char *service, const char *ns, uint64_t now_s,
		       struct certificates_validity *ret, struct cairn_err *err);

/* The authorities of `bundle` (may be NULL) that have not expired, each once, and then
 * `added` (may be NULL). The caller frees the text, which is empty if there is none.
 *
 * CAIRN_NO_SPACE  out of memory
 */
int certificates_bundle(const char *bundle, const char *added, uint64_t now_s, char **ret,
			struct cairn_err *err);

#endif
