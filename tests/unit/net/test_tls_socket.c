/* SPDX-License-Identifier: Apache-2.0 */

/* Connections of one loop share its buffers; what TLS says to one peer must never reach
 * another. */

#include "cairntest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/ssl.h>

#include "net/scratch.h"
#include "net/tls/tls_settings.h"
#include "net/tls/tls_socket.h"
#include "tls_files.h"

#define DAY (24L * 3600)

struct world {
	char dir[64], cert[128], key[128];
	struct tls_pair pair;
	struct net_tls *server, *client;
	struct net_scratch *scratch;
};

/* One connection: our side, and its peer, which is OpenSSL on a socket. */
struct link {
	struct net_tls_socket wire;
	SSL *peer;
	int fd;
};

static int setup(void **state)
{
	static struct world w;
	struct net_tls_options options;
	struct cairn_err err = {0};

	scratch_template(w.dir, "tls-socket");
	assert_non_null(mkdtemp(w.dir));
	w.pair = tls_pair_make(&(struct tls_pair_spec){"self", "DNS:cairn.test", NULL, -DAY, DAY});
	tls_cert_write(w.dir, "tls.crt", &w.pair);
	tls_key_write(w.dir, "tls.key", &w.pair);
	snprintf(w.cert, sizeof(w.cert), "%s/tls.crt", w.dir);
	snprintf(w.key, sizeof(w.key), "%s/tls.key", w.dir);
	options = (struct net_tls_options){.cert_file = w.cert, .key_file = w.key, .h2 = true};
	assert_ok(net_tls_server_new(&options, &w.server, &err), &err);
	options = (struct net_tls_options){
		.ca_file = w.cert, .server_name = "cairn.test", .h2 = true};
	assert_ok(net_tls_client_new(&options, &w.client, &err), &err);
	w.scratch = calloc(1, sizeof(*w.scratch));
	assert_non_null(w.scratch);
	*state = &w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	net_tls_free(w->server);
	net_tls_free(w->client);
	net_unsent_spare_done(&w->scratch->spare);
	free(w->scratch);
	tls_pair_done(&w->pair);
	assert_int_equal(unlink(w->cert), 0);
	assert_int_equal(unlink(w->key), 0);
	assert_int_equal(rmdir(w->dir), 0);
	return 0;
}

static void link_up(struct world *w, struct link *l)
{
	struct cairn_err err = {0};
	struct ssl_st *ssl;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
	assert_ok(net_tls_session(w->server, NULL, &ssl, &err), &err);
	SSL_set_accept_state(ssl);
	assert_ok(net_tls_socket_init(&l->wire, fds[0], ssl, w->scratch, &err), &err);
	l->fd = fds[1];
	assert_ok(net_tls_session(w->client, NULL, &l->peer, &err), &err);
	SSL_set_connect_state(l->peer);
	SSL_set_fd(l->peer, l->fd);
}

static void link_down(struct link *l)
{
	net_tls_socket_done(&l->wire);
	SSL_free(l->peer);
	close(l->fd);
}

/* True if both sides finish the handshake. */
static bool shake(struct link *l)
{
	struct cairn_err err = {0};
	int ours = 0, theirs = 0;

	for (int i = 0; i < 10 && (ours != 1 || theirs != 1); i++) {
		if (theirs != 1) {
			theirs = SSL_do_handshake(l->peer);
			if (theirs != 1 && SSL_get_error(l->peer, theirs) != SSL_ERROR_WANT_READ)
				return false;
		}
		if (ours != 1 && net_tls_socket_fill(&l->wire, NET_READ_BYTES, &err) == 1)
			ours = net_tls_socket_handshake(&l->wire, &err);
		if (ours < 0)
			return false;
	}
	return ours == 1 && theirs == 1;
}

/* --- records that OpenSSL's client would not write --- */

#define SUITE        "ECDHE-ECDSA-AES128-GCM-SHA256"
#define KEY_BYTES    16
#define IV_BYTES     4
#define NONCE_BYTES  8 /* the part of it that a record carries */
#define TAG_BYTES    16
#define HEAD_BYTES   5
#define RANDOM_BYTES 32

/* Keys and salts of both sides, the client's first (RFC 5246, 6.3). */
static void key_block(const SSL *ssl, uint8_t *out, size_t n)
{
	static const char label[] = "key expansion";
	uint8_t master[SSL_MAX_MASTER_KEY_LENGTH], seed[2 * RANDOM_BYTES];
	char digest[] = "SHA256";
	size_t master_n = SSL_SESSION_get_master_key(SSL_get_session(ssl), master, sizeof(master));
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "TLS1-PRF", NULL);
	EVP_KDF_CTX *ctx = EVP_KDF_CTX_new(kdf);
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string("digest", digest, 0),
		OSSL_PARAM_construct_octet_string("secret", master, master_n),
		OSSL_PARAM_construct_octet_string("seed", (void *)(uintptr_t)label,
						  sizeof(label) - 1),
		OSSL_PARAM_construct_octet_string("seed", seed, sizeof(seed)),
		OSSL_PARAM_construct_end(),
	};

	SSL_get_server_random(ssl, seed, RANDOM_BYTES);
	SSL_get_client_random(ssl, seed + RANDOM_BYTES, RANDOM_BYTES);
	assert_int_equal(EVP_KDF_derive(ctx, out, n, params), 1);
	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
}

/* Writes the client's record number `seq` to `out`; returns its size. */
static size_t seal(const SSL *ssl, uint8_t seq, uint8_t type, const void *text, uint8_t n,
		   uint8_t *out)
{
	const uint8_t aad[13] = {0, 0, 0, 0, 0, 0, 0, seq, type, 3, 3, 0, n};
	const uint8_t head[HEAD_BYTES] = {type, 3, 3, 0, (uint8_t)(NONCE_BYTES + n + TAG_BYTES)};
	uint8_t keys[2 * (KEY_BYTES + IV_BYTES)], iv[IV_BYTES + NONCE_BYTES] = {0};
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	uint8_t *body = out + HEAD_BYTES + NONCE_BYTES;
	int len;

	key_block(ssl, keys, sizeof(keys));
	memcpy(iv, keys + 2 * KEY_BYTES, IV_BYTES);
	iv[sizeof(iv) - 1] = seq;
	memcpy(out, head, sizeof(head));
	memcpy(out + HEAD_BYTES, iv + IV_BYTES, NONCE_BYTES);
	assert_int_equal(EVP_EncryptInit_ex(ctx, EVP_aes_128_gcm(), NULL, keys, iv), 1);
	assert_int_equal(EVP_EncryptUpdate(ctx, NULL, &len, aad, sizeof(aad)), 1);
	assert_int_equal(EVP_EncryptUpdate(ctx, body, &len, text, n), 1);
	assert_int_equal(EVP_EncryptFinal_ex(ctx, body + n, &len), 1);
	assert_int_equal(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, body + n), 1);
	EVP_CIPHER_CTX_free(ctx);
	return HEAD_BYTES + NONCE_BYTES + n + TAG_BYTES;
}

/* A peer with TLS 1.2 asks for a new handshake and sends data right behind it. OpenSSL writes
 * the alert that refuses it while it reads the data. */
static void ask_and_send(struct link *l)
{
	static const uint8_t client_hello[4] = {1, 0, 0, 0};
	uint8_t out[256];
	size_t n;

	/* The client's Finished was the first record. */
	n = seal(l->peer, 1, 22, client_hello, sizeof(client_hello), out);
	n += seal(l->peer, 2, 23, "garbage", 7, out + n);
	assert_int_equal(send(l->fd, out, n, 0), n);
}

static void link_up_old(struct world *w, struct link *l)
{
	link_up(w, l);
	assert_int_equal(SSL_set_max_proto_version(l->peer, TLS1_2_VERSION), 1);
	assert_int_equal(SSL_set_cipher_list(l->peer, SUITE), 1);
	assert_true(shake(l));
}

static void read_garbage(struct link *l)
{
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;

	assert_int_equal(net_tls_socket_fill(&l->wire, NET_READ_BYTES, &err), 1);
	assert_int_equal(net_tls_socket_next(&l->wire, &data, &n, &err), 1);
	assert_int_equal(n, 7);
	assert_memory_equal(data, "garbage", 7);
}

/* The owner of the connection does not like the data and drops the connection. */
static void an_alert_leaves_with_its_own_connection(void **state)
{
	struct world *w = *state;
	struct link bad, good;
	char in[16];

	link_up_old(w, &bad);
	link_up(w, &good);
	ask_and_send(&bad);
	read_garbage(&bad);
	/* The peer got it and can read it with its keys: a warning, so there is no data. */
	assert_int_equal(SSL_read(bad.peer, in, sizeof(in)), -1);
	assert_int_equal(recv(bad.fd, in, sizeof(in), 0), -1);
	link_down(&bad);

	assert_true(shake(&good));
	link_down(&good);
}

/* The same while the peer does not read. */
static void an_alert_that_cannot_be_sent_is_kept_apart(void **state)
{
	static const uint8_t zeros[256 << 10];
	struct world *w = *state;
	struct cairn_err err = {0};
	struct link bad, good;
	size_t before;

	link_up_old(w, &bad);
	link_up(w, &good);
	while (!net_tls_socket_blocked(&bad.wire))
		assert_ok(net_tls_socket_write(&bad.wire, zeros, sizeof(zeros), &err), &err);
	before = net_unsent_len(&bad.wire.unsent);
	ask_and_send(&bad);
	read_garbage(&bad);
	assert_true(net_unsent_len(&bad.wire.unsent) > before);
	assert_true(bad.wire.kept_blocked > 0);
	link_down(&bad);

	assert_true(shake(&good));
	link_down(&good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_alert_leaves_with_its_own_connection, setup,
						teardown),
		cmocka_unit_test_setup_teardown(an_alert_that_cannot_be_sent_is_kept_apart, setup,
						teardown),
	};

	return cmocka_run_group_tests_name("net/tls_socket", tests, NULL, NULL);
}
