/* SPDX-License-Identifier: Apache-2.0 */

/* Creation of a VolumeSnapshotDelta: query and answer in one request. */
#ifndef CAIRN_AGGAPI_CREATE_H
#define CAIRN_AGGAPI_CREATE_H

#include <jansson.h>

#include "base/cleanup.h"

struct aggapi_creator;
struct aggapi_refusal;
struct aggapi_request;
struct aggapi_server_options;
struct cairn_err;

int aggapi_creator_new(const struct aggapi_server_options *options, struct aggapi_creator **ret,
		       struct cairn_err *err);
void aggapi_creator_free(struct aggapi_creator *creator);
CAIRN_DEFINE_CLEANUP(struct aggapi_creator, aggapi_creator_free);

/* Answers the request, or fails with a refusal that the caller sends. Writes the audit
 * line. */
int aggapi_create(struct aggapi_creator *creator, const struct aggapi_request *request,
		  struct aggapi_refusal *refusal, struct cairn_err *err);

#endif
