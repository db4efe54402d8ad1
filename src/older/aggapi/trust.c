/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/informer.h"
#include "kube/kube_client.h"
#include "kube/object.h"

#define CONFIGMAP_NS   "kube-system"
#define CONFIGMAP_NAME "extension-apiserver-authentication"
#define CA_NAME        "front-proxy-ca.pem"

struct aggapi_trust {
	struct kube_informer *informer;
	char dir[256];
	char ca_file[320];
	pthread_mutex_t lock;
	struct aggapi_proxy_rules rules; /* guarded by lock */
};

/* Creates a private directory; in /dev/shm if nothing else is writable. */
static int make_dir(struct aggapi_trust *trust, struct cairn_err *err)
{
	const char *tmp = getenv("TMPDIR");
	const char *places[] = {tmp && *tmp ? tmp : "/tmp", "/dev/shm"};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(trust->dir, sizeof(trust->dir), "%s/cairn-aggapi.XXXXXX", places[i]);
		if (mkdtemp(trust->dir)) {
			snprintf(trust->ca_file, sizeof(trust->ca_file), "%s/" CA_NAME, trust->dir);
			return 0;
		}
	}
	trust->dir[0] = '\0';
	return cairn_err_sys(err, errno, "make a directory in %s or %s", places[0], places[1]);
}

static int write_ca(const struct aggapi_trust *trust, const char *pem, struct cairn_err *err)
{
	cairn_auto_fd int fd = open(trust->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return cairn_err_sys(err, errno, "open %s", trust->dir);
	return cairn_file_replace(fd, CA_NAME, pem, strlen(pem), err);
}

static int trust_take_over(struct aggapi_trust *trust, const json_t *configmap,
			   struct cairn_err *err)
{
	struct aggapi_proxy_rules rules, old;
	int rc = aggapi_proxy_rules_read(configmap, &rules, err);
	bool same;

	if (rc)
		return rc;
	pthread_mutex_lock(&trust->lock);
	same = trust->rules.ca_pem && strcmp(trust->rules.ca_pem, rules.ca_pem) == 0;
	pthread_mutex_unlock(&trust->lock);
	if (!same)
		rc = write_ca(trust, rules.ca_pem, err);
	if (rc) {
		aggapi_proxy_rules_done(&rules);
		return rc;
	}
	pthread_mutex_lock(&trust->lock);
	old = trust->rules;
	trust->rules = rules;
	pthread_mutex_unlock(&trust->lock);
	aggapi_proxy_rules_done(&old);
	return 0;
}

static void trust_on_change(void *arg, const json_t *old, const json_t *now)
{
	struct cairn_err err = {0};

	(void)old;
	if (now && trust_take_over(arg, now, &err) != 0)
		cairn_log(CAIRN_LOG_WARN, "the rules of the front proxy stay as they were",
			  CAIRN_STR("error", err.msg));
}

static int trust_follow(struct aggapi_trust *trust, struct kube_client *client,
			struct cairn_err *err)
{
	struct kube_informer_options options = {
		.resource = &kube_configmaps,
		.ns = CONFIGMAP_NS,
		.field_selector = "metadata.name=" CONFIGMAP_NAME,
	};
	int rc = kube_informer_new(client, &options, &trust->informer, err);

	if (!rc)
		rc = kube_informer_add_handler(trust->informer, trust_on_change, trust, err);
	return rc ? rc : kube_informer_start(trust->informer, err);
}

int aggapi_trust_new(struct kube_client *client, struct aggapi_trust **ret, struct cairn_err *err)
{
	cairn_cleanup(aggapi_trust_freep) struct aggapi_trust *trust =
		cairn_calloc(1, sizeof(*trust));
	kube_auto_json json_t *configmap = NULL;
	int rc;

	if (!trust)
		return cairn_err_nomem(err, "trust");
	pthread_mutex_init(&trust->lock, NULL);
	rc = make_dir(trust, err);
	if (!rc)
		rc = kube_get(client, KUBE_REF(&kube_configmaps, CONFIGMAP_NS, CONFIGMAP_NAME),
			      NULL, &configmap, err);
	if (!rc)
		rc = trust_take_over(trust, configmap, err);
	if (rc)
		return cairn_err_wrap(err, CONFIGMAP_NS "/" CONFIGMAP_NAME);
	rc = trust_follow(trust, client, err);
	if (!rc)
		*ret = cairn_take(trust);
	return rc;
}

void aggapi_trust_free(struct aggapi_trust *trust)
{
	kube_informer_freep(&trust->informer);
	aggapi_proxy_rules_done(&trust->rules);
	if (trust->dir[0]) {
		(void)unlink(trust->ca_file);
		(void)rmdir(trust->dir);
	}
	pthread_mutex_destroy(&trust->lock);
	free(trust);
}

const char *aggapi_trust_ca_file(const struct aggapi_trust *trust)
{
	return trust->ca_file;
}

int aggapi_trust_user(struct aggapi_trust *trust, const char *peer_name, aggapi_is_signed is_signed,
		      aggapi_field_at fields, const void *request, json_t **ret,
		      struct cairn_err *err)
{
	cairn_scoped_lock(&trust->lock);

	if (!is_signed(request, trust->rules.ca_pem))
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED,
				     "the front proxy's certificate is not trusted any more");
	return aggapi_proxy_user(&trust->rules, peer_name, fields, request, ret, err);
}
