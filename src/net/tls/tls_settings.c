/* SPDX-License-Identifier: Apache-2.0 */

#include "net/tls/tls_settings.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/err.h"
#include "base/io.h"
#include "base/lock.h"
#include "base/mem.h"
#include "net/tls/tls_context.h"
#include "net/tls/tls_names.h"

/* The files of the settings: certificate, key, authorities. */
enum { CERT, KEY, CA, N_FILES };

struct net_tls {
	/* Constant. */
	bool server, peer_optional, h2, http1;
	int min_version;
	char *ciphers, *groups; /* NULL: default */
	char *server_name;
	char *ca_pem;
	char *files[N_FILES];
	char *dirs[N_FILES]; /* directories of the files; NULL for one that is already listed */

	pthread_mutex_t reloading; /* taken before `lock`; one reader of the files at a time */

	pthread_mutex_t lock; /* guards what follows */
	SSL_CTX *ctx;
	uint8_t digest[EVP_MAX_MD_SIZE]; /* of the contents from which ctx was made */
	struct net_tls_info info;
};

/* The contents of the files, in one struct so that they are wiped in one place. */
struct contents {
	struct net_pem pem[N_FILES];
};

static void contents_done(struct contents *contents)
{
	for (unsigned i = 0; i < N_FILES; i++) {
		if (contents->pem[i].data)
			OPENSSL_cleanse(contents->pem[i].data, contents->pem[i].len);
		free(contents->pem[i].data);
	}
}

static int contents_read(const struct net_tls *tls, struct contents *contents,
			 struct cairn_err *err)
{
	for (unsigned i = 0; i < N_FILES; i++) {
		struct net_pem *pem = &contents->pem[i];
		int rc;

		if (!tls->files[i])
			continue;
		pem->name = tls->files[i];
		rc = cairn_file_read(AT_FDCWD, tls->files[i], NET_TLS_FILE_MAX, &pem->data,
				     &pem->len, err);
		if (rc < 0)
			return rc;
	}
	if (tls->ca_pem) {
		contents->pem[CA].name = "given authorities";
		contents->pem[CA].len = strlen(tls->ca_pem);
		contents->pem[CA].data = cairn_strdup(tls->ca_pem);
		if (!contents->pem[CA].data)
			return cairn_err_nomem(err, "TLS authorities");
	}
	return 0;
}

CAIRN_DEFINE_CLEANUP(EVP_MD_CTX, EVP_MD_CTX_free);

static int contents_digest(const struct contents *contents, uint8_t out[EVP_MAX_MD_SIZE],
			   struct cairn_err *err)
{
	cairn_cleanup(EVP_MD_CTX_freep) EVP_MD_CTX *md = EVP_MD_CTX_new();
	bool ok = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1;

	memset(out, 0, EVP_MAX_MD_SIZE);
	for (unsigned i = 0; ok && i < N_FILES; i++)
		ok = EVP_DigestUpdate(md, &contents->pem[i].len, sizeof(size_t)) == 1 &&
		     EVP_DigestUpdate(md, contents->pem[i].data, contents->pem[i].len) == 1;
	if (ok && EVP_DigestFinal_ex(md, out, NULL) == 1)
		return 0;
	ERR_clear_error();
	return cairn_err_nomem(err, "digest of TLS files");
}

static int tls_settings_load(struct net_tls *tls, const struct contents *contents,
			     const uint8_t *digest, struct cairn_err *err)
{
	struct net_tls_context_spec spec = {.server = tls->server,
					    .peer_optional = tls->peer_optional,
					    .h2 = tls->h2,
					    .http1 = tls->http1,
					    .min_version = tls->min_version,
					    .ciphers = tls->ciphers,
					    .groups = tls->groups,
					    .cert = contents->pem[CERT],
					    .key = contents->pem[KEY],
					    .ca = contents->pem[CA]};
	uint64_t not_before, not_after;
	SSL_CTX *ctx, *old;
	int rc = net_tls_context_new(&spec, &ctx, &not_before, &not_after, err);

	if (rc < 0)
		return rc;
	{
		cairn_scoped_lock(&tls->lock);
		old = tls->ctx;
		tls->ctx = ctx;
		memcpy(tls->digest, digest, sizeof(tls->digest));
		tls->info.reloads += old != NULL;
		tls->info.not_before = not_before;
		tls->info.not_after = not_after;
	}
	SSL_CTX_free(old); /* sessions hold their own references to it */
	return 1;
}

int net_tls_reload(struct net_tls *tls, struct cairn_err *err)
{
	cairn_cleanup(contents_done) struct contents contents = {0};
	uint8_t digest[EVP_MAX_MD_SIZE];
	bool same;
	int rc;

	cairn_scoped_lock(&tls->reloading);
	rc = contents_read(tls, &contents, err);
	if (rc == 0)
		rc = contents_digest(&contents, digest, err);
	if (rc < 0)
		return rc;
	{
		cairn_scoped_lock(&tls->lock);
		same = tls->ctx && memcmp(digest, tls->digest, sizeof(digest)) == 0;
	}
	return same ? 0 : tls_settings_load(tls, &contents, digest, err);
}

void net_tls_free(struct net_tls *tls)
{
	if (!tls)
		return;
	SSL_CTX_free(tls->ctx);
	pthread_mutex_destroy(&tls->reloading);
	pthread_mutex_destroy(&tls->lock);
	for (unsigned i = 0; i < N_FILES; i++) {
		free(tls->files[i]);
		free(tls->dirs[i]);
	}
	free(tls->ca_pem);
	free(tls->server_name);
	free(tls->ciphers);
	free(tls->groups);
	free(tls);
}

static bool tls_settings_given(const char *text)
{
	return text && *text;
}

/* Duplicates `text` unless it is empty. */
static int tls_settings_copy(const char *text, char **ret, struct cairn_err *err)
{
	if (!tls_settings_given(text))
		return 0;
	*ret = cairn_strdup(text);
	return *ret ? 0 : cairn_err_nomem(err, "TLS settings");
}

static int set_directory(struct net_tls *tls, unsigned i, struct cairn_err *err)
{
	const char *file = tls->files[i];
	const char *slash = strrchr(file, '/');
	char *dir = !slash          ? cairn_strdup(".")
		    : slash == file ? cairn_strdup("/")
				    : cairn_strndup(file, (size_t)(slash - file));

	if (!dir)
		return cairn_err_nomem(err, "TLS settings");
	for (unsigned k = 0; k < i; k++) {
		if (tls->dirs[k] && strcmp(tls->dirs[k], dir) == 0) {
			free(dir);
			return 0;
		}
	}
	tls->dirs[i] = dir;
	return 0;
}

static int set_files(struct net_tls *tls, const struct net_tls_options *options,
		     struct cairn_err *err)
{
	const char *const files[N_FILES] = {options->cert_file, options->key_file,
					    options->ca_file};

	for (unsigned i = 0; i < N_FILES; i++) {
		int rc = tls_settings_copy(files[i], &tls->files[i], err);

		if (rc == 0 && tls->files[i])
			rc = set_directory(tls, i, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int tls_settings_set_algorithms(struct net_tls *tls, const struct net_tls_options *options,
				       struct cairn_err *err)
{
	char list[NET_TLS_LIST_MAX] = "";
	int rc = net_tls_version_parse(options->min_version, &tls->min_version, err);

	if (rc == 0 && tls_settings_given(options->cipher_suites)) {
		rc = net_tls_ciphers_parse(options->cipher_suites, list, sizeof(list), err);
		if (rc == 0 && !*list && tls->min_version < TLS1_3_VERSION)
			return cairn_err_set(err, CAIRN_INVALID,
					     "the cipher suites are all of TLS 1.3: TLS 1.2 would "
					     "have none; set the minimum to VersionTLS13");
		if (rc == 0)
			rc = tls_settings_copy(list, &tls->ciphers, err);
	}
	if (rc == 0 && tls_settings_given(options->curves)) {
		rc = net_tls_curves_parse(options->curves, list, sizeof(list), err);
		if (rc == 0)
			rc = tls_settings_copy(list, &tls->groups, err);
	}
	return rc;
}

static int tls_settings_check(const struct net_tls_options *options, bool server,
			      struct cairn_err *err)
{
	if (tls_settings_given(options->cert_file) != tls_settings_given(options->key_file))
		return cairn_err_set(err, CAIRN_INVALID,
				     "TLS certificate and key must be given together");
	if (server && !tls_settings_given(options->cert_file))
		return cairn_err_set(err, CAIRN_INVALID, "TLS certificate and key are required");
	if (tls_settings_given(options->ca_file) && tls_settings_given(options->ca_pem))
		return cairn_err_set(err, CAIRN_INVALID,
				     "TLS authorities are given twice, as file and as text");
	if (!options->h2 && !options->http1)
		return cairn_err_set(err, CAIRN_INVALID, "no protocol for ALPN");
	return 0;
}

static int tls_new(const struct net_tls_options *options, bool server, struct net_tls **ret,
		   struct cairn_err *err)
{
	cairn_cleanup(net_tls_freep) struct net_tls *tls = NULL;
	int rc = tls_settings_check(options, server, err);

	if (rc < 0)
		return rc;
	tls = cairn_calloc(1, sizeof(*tls));
	if (!tls)
		return cairn_err_nomem(err, "TLS settings");
	pthread_mutex_init(&tls->reloading, NULL);
	pthread_mutex_init(&tls->lock, NULL);
	tls->server = server;
	tls->peer_optional = options->peer_optional;
	tls->h2 = options->h2;
	tls->http1 = options->http1;
	rc = tls_settings_set_algorithms(tls, options, err);
	if (rc == 0)
		rc = set_files(tls, options, err);
	if (rc == 0)
		rc = tls_settings_copy(options->ca_pem, &tls->ca_pem, err);
	if (rc == 0)
		rc = tls_settings_copy(options->server_name, &tls->server_name, err);
	if (rc == 0)
		rc = net_tls_reload(tls, err);
	if (rc < 0)
		return rc;
	*ret = cairn_take(tls);
	return 0;
}

int net_tls_server_new(const struct net_tls_options *options, struct net_tls **ret,
		       struct cairn_err *err)
{
	return tls_new(options, true, ret, err);
}

int net_tls_client_new(const struct net_tls_options *options, struct net_tls **ret,
		       struct cairn_err *err)
{
	return tls_new(options, false, ret, err);
}

/* An address is compared with the certificate's addresses, and is not sent as SNI. */
static bool set_server_name(SSL *ssl, const char *name)
{
	uint8_t address[sizeof(struct in6_addr)];
	char host[TLSEXT_MAXLEN_host_name + 1]; /* OpenSSL's prototype lacks const */

	if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
	if (strlen(name) >= sizeof(host))
		return false;
	memcpy(host, name, strlen(name) + 1);
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

int net_tls_session(struct net_tls *tls, const char *server_name, struct ssl_st **ret,
		    struct cairn_err *err)
{
	const char *name = server_name ? server_name : tls->server_name;
	SSL *ssl;

	if (!tls->server && !tls_settings_given(name))
		return cairn_err_set(err, CAIRN_INVALID, "no server name to check");
	{
		cairn_scoped_lock(&tls->lock);
		ssl = SSL_new(tls->ctx);
	}
	if (ssl && (tls->server || set_server_name(ssl, name))) {
		*ret = ssl;
		return 0;
	}
	SSL_free(ssl);
	ERR_clear_error();
	return cairn_err_nomem(err, "TLS session");
}

void net_tls_info(struct net_tls *tls, struct net_tls_info *ret)
{
	cairn_scoped_lock(&tls->lock);
	*ret = tls->info;
}

size_t net_tls_directories(const struct net_tls *tls, const char *ret_dirs[3])
{
	size_t n = 0;

	for (unsigned i = 0; i < N_FILES; i++)
		if (tls->dirs[i])
			ret_dirs[n++] = tls->dirs[i];
	return n;
}

bool net_tls_peer_subject(const struct ssl_st *session, char *out, size_t cap)
{
	X509 *cert = SSL_get0_peer_certificate(session);

	return cert && X509_NAME_oneline(X509_get_subject_name(cert), out, (int)cap) != NULL;
}

bool net_tls_peer_name(const struct ssl_st *session, char *out, size_t cap)
{
	X509 *cert = SSL_get0_peer_certificate(session);
	const X509_NAME *subject = cert ? X509_get_subject_name(cert) : NULL;
	int at = subject ? X509_NAME_get_index_by_NID(subject, NID_commonName, -1) : -1;
	unsigned char *text = NULL;
	bool good;
	int n;

	if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0)
		return false;
	n = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
	good = n > 0 && (size_t)n < cap && memchr(text, '\0', (size_t)n) == NULL;
	if (good) {
		memcpy(out, text, (size_t)n);
		out[n] = '\0';
	}
	OPENSSL_free(text);
	return good;
}

bool net_tls_trusts(struct net_tls *tls, struct ssl_st *session, uint64_t *seen)
{
	X509 *cert = SSL_get0_peer_certificate(session);
	uint64_t reloads;
	SSL_CTX *ctx;
	bool good;

	if (!cert)
		return true;
	if (X509_cmp_current_time(X509_get0_notAfter(cert)) <= 0)
		return false;
	{
		cairn_scoped_lock(&tls->lock);
		ctx = tls->ctx;
		reloads = tls->info.reloads;
		good = SSL_get_SSL_CTX(session) == ctx || *seen == reloads;
		if (good || SSL_CTX_up_ref(ctx) != 1)
			return good;
	}
	good = net_tls_verify_chain(session, SSL_CTX_get_cert_store(ctx));
	SSL_CTX_free(ctx);
	if (good)
		*seen = reloads;
	return good;
}
