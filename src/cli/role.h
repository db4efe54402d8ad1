/* SPDX-License-Identifier: Apache-2.0 */

/* Roles that need more libraries than the rest live in modules of their own,
 * loaded when the role starts: `cairn --version` and `cairn delta` must not pay
 * for TLS and HTTP/2. A module is a shared object beside the program or in its
 * library directory, with one function; what it shares with the program (base,
 * block, pool) binds to the program's own copy.
 */
#ifndef CAIRN_CLI_ROLE_H
#define CAIRN_CLI_ROLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;

/* What `cairn driver` was told. */
struct role_driver_options {
	const char *endpoint;      /* path of the socket */
	const char *endpoint_text; /* as it was given, for the log */
	uint64_t endpoint_group;   /* that may use the socket; UINT64_MAX: the process's own */
	const char *node_id;
	const char *name;
	const char *version;
	const char *pool;
	const char *more_pools; /* "NAME=DIR,…" or NULL */
	bool topology;
	uint64_t fixed_length;
	uint64_t volumes_max;
	uint64_t drain_ms;
	const char *http_address;      /* NULL: no metrics */
	const char *registration_path; /* the socket as the kubelet sees it; NULL: no
					  * registration */
	const char *registration_dir;
	bool sessions;
	bool differential;
	bool deltas;
	uint64_t delta_block; /* 0: the default */
	uint64_t token_ms;    /* 0: the default */
};

/* In the module "driver": serves until a signal, then drains. */
typedef int role_driver_run(const struct role_driver_options *options, struct cairn_err *err);
role_driver_run cairn_role_driver;

/* What `cairn sidecar` was told; texts are as they were given. */
struct role_sidecar_options {
	const char *version;
	const char *kubeconfig;
	const char *kube_qps; /* a number, perhaps with a fraction */
	uint64_t kube_burst;

	const char *host; /* NULL: all addresses */
	uint64_t port;
	const char *tls_cert;
	const char *tls_key;
	const char *tls_min_version;
	const char *tls_ciphers;
	const char *tls_curves;
	const char *audience;

	uint64_t cache_ms;
	uint64_t streams;
	uint64_t streams_each;
	uint64_t waiting;
	uint64_t wait_ms;
	uint64_t stream_ms; /* 0: no limit */
	bool owned_base;
	bool sessions;
	const char *session_ns; /* NULL: that of the configuration */
	/* Makes itself known under this name, with the two below; NULL: no. */
	const char *session_configuration;
	const char *session_address;
	const char *session_ca; /* a file */

	const char *csi_address;
	uint64_t csi_timeout_ms;
	uint64_t message_max;

	const char *http_endpoint; /* "": none */
	bool http_tls;
	const char *metrics_path; /* NULL: none */
	uint64_t drain_ms;
};

/* In the module "sidecar": serves until a signal, then drains. */
typedef int role_sidecar_run(const struct role_sidecar_options *options, struct cairn_err *err);
role_sidecar_run cairn_role_sidecar;

/* In the module "conformance": conformance/options.h. */
struct suite_options;
typedef int role_conformance_run(const struct suite_options *options, struct cairn_err *err);
role_conformance_run cairn_role_conformance;

/* In the module "client": questions to a SnapshotMetadata service; the answers
 * come on the caller's thread. */
struct cairn_block;
struct cairn_client_options;
struct cairn_listing_info;
struct cairn_listing_query;

struct role_client_watch {
	/* A message came; a negative code ends the listing. */
	int (*message)(void *arg, const struct cairn_listing_info *info,
		       const struct cairn_block *blocks, size_t n, struct cairn_err *err);
	/* Asked ten times a second, on another thread. */
	bool (*cancelled)(void *arg);
	void *arg;
};

/* Lists until the end; *ret_info is how far it came, in any case. */
typedef int role_list_run(const struct cairn_client_options *options,
			  const struct cairn_listing_query *query,
			  const struct role_client_watch *watch,
			  struct cairn_listing_info *ret_info, struct cairn_err *err);
role_list_run cairn_role_list;

/* Copies what is listed from device to device, then compares them:
 * client/mirror.h. */
struct store_progress;

struct role_mirror_options {
	const struct cairn_client_options *options;
	const struct cairn_listing_query *query;
	const char *source, *target;
	const struct store_progress *copying;
	const struct store_progress *comparing;
};

struct role_mirror_result {
	uint64_t capacity; /* as the listing says */
	uint64_t listed_blocks, listed_bytes;
	uint64_t copied_bytes;
	uint64_t compared_bytes;
	uint64_t differing_bytes;
	uint64_t first_difference;
};

typedef int role_mirror_run(const struct role_mirror_options *options,
			    struct role_mirror_result *ret, struct cairn_err *err);
role_mirror_run cairn_role_mirror;

/* Both in the module "aggapi": aggapi/options.h. */
struct aggapi_options;
struct cbt_http_options;
typedef int role_aggapi_run(const struct aggapi_options *options, struct cairn_err *err);
typedef int role_cbt_http_run(const struct cbt_http_options *options, struct cairn_err *err);
role_aggapi_run cairn_role_aggapi;
role_cbt_http_run cairn_role_cbt_http;

/* In the module "diffsnap": diffsnap/options.h. */
struct diffsnap_options;
typedef int role_diffsnap_run(const struct diffsnap_options *options, struct cairn_err *err);
role_diffsnap_run cairn_role_diffsnap;

/* In the module "manager": session/options.h. */
struct manager_options;
typedef int role_manager_run(const struct manager_options *options, struct cairn_err *err);
role_manager_run cairn_role_manager;

/* Loads module `name` and gives its function `symbol`; it stays loaded. `ret` is the address
 * of a pointer to a function of that type.
 *
 * CAIRN_UNIMPLEMENTED  it is not installed, or can not be loaded
 */
int role_load(const char *name, const char *symbol, void *ret, struct cairn_err *err);

#endif
