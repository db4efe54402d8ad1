/* SPDX-License-Identifier: Apache-2.0 */

/* Prints the blocks of a VolumeSnapshot that a backup has to copy.
 *
 *	list-blocks NAMESPACE SNAPSHOT [BASE_ID]
 *
 * Without BASE_ID, the CSI handle of the snapshot that was backed up last, all
 * allocated blocks. It runs in a pod whose service account may use the service,
 * or with a kubeconfig. $ADDRESS, $CA_FILE and $TOKEN_FILE reach a service without
 * asking Kubernetes for the way.
 *
 *	cc list-blocks.c $(pkg-config --cflags --libs cairn-client)
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <cairn/client.h>

static void on_retry(void *arg, const struct cairn_client_error *why, uint64_t wait_ms)
{
	(void)arg;
	fprintf(stderr, "%s; going on in %" PRIu64 " ms\n", why->message, wait_ms);
}

static int print_blocks(struct cairn_listing *listing, struct cairn_client_error *error)
{
	const struct cairn_block *blocks;
	size_t n;
	int rc;

	while ((rc = cairn_listing_next(listing, &blocks, &n, error)) == 1)
		for (size_t i = 0; i < n; i++)
			printf("%" PRIu64 " %" PRIu64 "\n", blocks[i].offset, blocks[i].length);
	return rc;
}

/* What a backup must keep in mind: where it got to, and what was listed. */
static void print_summary(struct cairn_listing *listing)
{
	struct cairn_listing_info info = {.size = sizeof(info)};

	cairn_listing_info(listing, &info);
	fprintf(stderr,
		"%s: %" PRIu64 " bytes of %" PRIu64 " in %" PRIu64 " streams, up to %" PRIu64 "\n",
		info.kind == CAIRN_LISTING_CHANGED ? "changed" : "allocated", info.bytes,
		info.capacity, info.streams, info.position);
}

int main(int argc, char **argv)
{
	struct cairn_client_options options = {
		.size = sizeof(options),
		.address = getenv("ADDRESS"),
		.ca_file = getenv("CA_FILE"),
		.token_file = getenv("TOKEN_FILE"),
	};
	struct cairn_listing_query query = {.size = sizeof(query), .on_retry = on_retry};
	struct cairn_client *client = NULL;
	struct cairn_listing *listing = NULL;
	struct cairn_client_error error;
	int rc;

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: list-blocks NAMESPACE SNAPSHOT [BASE_ID]\n");
		return 2;
	}
	query.namespace_name = argv[1];
	query.snapshot = argv[2];
	query.base_id = argc > 3 ? argv[3] : NULL;
	query.fall_back = true; /* a base that is gone costs a full backup, not the backup */

	rc = cairn_client_new(&options, &client, &error);
	if (rc == 0)
		rc = cairn_listing_new(client, &query, &listing, &error);
	if (rc == 0) {
		rc = print_blocks(listing, &error);
		print_summary(listing);
	}
	if (rc < 0)
		fprintf(stderr, "%s: %s\n", cairn_client_code_name(rc), error.message);
	cairn_listing_free(listing);
	cairn_client_free(client);
	return rc < 0;
}
