/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/route_certificate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/ticker.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "net/tls/tls_pem.h"

#define CERTIFICATE_POLL_MS  500U
#define CERTIFICATE_RETRY_MS 10000U  /* after a renewal that failed */
#define CERTIFICATE_ASK_MS   300000U /* after one that was denied: each makes a request */
#define CERTIFICATE_WAIT_MS  60000U  /* for a renewal */
#define CERTIFICATE_TEXT_MAX (64U << 10)
#define COMMON_NAME_MAX      64 /* X.520 */

CAIRN_DEFINE_CLEANUP(X509_REQ, X509_REQ_free);
CAIRN_DEFINE_CLEANUP(X509, X509_free);

static const struct kube_resource route_requests = {
	.group = "certificates.k8s.io",
	.version = "v1",
	.plural = "certificatesigningrequests",
	.kind = "CertificateSigningRequest",
};

struct sidecar_route_certificate {
	struct sidecar_route_certificate_options options;
	struct cairn_ticker ticker;
	bool has_first;   /* the thread renews it */
	uint64_t life_ms; /* of the certificate in use */
	/* The request that was not answered yet; NULL: none. It is not made again with each attempt:
	 * Kubernetes keeps requests for a day, and all nodes ask while the signer is away. */
	char *asked;
	EVP_PKEY *key;
};

static int certificate_failed(struct cairn_err *err, const char *what)
{
	ERR_clear_error();
	return cairn_err_set(err, CAIRN_INTERNAL, "%s cannot be created", what);
}

/* The signer takes the name from the token; the one in the request is for people. */
static char *request_text(EVP_PKEY *key, const char *node)
{
	cairn_cleanup(X509_REQ_freep) X509_REQ *request = X509_REQ_new();
	char name[COMMON_NAME_MAX + 1];
	bool good;

	snprintf(name, sizeof(name), "%s", node);
	good = request && X509_REQ_set_pubkey(request, key) == 1 &&
	       X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(request), "CN", MBSTRING_UTF8,
					  (const unsigned char *)name, -1, -1, 0) == 1 &&
	       X509_REQ_sign(request, key, EVP_sha256()) > 0;
	return good ? net_tls_pem_request(request) : NULL;
}

static int certificate_ask(const struct sidecar_route_certificate_options *o, const char *pem,
			   char **ret_name, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(CERTIFICATE_TEXT_MAX);
	kube_auto_json json_t *object = NULL, *made = NULL;
	int rc;

	cairn_base64_add(&text, pem, strlen(pem));
	if (cairn_buf_failed(&text))
		return cairn_err_nomem(err, "certificate request");
	object = json_pack("{s:s, s:s, s:{s:s}, s:{s:s%, s:s, s:[s, s, s]}}", "apiVersion",
			   "certificates.k8s.io/v1", "kind", "CertificateSigningRequest",
			   "metadata", "generateName", "cairn-route-", "spec", "request",
			   (const char *)text.data, text.len, "signerName", o->signer, "usages",
			   "digital signature", "server auth", "client auth");
	if (!object)
		return cairn_err_nomem(err, "certificate request");
	rc = kube_create(o->client, KUBE_REF(&route_requests, NULL, NULL), object, NULL, &made,
			 err);
	if (rc)
		return rc;
	*ret_name = cairn_strdup(kube_name(made));
	return *ret_name ? 0 : cairn_err_nomem(err, "certificate request");
}

/* CAIRN_NOT_FOUND while there is no answer. */
static int certificate_look(const struct sidecar_route_certificate_options *o, const char *name,
			    char **ret, struct cairn_err *err)
{
	kube_auto_json json_t *found = NULL;
	const json_t *denied;
	const char *text;
	int rc = kube_get(o->client, KUBE_REF(&route_requests, NULL, name), NULL, &found, err);

	if (rc)
		return rc == CAIRN_NOT_FOUND
			       ? cairn_err_set(err, CAIRN_ABORTED, "request %s was deleted", name)
			       : rc;
	denied = kube_condition(found, "Denied");
	if (!denied)
		denied = kube_condition(found, "Failed");
	if (denied) {
		text = kube_str(denied, "message");
		return cairn_err_set(err, CAIRN_DENIED, "request %s was denied: %s", name,
				     text ? text : "");
	}
	text = kube_str(found, "status", "certificate");
	if (!text || !*text)
		return CAIRN_NOT_FOUND;
	*ret = cairn_base64_text(text, strlen(text));
	return *ret ? 0 : cairn_err_set(err, CAIRN_INVALID, "the certificate is not text");
}

/* No other thread handles SIGTERM before the server has started. */
static bool certificate_is_ending(struct sidecar_route_certificate *c)
{
	if (c->has_first)
		return cairn_ticker_stopping(&c->ticker);
	return c->options.is_ending && c->options.is_ending();
}

static int certificate_wait(struct sidecar_route_certificate *c, const char *name,
			    uint64_t timeout_ms, char **ret, struct cairn_err *err)
{
	for (uint64_t waited_ms = 0; !certificate_is_ending(c); waited_ms += CERTIFICATE_POLL_MS) {
		int rc = certificate_look(&c->options, name, ret, err);

		if (rc != CAIRN_NOT_FOUND)
			return rc;
		if (waited_ms >= timeout_ms)
			return cairn_err_set(
				err, CAIRN_UNAVAILABLE,
				"request %s: signer '%s' does not answer; does `cairn manager "
				"--certificates --route` run?",
				name, c->options.signer);
		cairn_sleep_ms(CERTIFICATE_POLL_MS);
	}
	return cairn_err_set(err, CAIRN_CANCELLED, "stopped");
}

/* Replaces a file; readers see the old text or the new one. What a process that was killed left is
 * not written to: it may have another mode, or none that allows it. */
static int certificate_store(const char *path, const char *text, unsigned mode,
			     struct cairn_err *err)
{
	cairn_auto_free char *partial = cairn_printf("%s.new", path);
	cairn_auto_fd int fd = -1;
	int rc;

	if (!partial)
		return cairn_err_nomem(err, "certificate");
	if (unlink(partial) < 0 && errno != ENOENT)
		return cairn_err_sys(err, errno, "remove '%s'", partial);
	fd = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return cairn_err_sys(err, errno, "%s", partial);
	if (cairn_write_full(fd, text, strlen(text)) == 0 && rename(partial, path) == 0)
		return 0;
	rc = cairn_err_sys(err, errno, "%s", path);
	(void)unlink(partial);
	return rc;
}

/* How long the certificate is valid from now on; 0 if it is not ours or cannot be read. */
static uint64_t certificate_life_ms(const char *pem, EVP_PKEY *key)
{
	BIO *bio = BIO_new_mem_buf(pem, -1);
	cairn_cleanup(X509_freep) X509 *x = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
	int days = 0, seconds = 0;
	bool good = x && X509_check_private_key(x, key) == 1 &&
		    ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(x)) == 1;

	BIO_free(bio);
	ERR_clear_error();
	if (!good || days < 0 || seconds < 0)
		return 0;
	return ((uint64_t)days * 86400U + (uint64_t)seconds) * 1000U;
}

static void certificate_forget(struct sidecar_route_certificate *c)
{
	EVP_PKEY_free(c->key);
	free(c->asked);
	c->key = NULL;
	c->asked = NULL;
}

/* Makes a key and a request, unless there is one without an answer. */
static int certificate_begin(struct sidecar_route_certificate *c, struct cairn_err *err)
{
	cairn_auto_free char *request = NULL;
	int rc;

	if (c->asked)
		return 0;
	c->key = EVP_EC_gen("P-256");
	request = c->key ? request_text(c->key, c->options.node) : NULL;
	rc = request ? certificate_ask(&c->options, request, &c->asked, err)
		     : certificate_failed(err, "certificate request");
	if (rc)
		certificate_forget(c);
	return rc;
}

static int certificate_put(struct sidecar_route_certificate *c, const char *crt,
			   struct cairn_err *err)
{
	char *private = net_tls_pem_key(c->key);
	int rc;

	if (!private)
		return certificate_failed(err, "key");
	rc = certificate_store(c->options.key_file, private, S_IRUSR, err);
	if (!rc)
		rc = certificate_store(c->options.cert_file, crt, S_IRUSR | S_IRGRP | S_IROTH, err);
	explicit_bzero(private, strlen(private));
	free(private);
	return rc;
}

static int certificate_renew(struct sidecar_route_certificate *c, uint64_t timeout_ms,
			     struct cairn_err *err)
{
	cairn_auto_free char *crt = NULL;
	uint64_t life_ms = 0;
	int rc = certificate_begin(c, err);

	if (!rc)
		rc = certificate_wait(c, c->asked, timeout_ms, &crt, err);
	if (!rc) {
		life_ms = certificate_life_ms(crt, c->key);
		rc = life_ms ? certificate_put(c, crt, err)
			     : cairn_err_set(err, CAIRN_INVALID,
					     "the signer's certificate is not for our key, or has "
					     "expired");
	}
	if (!rc) {
		c->life_ms = life_ms;
		cairn_log(CAIRN_LOG_INFO, "certificate of this node received",
			  CAIRN_STR("request", c->asked), CAIRN_U64("life_s", life_ms / 1000));
	}
	/* After other errors the answer may still come, or be stored. */
	if (!rc || rc == CAIRN_DENIED || rc == CAIRN_ABORTED || rc == CAIRN_INVALID)
		certificate_forget(c);
	return rc ? cairn_err_wrap(err, "certificate of node '%s'", c->options.node) : 0;
}

static uint64_t certificate_tick(void *arg)
{
	struct sidecar_route_certificate *c = arg;
	struct cairn_err err = {0};

	if (certificate_renew(c, CERTIFICATE_WAIT_MS, &err) == 0)
		return c->life_ms / 3 * 2;
	if (err.code != CAIRN_CANCELLED)
		cairn_log(CAIRN_LOG_WARN, "the certificate of this node is not renewed",
			  CAIRN_STR("error", err.msg));
	return err.code == CAIRN_DENIED ? CERTIFICATE_ASK_MS : CERTIFICATE_RETRY_MS;
}

int sidecar_route_certificate_new(const struct sidecar_route_certificate_options *options,
				  struct sidecar_route_certificate **ret, struct cairn_err *err)
{
	cairn_cleanup(sidecar_route_certificate_freep) struct sidecar_route_certificate *c =
		cairn_calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return cairn_err_nomem(err, "certificate");
	c->options = *options;
	rc = certificate_renew(c, options->timeout_ms, err);
	c->has_first = rc == 0;
	if (!rc)
		rc = cairn_ticker_start(&c->ticker, "route-cert", c->life_ms / 3 * 2,
					certificate_tick, c, err);
	if (!rc)
		*ret = cairn_take(c);
	return rc;
}

void sidecar_route_certificate_free(struct sidecar_route_certificate *certificate)
{
	if (!certificate)
		return;
	cairn_ticker_stop(&certificate->ticker);
	certificate_forget(certificate);
	free(certificate);
}
