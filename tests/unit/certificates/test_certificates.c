/* SPDX-License-Identifier: Apache-2.0 */

/* Certificates of services, and when they are renewed. */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include "certificates/certificate_keeper.h"
#include "certificates/certificate_pair.h"
#include "certificates/certificate_plan.h"
#include "certificates/certificate_trust.h"

#define NOW  2000000000ULL
#define LIFE 900ULL

#define CORPORATE_CERTIFICATE                                                \
	"-----BEGIN CERTIFICATE-----\n"                                      \
	"MIIBmDCCAT+gAwIBAgIUWSBtN+gfMlELFHKPnewPhvEDFCMwCgYIKoZIzj0EAwIw\n" \
	"ITEfMB0GA1UEAwwWQ29ycG9yYXRlIGlzc3VpbmcgQ0EgMzAgFw0yNjExMTgwNTI1\n" \
	"MDlaGA8yMTI2MTAyNTA1MjUwOVowITEfMB0GA1UEAwwWY2Fpcm4tYWdnYXBpLmNh\n" \
	"aXJuLnN2YzBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABDh2E7F8orLfvUtzjWDU\n" \
	"ohMDVf+bVkBr8pQjPisRS+yS+DyOuk4BgtRJ4Uw3ODiYeMizeWJ7v2VEs/UwgbcZ\n" \
	"tNejUzBRMB0GA1UdDgQWBBRMTQSgz/ALliqcG1cvOJ3uROhhQDAfBgNVHSMEGDAW\n" \
	"gBQgXPpUu+Og2kItj/lFwQd3nk+9pDAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49\n" \
	"BAMCA0cAMEQCIDsZcj7vD2kb3+/MxsHO0IIz0VzqR6p0yPByevjNgmvoAiA+hdbj\n" \
	"Nc/wUXBEnpT6Fz9qy0S2UAV3KBw/3Q/PaklJrA==\n"                         \
	"-----END CERTIFICATE-----\n"

struct made {
	struct certificates_pair pair;
	char *ca;
};

static struct made make(uint64_t now_s)
{
	struct made made = {0};
	struct cairn_err err = {0};

	assert_ok(certificates_issue("cairn-aggapi", "cairn", now_s, LIFE, &made.pair, &made.ca,
				     &err),
		  &err);
	return made;
}

static void unmake(struct made *made)
{
	certificates_pair_done(&made->pair);
	free(made->ca);
}

static int check_at(const struct certificates_pair *pair, const char *bundle, uint64_t now_s)
{
	struct certificates_validity validity;

	return certificates_check(pair, bundle, "cairn-aggapi", "cairn", now_s, &validity, NULL);
}

static void a_certificate_serves_its_service_for_its_life(void **state)
{
	struct made made = make(NOW);
	struct certificates_validity validity = {0};

	(void)state;
	assert_code(certificates_check(&made.pair, made.ca, "cairn-aggapi", "cairn", NOW, &validity,
				       NULL),
		    0);
	assert_int_equal(validity.made_s, NOW);
	assert_int_equal(validity.ends_s, NOW + LIFE);
	assert_code(check_at(&made.pair, made.ca, NOW + LIFE - 1), 0);
	assert_code(check_at(&made.pair, made.ca, NOW + LIFE + 1), CAIRN_INVALID);
	assert_code(certificates_check(&made.pair, made.ca, "cairn-manager", "cairn", NOW,
				       &validity, NULL),
		    CAIRN_INVALID);
	assert_code(certificates_check(&made.pair, made.ca, "cairn-aggapi", "other", NOW, &validity,
				       NULL),
		    CAIRN_INVALID);
	unmake(&made);
}

/* Of `openssl verify` with another clock, which knows nothing of how we read times. */
static int openssl_verifies_at(const struct made *made, uint64_t at_s)
{
	BIO *crt = BIO_new_mem_buf(made->pair.crt, -1), *ca = BIO_new_mem_buf(made->ca, -1);
	X509 *x = PEM_read_bio_X509(crt, NULL, NULL, NULL);
	X509 *authority = PEM_read_bio_X509(ca, NULL, NULL, NULL);
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *context = X509_STORE_CTX_new();
	int error;

	assert_true(x && authority && store && context);
	assert_int_equal(X509_STORE_add_cert(store, authority), 1);
	assert_int_equal(X509_STORE_CTX_init(context, store, x, NULL), 1);
	X509_STORE_CTX_set_time(context, 0, (time_t)at_s);
	error = X509_verify_cert(context) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(context);
	X509_STORE_CTX_free(context);
	X509_STORE_free(store);
	X509_free(authority);
	X509_free(x);
	BIO_free(ca);
	BIO_free(crt);
	return error;
}

static void a_peer_whose_clock_is_behind_accepts_a_fresh_certificate(void **state)
{
	static const uint64_t month_s = 30 * 86400;
	struct made short_one = make(NOW), long_one = {0};
	struct certificates_validity validity = {0};

	(void)state;
	assert_code(certificates_issue("cairn-aggapi", "cairn", NOW, month_s, &long_one.pair,
				       &long_one.ca, NULL),
		    0);
	assert_int_equal(openssl_verifies_at(&short_one, NOW - LIFE / 9), X509_V_OK);
	assert_int_equal(openssl_verifies_at(&short_one, NOW - LIFE / 9 - 1),
			 X509_V_ERR_CERT_NOT_YET_VALID);
	assert_int_equal(openssl_verifies_at(&long_one, NOW - CERTIFICATES_SLOW_CLOCK_S),
			 X509_V_OK);
	assert_int_equal(openssl_verifies_at(&long_one, NOW - CERTIFICATES_SLOW_CLOCK_S - 1),
			 X509_V_ERR_CERT_NOT_YET_VALID);
	assert_code(certificates_check(&long_one.pair, long_one.ca, "cairn-aggapi", "cairn", NOW,
				       &validity, NULL),
		    0);
	assert_int_equal(validity.made_s, NOW);
	assert_int_equal(validity.ends_s, NOW + month_s);
	unmake(&short_one);
	unmake(&long_one);
}

/* The next leader's clock may be behind: it must not replace what the last one made. */
static void a_certificate_of_a_faster_clock_is_kept(void **state)
{
	struct made made = make(NOW);

	(void)state;
	assert_code(check_at(&made.pair, made.ca, NOW - 10 * LIFE), 0);
	unmake(&made);
}

static void certificates_of_others_are_recognised(void **state)
{
	/* Issuer "CN=Corporate issuing CA 3", notAfter 2126. */
	static const char corporate[] = CORPORATE_CERTIFICATE;
	struct made made = make(NOW);

	(void)state;
	assert_true(certificates_is_own(made.pair.crt, "cairn-aggapi", "cairn"));
	assert_false(certificates_is_own(corporate, "cairn-aggapi", "cairn"));
	assert_false(certificates_is_own("no certificate", "cairn-aggapi", "cairn"));
	assert_false(certificates_is_own(NULL, "cairn-aggapi", "cairn"));
	assert_int_equal(certificates_end(made.pair.crt), NOW + LIFE);
	assert_int_equal(certificates_end("no certificate"), 0);
	assert_int_equal(certificates_end(NULL), 0);
	assert_true(certificates_end(corporate) > NOW);
	unmake(&made);
}

static void what_does_not_belong_together_is_not_used(void **state)
{
	struct made one = make(NOW), two = make(NOW);
	struct certificates_pair mixed = {.crt = one.pair.crt, .key = two.pair.key};
	struct certificates_pair no_key = {.crt = one.pair.crt};
	struct certificates_pair text = {.crt = one.pair.key, .key = one.pair.key};

	(void)state;
	assert_code(check_at(&mixed, one.ca, NOW), CAIRN_INVALID);
	assert_code(check_at(&no_key, one.ca, NOW), CAIRN_INVALID);
	assert_code(check_at(&text, one.ca, NOW), CAIRN_INVALID);
	assert_code(check_at(&one.pair, two.ca, NOW), CAIRN_INVALID);
	assert_code(check_at(&one.pair, NULL, NOW), CAIRN_INVALID);
	assert_code(check_at(&one.pair, "no certificate", NOW), CAIRN_INVALID);
	unmake(&one);
	unmake(&two);
}

static size_t count_of(const char *bundle)
{
	size_t n = 0;

	for (const char *at = bundle; (at = strstr(at, "BEGIN CERTIFICATE")); at++)
		n++;
	return n;
}

static void a_bundle_trusts_old_and_new_until_they_expire(void **state)
{
	struct made old = make(NOW), new = make(NOW + 600);
	char *both = NULL, *again = NULL, *later = NULL, *none = NULL;

	(void)state;
	assert_code(certificates_bundle(old.ca, new.ca, NOW + 600, &both, NULL), 0);
	assert_int_equal(count_of(both), 2);
	assert_code(check_at(&old.pair, both, NOW + 700), 0);
	assert_code(check_at(&new.pair, both, NOW + 700), 0);
	assert_code(certificates_bundle(both, new.ca, NOW + 600, &again, NULL), 0);
	assert_string_equal(both, again);
	assert_code(certificates_bundle(both, NULL, NOW + LIFE, &later, NULL), 0);
	assert_string_equal(later, new.ca);
	assert_code(certificates_bundle(both, NULL, NOW + 3 * LIFE, &none, NULL), 0);
	assert_string_equal(none, "");
	free(both);
	free(again);
	free(later);
	free(none);
	unmake(&old);
	unmake(&new);
}

static void a_bundle_has_a_limit_and_keeps_the_newest(void **state)
{
	struct made last = {0};
	char *bundle = NULL;

	(void)state;
	for (uint64_t i = 0; i < CERTIFICATES_BUNDLE_MAX + 2; i++) {
		char *next = NULL;

		unmake(&last);
		last = make(NOW + i);
		assert_code(certificates_bundle(bundle, last.ca, NOW + i, &next, NULL), 0);
		free(bundle);
		bundle = next;
	}
	assert_int_equal(count_of(bundle), CERTIFICATES_BUNDLE_MAX);
	assert_code(check_at(&last.pair, bundle, NOW + 10), 0);
	free(bundle);
	unmake(&last);
}

static void steps_of_a_renewal(void **state)
{
	const struct certificates_validity first = {.made_s = NOW, .ends_s = NOW + LIFE};
	const struct certificates_validity second = {NOW + 600, NOW + 600 + LIFE};
	static const uint64_t overlap = 60;

	(void)state;
	assert_int_equal(certificates_plan(NULL, NULL, NOW, overlap), CERTIFICATES_ISSUE);
	assert_int_equal(certificates_plan(&first, NULL, NOW + 599, overlap), CERTIFICATES_KEEP);
	assert_int_equal(certificates_plan(&first, NULL, NOW + 600, overlap), CERTIFICATES_PREPARE);
	assert_int_equal(certificates_plan(&first, &second, NOW + 659, overlap), CERTIFICATES_KEEP);
	assert_int_equal(certificates_plan(&first, &second, NOW + 660, overlap),
			 CERTIFICATES_SWITCH);
	assert_int_equal(certificates_plan(NULL, &second, NOW + 601, overlap), CERTIFICATES_SWITCH);
}

static void what_is_wanted_is_looked_for_in_lists(void **state)
{
	static const struct {
		const char *wanted, *found;
		bool contained;
	} cases[] = {
		{"{\"a\":1}", "{\"a\":1,\"b\":2}", true},
		{"{\"a\":1}", "{\"a\":2}", false},
		{"{\"a\":{\"b\":\"x\"}}", "{\"a\":{\"b\":\"x\",\"c\":0}}", true},
		{"{\"a\":{\"b\":\"x\"}}", "{\"b\":\"x\"}", false},
		{"{\"l\":[{\"n\":2}]}", "{\"l\":[{\"n\":1},{\"n\":2,\"m\":3}]}", true},
		{"{\"l\":[{\"n\":3}]}", "{\"l\":[{\"n\":1},{\"n\":2}]}", false},
		{"{\"l\":[{\"n\":3}]}", "{}", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		json_t *wanted = json_loads(cases[i].wanted, 0, NULL);
		json_t *found = json_loads(cases[i].found, 0, NULL);

		assert_int_equal(certificates_contained(wanted, found), cases[i].contained);
		json_decref(wanted);
		json_decref(found);
	}
}

static void generations_are_a_list_of_names(void **state)
{
	unsigned chosen = 0;

	(void)state;
	assert_code(certificates_generations_parse("sessions,diffsnap", &chosen, NULL), 0);
	assert_int_equal(chosen, CERTIFICATES_SESSIONS | CERTIFICATES_DIFFSNAP);
	assert_code(certificates_generations_parse("all", &chosen, NULL), 0);
	assert_int_equal(chosen, 15);
	assert_code(certificates_generations_parse("", &chosen, NULL), CAIRN_INVALID);
	assert_code(certificates_generations_parse("sessions,", &chosen, NULL), CAIRN_INVALID);
	assert_code(certificates_generations_parse("session", &chosen, NULL), CAIRN_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_certificate_serves_its_service_for_its_life),
		cmocka_unit_test(a_peer_whose_clock_is_behind_accepts_a_fresh_certificate),
		cmocka_unit_test(a_certificate_of_a_faster_clock_is_kept),
		cmocka_unit_test(certificates_of_others_are_recognised),
		cmocka_unit_test(what_does_not_belong_together_is_not_used),
		cmocka_unit_test(a_bundle_trusts_old_and_new_until_they_expire),
		cmocka_unit_test(a_bundle_has_a_limit_and_keeps_the_newest),
		cmocka_unit_test(steps_of_a_renewal),
		cmocka_unit_test(what_is_wanted_is_looked_for_in_lists),
		cmocka_unit_test(generations_are_a_list_of_names),
	};

	return cmocka_run_group_tests_name("certificates", tests, NULL, NULL);
}
