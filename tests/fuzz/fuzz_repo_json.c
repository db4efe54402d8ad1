/* SPDX-License-Identifier: Apache-2.0 */

/* The small documents of a repository; the first byte says which: snapshots,
 * locks, configs, key files, and listings of a REST server. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "repo/keyfile.h"
#include "repo/repo_config.h"
#include "repo/repo_lock.h"
#include "repo/repo_snapshot.h"
#include "repo/rest/rest.h"
#include "repo/snapshot_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
	if (!condition)
		abort();
}

static int ignore(void *arg, const struct repo_id *name, uint64_t size, struct cairn_err *err)
{
	(void)arg;
	(void)name;
	(void)size;
	(void)err;
	return 0;
}

/* What is accepted, written again, is accepted and is the same. */
static void snapshot(const char *json, size_t n)
{
	struct cairn_buf first = CAIRN_BUF_INIT((size_t)1 << 20);
	struct cairn_buf second = CAIRN_BUF_INIT((size_t)1 << 20);
	struct repo_snapshot *a = NULL, *b = NULL;

	if (repo_snapshot_decode(json, n, &a, NULL) < 0)
		return;
	repo_snapshot_encode(a, "host", &first);
	must(!cairn_buf_failed(&first));
	must(repo_snapshot_decode((char *)first.data, first.len, &b, NULL) == 0);
	repo_snapshot_encode(b, "host", &second);
	must(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
	repo_snapshot_free(a);
	repo_snapshot_free(b);
	cairn_buf_done(&first);
	cairn_buf_done(&second);
}

/* Key derivation is dear on purpose: only cheap ones are tried. */
static void key_file(const char *json, size_t n)
{
	struct repo_key key;

	if (memmem(json, n, "\"N\":2,", 6) && memmem(json, n, "\"r\":1,", 6))
		repo_keyfile_decode(json, n, "secret", 6, &key, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct repo_lock_info lock;
	struct repo_config config;
	const char *json = (const char *)data + 1;

	if (size == 0)
		return 0;
	switch (data[0] % 5) {
	case 0:
		snapshot(json, size - 1);
		break;
	case 1:
		if (repo_lock_decode(json, size - 1, &lock, NULL) == 0)
			repo_lock_stale(&lock, 0, &(struct repo_lock_view){.host = "here"});
		break;
	case 2:
		repo_config_decode(json, size - 1, &config, NULL);
		break;
	case 3:
		key_file(json, size - 1);
		break;
	default:
		repo_rest_parse_list(json, size - 1, ignore, NULL, NULL);
	}
	return 0;
}
