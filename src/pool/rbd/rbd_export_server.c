/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_export_server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/locks.h"
#include "pool/rbd/rbd_cluster.h"
#include "pool/rbd/rbd_export.h"
#include "pool/rbd/rbd_export_fuse.h"
#include "pool/rbd/rbd_export_quiesce.h"
#include "pool/rbd/rbd_image.h"
#include "pool/rbd/rbd_image_lock.h"
#include "pool/rbd/rbd_locks.h"

/* Longer than a process that has ended takes to be noticed. */
#define LOCK_WAIT_MS 3000U

struct export_server {
	const struct rbd_export_spec *spec;
	struct rbd_cluster *cluster;
	struct locks *locks;
	int lock;
	struct rbd_image_handle image;
};

static void server_done(struct export_server *server)
{
	rbd_image_done(&server->image);
	cairn_closep(&server->lock);
	pool_locks_closep(&server->locks);
	rbd_cluster_closep(&server->cluster);
}

static int server_connect(struct export_server *server, struct cairn_err *err)
{
	struct rbd_address address;
	int rc = rbd_address_parse(server->spec->address, &address, err);

	address.patient = true;
	if (!rc)
		rc = rbd_cluster_open(&address, &server->cluster, err);
	if (!rc)
		rc = rbd_locks_open(server->cluster, &server->locks, err);
	if (!rc)
		rc = pool_locks_take(server->locks, rbd_export_slot(server->spec->ref.id),
				     LOCK_WAIT_MS, &server->lock, err);
	if (rc == CAIRN_ABORTED)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "it is attached on another node; detach it there first");
	return rc;
}

static int server_open(struct export_server *server, struct cairn_err *err)
{
	int rc = server_connect(server, err);

	if (rc)
		return rc;
	if (server->spec->read_only)
		return rbd_image_open_ref(server->cluster, server->spec->ref, &server->image, err);
	rc = rbd_image_open(server->cluster, server->spec->ref.id, true, &server->image, err);
	return rc ? rc : rbd_image_lock(server->cluster, &server->image, err);
}

void rbd_export_hush(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null >= 0)
		(void)dup2(null, STDOUT_FILENO);
	cairn_closep(&null);
}

void rbd_export_say(int code, const char *text)
{
	char line[512];
	int n = snprintf(line, sizeof(line), "%d %s\n", code, text);

	(void)!write(STDOUT_FILENO, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
	rbd_export_hush();
}

static void rbd_export_say_ready(void *arg)
{
	(void)arg;
	rbd_export_say(0, "ready");
}

int rbd_export_server(const struct rbd_export_spec *spec, int fuse, struct export_state *state)
{
	cairn_cleanup(server_done) struct export_server server = {.spec = spec, .lock = -1};
	struct export_fuse_spec fuse_spec = {.fd = fuse,
					     .image = &server.image,
					     .read_only = spec->read_only,
					     .state = state,
					     .ready = rbd_export_say_ready};
	struct rbd_export_quiesce *quiesce = NULL;
	struct cairn_err err = {0};
	int rc = server_open(&server, &err);

	if (!rc && !state->begun)
		rc = rbd_export_mount(fuse, spec->file, spec->read_only, &err);
	if (!rc && !spec->read_only)
		rc = rbd_export_quiesce_begin(&server.image, spec->file, &quiesce, &err);
	if (!rc)
		rc = rbd_export_serve(&fuse_spec, &err);
	rbd_export_quiesce_end(quiesce);
	if (rc)
		rbd_export_say(err.code, err.msg);
	return rc ? 1 : 0;
}
