/* SPDX-License-Identifier: Apache-2.0 */

/* Where the sidecar of a driver is, by its DriverDiscovery. */
#ifndef CAIRN_AGGAPI_ENDPOINT_H
#define CAIRN_AGGAPI_ENDPOINT_H

#include <jansson.h>

struct cairn_err;

struct aggapi_endpoint {
	char *url;    /* without a "/" at the end */
	char *ca_pem; /* NULL: the system's authorities */
};

/* Reads spec.clientConfig.
 *
 * CAIRN_PRECONDITION  it says nothing useful; the text says what is wrong
 */
int aggapi_endpoint_read(const json_t *discovery, struct aggapi_endpoint *ret,
			 struct cairn_err *err);
void aggapi_endpoint_done(struct aggapi_endpoint *endpoint);

#endif
