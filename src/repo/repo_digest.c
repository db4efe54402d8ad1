/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/repo_digest.h"

#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static EVP_MD *sha256;
static EVP_MAC *poly1305;

/* Both live as long as the process: OpenSSL's exit handler frees them. */
static void repo_digest_look_up(void)
{
	sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	poly1305 = EVP_MAC_fetch(NULL, "POLY1305", NULL);
}

const EVP_MD *repo_sha256(void)
{
	pthread_once(&once, repo_digest_look_up);
	return sha256;
}

EVP_MAC *repo_poly1305(void)
{
	pthread_once(&once, repo_digest_look_up);
	return poly1305;
}
