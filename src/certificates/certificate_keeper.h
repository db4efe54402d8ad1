/* SPDX-License-Identifier: Apache-2.0 */

/* Keeps the certificates of the services that deploy/ installs.
 *
 * The Secret RELEASE-SERVICE-tls of each service holds tls.crt, tls.key and ca.crt, the
 * bundle of authorities; during a renewal also next.crt and next.key. A thread looks at
 * each of them, takes the step that certificate_plan.h decides, and publishes the bundle
 * where clients look for it. A certificate is switched only when the bundle with its
 * authority is published. All state is in the Secrets: the process may end at any time.
 *
 * Writes are conditional on the version that was read. Secrets of cert-manager, and those
 * with a certificate that neither this nor deploy/certificates made, are left alone, and so
 * are the objects that name their authorities. Only the leader works.
 */
#ifndef CAIRN_CERTIFICATES_KEEPER_H
#define CAIRN_CERTIFICATES_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct certificates_keeper;
struct kube_client;

/* Sets of services, as deploy/certificates names them. */
enum certificates_generation {
	CERTIFICATES_SNAPSHOT_METADATA = 1 << 0,
	CERTIFICATES_SESSIONS = 1 << 1,
	CERTIFICATES_DIFFSNAP = 1 << 2,
	CERTIFICATES_VOLUMESNAPSHOTDELTA = 1 << 3,
};

/* Parses a list of generations separated by commas; "all" is all of them.
 *
 * CAIRN_INVALID  an unknown name, or none
 */
int certificates_generations_parse(const char *list, unsigned *ret, struct cairn_err *err);

struct certificates_options {
	struct kube_client *client; /* borrowed */
	const char *ns;             /* of the services; all strings are copied */
	const char *release;        /* first part of their names */
	const char *driver;
	unsigned generations;
	uint64_t life_ms;    /* of a certificate */
	uint64_t overlap_ms; /* from its creation to its use; less than a third of the life */
};

int certificates_keeper_new(const struct certificates_options *options,
			    struct certificates_keeper **ret, struct cairn_err *err);

/* Ends the thread; nothing is written afterwards. Idempotent. */
void certificates_keeper_stop(struct certificates_keeper *keeper);
void certificates_keeper_free(struct certificates_keeper *keeper); /* stops; accepts NULL */
CAIRN_DEFINE_CLEANUP(struct certificates_keeper, certificates_keeper_free);

/* Sets whether this process leads; from any thread. */
void certificates_keeper_lead(struct certificates_keeper *keeper, bool leads);

struct certificates_stats {
	uint64_t issued;   /* certificates that this process created */
	uint64_t errors;   /* attempts that failed and will be repeated */
	uint64_t expiry_s; /* the earliest end of a certificate in use, of whatever PKI; a
			    * certificate that cannot be used ends now; 0: not known */
};

void certificates_keeper_stats(struct certificates_keeper *keeper, struct certificates_stats *ret);

#endif
