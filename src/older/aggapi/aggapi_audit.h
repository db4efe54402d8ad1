/* SPDX-License-Identifier: Apache-2.0 */

/* Audit lines of the aggregated API server. */
#ifndef CAIRN_AGGAPI_AUDIT_H
#define CAIRN_AGGAPI_AUDIT_H

struct aggapi_refusal;
struct aggapi_request;

/* The code of base/err.h that is closest to an HTTP status. */
int aggapi_audit_code(int http);

/* Writes the line of a request that was refused before its object was read. Requests that only
 * read documents or objects have no line. */
void aggapi_audit_refused(const struct aggapi_request *request,
			  const struct aggapi_refusal *refusal);

/* Writes the line of a request for an object that is stored elsewhere. */
void aggapi_audit_passed(const struct aggapi_request *request, int http, unsigned long ms);

#endif
