/* SPDX-License-Identifier: Apache-2.0 */

#include "aggapi/publish.h"

#include <fcntl.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "aggapi/path.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/backoff.h"
#include "kube/client.h"
#include "kube/kinds.h"
#include "kube/object.h"

/* Applying is cheap, and finds out by itself whether anything changed. */
#define AGAIN_MS   60000U
#define LOOK_MS    2000U /* how soon new authorities are seen; also the shortest pause */
#define BUNDLE_MAX (1U << 20)

struct aggapi_publisher {
	struct kube_client *client;
	json_t *object;
	char *ca_file; /* NULL: none */
	pthread_t thread;
	bool started;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stop; /* guarded by lock */
};

static json_t *service_of(const char *text, struct cairn_err *err)
{
	cairn_auto_free char *copy = cairn_strdup(text);
	char *name, *port, *path;
	uint64_t number = 443;

	if (!copy) {
		cairn_err_nomem(err, "service");
		return NULL;
	}
	name = strchr(copy, '/');
	path = name ? strchr(name + 1, '/') : NULL;
	port = name ? strchr(name + 1, ':') : NULL;
	if (port && path && port > path)
		port = NULL;
	if (name)
		*name++ = '\0';
	if (path)
		*path++ = '\0';
	if (port)
		*port++ = '\0';
	if (!name || !*copy || !*name || !aggapi_name_valid(copy) || !aggapi_name_valid(name) ||
	    (port && (cairn_parse_u64(port, &number, NULL) != 0 || number < 1 || number > 65535))) {
		cairn_err_set(err, CAIRN_INVALID, "'%s' is not NAMESPACE/NAME[:PORT][/PATH]", text);
		return NULL;
	}
	if (path) {
		path[-1] = '/';
		path--;
	}
	return json_pack("{s:s, s:s, s:I, s:s*}", "namespace", copy, "name", name, "port",
			 (json_int_t)number, "path", path);
}

/* The authorities as they are in their file now. `ret_news` says whether the object changed. */
static int take_bundle(json_t *object, const char *file, bool *ret_news, struct cairn_err *err)
{
	cairn_auto_free char *pem = NULL, *text = NULL;
	const char *known = kube_str(object, "spec", "clientConfig", "caBundle");
	size_t n;
	int rc = cairn_file_read(AT_FDCWD, file, BUNDLE_MAX, &pem, &n, err);

	*ret_news = false;
	if (rc)
		return rc;
	text = cairn_alloc(n / 3 * 4 + 8);
	if (!text)
		return cairn_err_nomem(err, "authority");
	EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)pem, (int)n);
	if (known && strcmp(known, text) == 0)
		return 0;
	*ret_news = true;
	return kube_set(object, err, json_string(text), "spec", "clientConfig", "caBundle");
}

static int make_object(const struct aggapi_publish_options *o, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *object = kube_object_new(&kube_driverdiscoveries, NULL, o->driver);
	json_t *config = json_object();
	int rc = 0;

	if (!object || kube_set(object, err, config, "spec", "clientConfig") < 0 ||
	    kube_set(object, err, json_string(o->driver), "spec", "driverName") < 0)
		return cairn_err_nomem(err, "DriverDiscovery");
	if (!o->url == !o->service)
		return cairn_err_set(err, CAIRN_INVALID, "give either a URL or a Service");
	if (o->url && strncmp(o->url, "https://", 8) != 0)
		return cairn_err_set(err, CAIRN_INVALID, "'%s' does not begin with https://",
				     o->url);
	if (o->url) {
		rc = kube_set(config, err, json_string(o->url), "url");
	} else {
		json_t *service = service_of(o->service, err);

		rc = service ? kube_set(config, err, service, "service")
			     : cairn_err_negative(err ? err->code : CAIRN_INVALID);
	}
	if (!rc)
		*ret = cairn_take(object);
	return rc;
}

static int is_stopped(void *arg)
{
	struct aggapi_publisher *p = arg;
	cairn_scoped_lock(&p->lock);

	return p->stop ? CAIRN_CANCELLED : 0;
}

/* True when it is time to go on, false when it is over. */
static bool pause_for(struct aggapi_publisher *p, uint64_t ms)
{
	uint64_t until = cairn_monotonic_ns() + ms * CAIRN_NS_PER_MS;
	struct timespec ts = {.tv_sec = (time_t)(until / CAIRN_NS_PER_SEC),
			      .tv_nsec = (long)(until % CAIRN_NS_PER_SEC)};
	cairn_scoped_lock(&p->lock);

	while (!p->stop && cairn_monotonic_ns() < until)
		if (pthread_cond_timedwait(&p->changed, &p->lock, &ts) != 0)
			break;
	return !p->stop;
}

static bool has_news(struct aggapi_publisher *p)
{
	struct cairn_err err = {0};
	bool news = false;

	if (p->ca_file && take_bundle(p->object, p->ca_file, &news, &err) != 0)
		cairn_log(CAIRN_LOG_WARN, "the authorities stay as they are",
			  CAIRN_STR("error", err.msg));
	return news;
}

static int publish(struct aggapi_publisher *p)
{
	struct kube_call how = {
		.check = is_stopped, .check_arg = p, .field_manager = "cairn-cbt-http"};
	struct cairn_err err = {0};
	int rc =
		kube_apply(p->client, KUBE_REF(&kube_driverdiscoveries, NULL, kube_name(p->object)),
			   p->object, true, &how, NULL, &err);

	if (rc && rc != CAIRN_CANCELLED)
		cairn_log(CAIRN_LOG_WARN, "DriverDiscovery is not published",
			  CAIRN_STR("error", err.msg));
	return rc;
}

static void *run(void *arg)
{
	struct aggapi_publisher *p = arg;
	struct kube_backoff backoff = {.first_ms = LOOK_MS, .most_ms = 30000};
	uint64_t due = 0;
	bool told = false;

	do {
		uint64_t ms = AGAIN_MS;
		bool news = has_news(p);

		if (!news && cairn_monotonic_ns() < due)
			continue;
		if (publish(p) != 0) {
			ms = kube_backoff_next(&backoff);
		} else {
			kube_backoff_reset(&backoff);
			if (news || !told)
				cairn_log(CAIRN_LOG_INFO, "DriverDiscovery published",
					  CAIRN_STR("driver", kube_name(p->object)));
			told = true;
		}
		due = cairn_monotonic_ns() + ms * CAIRN_NS_PER_MS;
	} while (pause_for(p, LOOK_MS));
	return NULL;
}

static int begin(struct aggapi_publisher *p, const struct aggapi_publish_options *options,
		 struct cairn_err *err)
{
	bool news;
	int rc = make_object(options, &p->object, err);

	if (!rc && options->ca_file) {
		p->ca_file = cairn_strdup(options->ca_file);
		rc = p->ca_file ? take_bundle(p->object, p->ca_file, &news, err)
				: cairn_err_nomem(err, "publisher");
	}
	if (rc)
		return rc;
	rc = pthread_create(&p->thread, NULL, run, p);
	return rc ? cairn_err_sys(err, rc, "start a thread") : 0;
}

int aggapi_publisher_new(struct kube_client *client, const struct aggapi_publish_options *options,
			 struct aggapi_publisher **ret, struct cairn_err *err)
{
	cairn_cleanup(aggapi_publisher_freep) struct aggapi_publisher *p =
		cairn_calloc(1, sizeof(*p));
	pthread_condattr_t attr;
	int rc;

	if (!p)
		return cairn_err_nomem(err, "publisher");
	p->client = client;
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->changed, &attr);
	pthread_condattr_destroy(&attr);
	rc = begin(p, options, err);
	if (rc)
		return rc;
	p->started = true;
	*ret = cairn_take(p);
	return 0;
}

void aggapi_publisher_free(struct aggapi_publisher *p)
{
	if (p->started) {
		pthread_mutex_lock(&p->lock);
		p->stop = true;
		pthread_cond_broadcast(&p->changed);
		pthread_mutex_unlock(&p->lock);
		pthread_join(p->thread, NULL);
	}
	json_decref(p->object);
	free(p->ca_file);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
