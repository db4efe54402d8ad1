/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/publisher.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/backoff.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/ticker.h"
#include "base/wait.h"
#include "kube/informer.h"
#include "kube/kube_client.h"
#include "kube/object.h"

/* An apply is cheap, and the server detects whether anything changed. */
#define AGAIN_MS       60000U
#define LOOK_MS        2000U /* how soon a changed CA file is seen; also the shortest pause */
#define BUNDLE_MAX     (1U << 20)
#define BACKOFF_MAX_MS 30000U

struct kube_publisher {
	struct kube_client *client;
	const struct kube_resource *resource;
	json_t *object;
	char *ca_file; /* NULL: none */
	bool ca_lost;  /* the CA file could not be read, and that was reported */
	const char *const *ca_path;
	const char *field_manager;
	void (*on_result)(const json_t *object, const struct cairn_err *failure);
	struct cairn_ticker ticker;
	struct kube_informer *informer; /* of the one object */
	atomic_bool deleted;            /* by somebody else, and not applied since */
	/* Used only on the ticker's thread. */
	struct cairn_backoff backoff;
	uint64_t due_ns; /* when to apply again without a change */
	bool published;
};

/* Reads the CA file. `ret_news` says whether the object changed. */
static int take_bundle(struct kube_publisher *p, bool *ret_news, struct cairn_err *err)
{
	cairn_auto_free char *pem = NULL, *text = NULL;
	cairn_auto_buf struct cairn_buf coded = CAIRN_BUF_INIT(BUNDLE_MAX * 2);
	const char *known = kube_str_path(p->object, p->ca_path);
	size_t n;
	int rc = cairn_file_read(AT_FDCWD, p->ca_file, BUNDLE_MAX, &pem, &n, err);

	*ret_news = false;
	if (rc)
		return rc;
	cairn_base64_add(&coded, pem, n);
	text = cairn_buf_take_string(&coded);
	if (!text)
		return cairn_err_nomem(err, "authority");
	if (known && strcmp(known, text) == 0)
		return 0;
	*ret_news = true;
	return kube_set_path(p->object, p->ca_path, json_string(text), err);
}

static int publisher_is_stopped(void *arg)
{
	struct kube_publisher *p = arg;

	return cairn_ticker_stopping(&p->ticker) ? CAIRN_CANCELLED : 0;
}

static void publisher_tell(struct kube_publisher *p, const struct cairn_err *failure)
{
	if (p->on_result)
		p->on_result(p->object, failure);
}

static bool has_news(struct kube_publisher *p)
{
	struct cairn_err err = {0};
	bool news = false;
	bool lost = p->ca_file && take_bundle(p, &news, &err) != 0;

	if (lost && !p->ca_lost)
		publisher_tell(p, &err);
	p->ca_lost = lost;
	return news;
}

static int publisher_publish(struct kube_publisher *p)
{
	struct kube_call how = {
		.check = publisher_is_stopped, .check_arg = p, .field_manager = p->field_manager};
	struct cairn_err err = {0};
	int rc = kube_apply(p->client, KUBE_REF(p->resource, NULL, kube_name(p->object)), p->object,
			    true, &how, NULL, &err);

	if (rc && rc != CAIRN_CANCELLED)
		publisher_tell(p, &err);
	return rc;
}

static uint64_t publisher_look(void *arg)
{
	struct kube_publisher *p = arg;
	uint64_t ms = AGAIN_MS;
	bool news = has_news(p);

	if (atomic_exchange(&p->deleted, false))
		p->due_ns = 0;
	if (!news && cairn_monotonic_ns() < p->due_ns)
		return LOOK_MS;
	if (publisher_publish(p) != 0) {
		ms = cairn_backoff_next(&p->backoff);
	} else {
		cairn_backoff_reset(&p->backoff);
		if (news || !p->published)
			publisher_tell(p, NULL);
		p->published = true;
	}
	p->due_ns = cairn_after_ms(ms);
	return LOOK_MS;
}

static void publisher_on_change(void *arg, const json_t *old, const json_t *now)
{
	struct kube_publisher *p = arg;

	(void)old;
	if (now)
		return;
	atomic_store(&p->deleted, true);
	cairn_ticker_hurry(&p->ticker);
}

/* Without the right to watch, a deleted object is applied within a minute. */
static int publisher_watch(struct kube_publisher *p, struct cairn_err *err)
{
	cairn_auto_free char *selector = cairn_printf("metadata.name=%s", kube_name(p->object));
	const struct kube_informer_options options = {.resource = p->resource,
						      .field_selector = selector};
	int rc = selector ? kube_informer_new(p->client, &options, &p->informer, err)
			  : cairn_err_nomem(err, "publisher");

	if (!rc)
		rc = kube_informer_add_handler(p->informer, publisher_on_change, p, err);
	return rc ? rc : kube_informer_start(p->informer, err);
}

static int publisher_begin(struct kube_publisher *p, const struct kube_publish_options *o,
			   struct cairn_err *err)
{
	bool news;
	int rc = 0;

	if (!p->object)
		return cairn_err_nomem(err, "object");
	if (o->ca_file) {
		p->ca_file = cairn_strdup(o->ca_file);
		rc = p->ca_file ? take_bundle(p, &news, err) : cairn_err_nomem(err, "publisher");
	}
	if (rc)
		return rc;
	rc = cairn_ticker_start(&p->ticker, "publish", 0, publisher_look, p, err);
	return rc ? rc : publisher_watch(p, err);
}

int kube_publisher_new(struct kube_client *client, const struct kube_publish_options *options,
		       struct kube_publisher **ret, struct cairn_err *err)
{
	cairn_cleanup(kube_publisher_freep) struct kube_publisher *p = cairn_calloc(1, sizeof(*p));
	int rc;

	if (!p) {
		json_decref(options->object);
		return cairn_err_nomem(err, "publisher");
	}
	p->client = client;
	p->resource = options->resource;
	p->object = options->object;
	p->ca_path = options->ca_path;
	p->field_manager = options->field_manager;
	p->on_result = options->on_result;
	p->backoff = (struct cairn_backoff){.first_ms = LOOK_MS, .most_ms = BACKOFF_MAX_MS};
	rc = publisher_begin(p, options, err);
	if (!rc)
		*ret = cairn_take(p);
	return rc;
}

void kube_publisher_free(struct kube_publisher *p)
{
	if (!p)
		return;
	kube_informer_free(p->informer);
	cairn_ticker_stop(&p->ticker);
	json_decref(p->object);
	free(p->ca_file);
	free(p);
}
