/* SPDX-License-Identifier: Apache-2.0 */

/* Options of `cairn driver`; its flags fill them. */
#ifndef CAIRN_ROLES_DRIVER_OPTIONS_H
#define CAIRN_ROLES_DRIVER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct driver_options {
	const char *endpoint;    /* unix:///PATH or PATH */
	uint64_t endpoint_group; /* that may use the socket; UINT64_MAX: the process's own */
	const char *node_id;
	const char *name;
	const char *more_pools; /* "NAME=DIR,…" or NULL */
	bool topology;
	bool node_expansion;
	uint64_t fixed_length;
	uint64_t volumes_max;
	uint64_t drain_ms;
	const char *http_address; /* NULL: no metrics */
	const char
		*registration_path; /* the socket as the kubelet sees it; NULL: no registration */
	const char *registration_dir;
	bool sessions;
	bool differential;
	bool deltas;
	uint64_t delta_block; /* 0: the default */
	uint64_t compare_max; /* 0: snapshots are not compared */
	uint64_t token_ms;    /* 0: the default */
};

extern struct driver_options driver_options;

/* The path of an endpoint's socket. */
const char *driver_endpoint_path(const char *endpoint);

#endif
