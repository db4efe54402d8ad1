/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "inventory/backups.h"
#include "inventory/inventory_objects.h"
#include "inventory/nodes.h"
#include "inventory/pool_metrics.h"
#include "inventory/snapshots.h"
#include "inventory/volumes.h"

/* A list of objects, which are written with single quotes. */
static json_t *list_of(const char *const objects[])
{
	json_t *items = json_array();
	json_t *list = json_pack("{s:o}", "items", items);

	for (; *objects; objects++) {
		char *text = strdup(*objects);

		assert_non_null(text);
		for (char *p = text; *p; p++)
			*p = *p == '\'' ? '"' : *p;
		assert_int_equal(json_array_append_new(items, json_loads(text, 0, NULL)), 0);
		free(text);
	}
	assert_non_null(list);
	return list;
}
#define LIST(...) list_of((const char *const[]){__VA_ARGS__, NULL})

#define SERVICE "{'metadata':{'name':'ours'}}"

#define SNAPSHOT(name, claim, time, ready)                                                       \
	"{'metadata':{'namespace':'a','name':'" name "','uid':'u-" name "'},"                    \
	"'spec':{'source':{'persistentVolumeClaimName':'" claim "'}},"                           \
	"'status':{'boundVolumeSnapshotContentName':'c-" name "','creationTime':'2026-01-0" time \
	"T00:00:00Z','restoreSize':'64Mi','readyToUse':" ready "}}"

#define CONTENT(name, of, volume, driver, ns)                                                     \
	"{'metadata':{'name':'c-" name "'},'spec':{'driver':'" driver "',"                        \
	"'source':{'volumeHandle':'" volume "'},'volumeSnapshotRef':{'namespace':'a','name':'" of \
	"','uid':'u-" of "'}},'status':{'readyToUse':true,'snapshotHandle':'h-" name              \
	"','creationTime':" ns "}}"

/* What the cluster has, and the rows that are made from it. */
struct world {
	struct inventory inventory;
	struct inventory_snapshot *rows;
	size_t n;
};

static void world_done(struct world *w)
{
	inventory_done(&w->inventory);
	free(w->rows);
}

static void make_rows(struct world *w)
{
	struct cairn_err err = {0};

	assert_ok(inventory_snapshots(&w->inventory, &w->rows, &w->n, &err), &err);
}

static const struct inventory_snapshot *snapshot_named(const struct world *w, const char *name)
{
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->rows[i].name, name) == 0)
			return &w->rows[i];
	fail_msg("there is no row %s", name);
	return NULL;
}

static void a_base_is_the_newest_usable_snapshot_of_the_same_volume(void **state)
{
	cairn_cleanup(world_done) struct world w = {.inventory.list[INVENTORY_SERVICES] =
							    LIST(SERVICE)};

	(void)state;
	/* "stolen" points to the content of "two"; the claim was made again before "new". */
	w.inventory.list[INVENTORY_SNAPSHOTS] =
		LIST(SNAPSHOT("three", "data", "3", "true"), SNAPSHOT("one", "data", "1", "true"),
		     SNAPSHOT("two", "data", "2", "true"), SNAPSHOT("early", "data", "4", "false"),
		     SNAPSHOT("new", "data", "5", "true"), SNAPSHOT("other", "data", "6", "true"),
		     SNAPSHOT("stolen", "data", "2", "true"));
	w.inventory.list[INVENTORY_CONTENTS] = LIST(CONTENT("one", "one", "v1", "ours", "1"),
						    CONTENT("two", "two", "v1", "ours", "2"),
						    CONTENT("three", "three", "v1", "ours", "3"),
						    CONTENT("new", "new", "v2", "ours", "5"),
						    CONTENT("other", "other", "v1", "foreign", "6"),
						    CONTENT("stolen", "two", "v1", "ours", "2"));
	make_rows(&w);
	assert_int_equal(w.n, 7);
	assert_null(snapshot_named(&w, "one")->base);
	assert_string_equal(snapshot_named(&w, "two")->base, "one");
	assert_string_equal(snapshot_named(&w, "three")->base, "two");
	assert_false(snapshot_named(&w, "early")->ready);
	assert_null(snapshot_named(&w, "early")->base);
	assert_null(snapshot_named(&w, "new")->base);
	assert_null(snapshot_named(&w, "other")->base);
	assert_false(snapshot_named(&w, "stolen")->ready);
	assert_int_equal(snapshot_named(&w, "one")->size, 64 << 20);
}

static void snapshots_of_one_second_have_an_order(void **state)
{
	cairn_cleanup(world_done) struct world w = {.inventory.list[INVENTORY_SERVICES] =
							    LIST(SERVICE)};

	(void)state;
	w.inventory.list[INVENTORY_SNAPSHOTS] =
		LIST(SNAPSHOT("b", "data", "1", "true"), SNAPSHOT("a", "data", "1", "true"));
	w.inventory.list[INVENTORY_CONTENTS] =
		LIST(CONTENT("a", "a", "v1", "ours", "1700000000000000002"),
		     CONTENT("b", "b", "v1", "ours", "1700000000000000001"));
	make_rows(&w);
	assert_null(snapshot_named(&w, "b")->base);
	assert_string_equal(snapshot_named(&w, "a")->base, "b");
}

static void without_contents_a_snapshot_is_shown_and_its_base_is_not(void **state)
{
	cairn_cleanup(world_done) struct world w = {.inventory.list[INVENTORY_SERVICES] =
							    LIST(SERVICE)};

	(void)state;
	w.inventory.list[INVENTORY_SNAPSHOTS] =
		LIST(SNAPSHOT("one", "data", "1", "true"), SNAPSHOT("two", "data", "2", "true"));
	w.inventory.driver = "ours";
	make_rows(&w);
	assert_int_equal(w.n, 2);
	assert_true(w.rows[1].ready);
	assert_null(w.rows[1].driver);
	assert_null(w.rows[1].base);
}

#define VOLUME(name, driver, node)                                                      \
	"{'metadata':{'name':'" name "'},'spec':{'capacity':{'storage':'1Gi'},"         \
	"'csi':{'driver':'" driver "','volumeHandle':'v'},'nodeAffinity':{'required':"  \
	"{'nodeSelectorTerms':[{'matchExpressions':[{'key':'topology." driver "/node'," \
	"'operator':'In','values':['" node "']}]}]}}}}"
#define CLAIM(name, volume)                                                                      \
	"{'metadata':{'namespace':'a','name':'" name "','annotations':{"                         \
	"'volume.kubernetes.io/storage-provisioner':'ours'}},'spec':{'volumeName':'" volume "'," \
	"'volumeMode':'Block'},'status':{'phase':'Bound','capacity':{'storage':'1Gi'}}}"

struct volumes_seen {
	size_t n;
	struct inventory_volume at[4];
};

static int see_volume(void *arg, const struct inventory_volume *volume, struct cairn_err *err)
{
	struct volumes_seen *seen = arg;

	(void)err;
	assert_true(seen->n < 4);
	seen->at[seen->n++] = *volume;
	return 0;
}

static void claims_of_the_driver_have_their_node_and_snapshots(void **state)
{
	cairn_cleanup(inventory_done) struct inventory inventory = {0};
	struct volumes_seen seen = {0};
	struct cairn_err err = {0};

	(void)state;
	inventory.list[INVENTORY_DRIVERS] =
		LIST("{'metadata':{'name':'ours','labels':{'app.kubernetes.io/name':'cairn'}}}",
		     "{'metadata':{'name':'foreign'}}");
	inventory.list[INVENTORY_VOLUMES] =
		LIST(VOLUME("p1", "ours", "n1"), VOLUME("p2", "foreign", "n1"));
	inventory.list[INVENTORY_CLAIMS] =
		LIST(CLAIM("data", "p1"), CLAIM("strange", "p2"), CLAIM("waits", "not-listed"));
	inventory.list[INVENTORY_SNAPSHOTS] =
		LIST(SNAPSHOT("one", "data", "1", "true"), SNAPSHOT("two", "data", "2", "true"));
	assert_ok(inventory_volumes(&inventory, see_volume, &seen, &err), &err);
	assert_int_equal(seen.n, 2);
	assert_string_equal(seen.at[0].claim, "data");
	assert_string_equal(seen.at[0].node, "n1");
	assert_int_equal(seen.at[0].size, 1 << 30);
	assert_int_equal(seen.at[0].snapshots, 2);
	assert_string_equal(seen.at[0].newest, "two");
	/* Its PersistentVolume is unknown: the annotation names the driver, nothing the node. */
	assert_string_equal(seen.at[1].claim, "waits");
	assert_null(seen.at[1].node);
}

#define POD(name, node, ready, privileged)                                          \
	"{'metadata':{'namespace':'cairn','name':'" name "','labels':{"             \
	"'app.kubernetes.io/component':'driver'}},'spec':{'nodeName':'" node "',"   \
	"'containers':[{'args':['driver','--driver-name=ours'],'securityContext':{" \
	"'privileged':" privileged "}}]},"                                          \
	"'status':{'conditions':[{'type':'Ready','status':'" ready "'}]}}"

static int see_state(void *arg, const struct inventory_node *node, struct cairn_err *err)
{
	char *text = arg;

	(void)err;
	snprintf(text + strlen(text), 256 - strlen(text), "%s=%s;%d ", node->node,
		 inventory_node_state_text(node->state), (int)node->volumes);
	return 0;
}

static void every_state_of_a_node_is_told(void **state)
{
	cairn_cleanup(inventory_done) struct inventory inventory = {0};
	struct cairn_err err = {0};
	char text[256] = "";

	(void)state;
	inventory.list[INVENTORY_SERVICES] = LIST(SERVICE);
	inventory.list[INVENTORY_CSINODES] = LIST(
		"{'metadata':{'name':'n1'},'spec':{'drivers':[{'name':'ours'},{'name':'no'}]}}",
		"{'metadata':{'name':'n2'},'spec':{'drivers':[{'name':'ours'}]}}",
		"{'metadata':{'name':'n3'},'spec':{'drivers':[{'name':'ours'}]}}",
		"{'metadata':{'name':'n4'},'spec':{'drivers':null}}");
	inventory.list[INVENTORY_VOLUMES] =
		LIST(VOLUME("p1", "ours", "n1"), VOLUME("p2", "foreign", "n1"));
	assert_ok(inventory_nodes(&inventory, see_state, text, &err), &err);
	assert_string_equal(text, "n1=-;1 n2=-;0 n3=-;0 ");
	inventory.list[INVENTORY_PODS] =
		LIST(POD("false", "n1", "False", "false"), POD("d1", "n1", "True", "true"),
		     POD("d2", "n2", "False", "true"), POD("d4", "n4", "True", "true"));
	text[0] = '\0';
	assert_ok(inventory_nodes(&inventory, see_state, text, &err), &err);
	assert_string_equal(text, "n1=ready;1 n2=not ready;0 n3=no pod;0 n4=not registered;0 ");
}

static int see_backup(void *arg, const struct inventory_backup *backup, struct cairn_err *err)
{
	char *text = arg;

	(void)err;
	snprintf(text + strlen(text), 512 - strlen(text), "%s %s %s %s; ", backup->what,
		 backup->claim ? backup->claim : "(null)", backup->state,
		 backup->schedule ? backup->schedule : "-");
	return 0;
}

#define CRONJOB(args, more)                                                                  \
	"{'metadata':{'namespace':'a','name':'nightly'},'spec':{" more                       \
	"'schedule':'15 2 * * *','jobTemplate':{'spec':{'template':{'spec':{'containers':[{" \
	"'args':[" args "],'env':[{'name':'CLAIM','value':'data'}]}]}}}}}}"

static void schedules_runs_and_bases_are_told(void **state)
{
	cairn_cleanup(inventory_done) struct inventory inventory = {0};
	struct cairn_err err = {0};
	char text[512] = "";

	(void)state;
	inventory.list[INVENTORY_CRONJOBS] = LIST(
		CRONJOB("'backup','create','--pvc=$(CLAIM)'", ""),
		CRONJOB("'backup','create','--pvc','other'", "'suspend':true,"),
		CRONJOB("'backup','create','--selector=app in (db),!old'", ""),
		CRONJOB("'backup','create','--selector=\\u001b[2J'", ""),
		CRONJOB("'backup','forget'", ""), CRONJOB("'backup','create','--pvc=$(NONE)'", ""));
	inventory.list[INVENTORY_JOBS] =
		LIST("{'metadata':{'namespace':'a','name':'j','labels':{"
		     "'cairn.csi.dev/backup':'create'},'annotations':{"
		     "'cairn.csi.dev/claim-name':'data'}},'status':{'conditions':[{"
		     "'type':'Failed','status':'True'}]}}",
		     "{'metadata':{'namespace':'a','name':'r','labels':{"
		     "'cairn.csi.dev/backup':'restore'}}}");
	inventory.list[INVENTORY_SNAPSHOTS] =
		LIST(SNAPSHOT("one", "data", "1", "true"),
		     "{'metadata':{'namespace':'a','name':'b','labels':{"
		     "'cairn.csi.dev/backup':'base'},'annotations':{"
		     "'cairn.csi.dev/claim-name':'data'}}}");
	assert_ok(inventory_backups(&inventory, see_backup, text, &err), &err);
	assert_string_equal(text, "schedule data active 15 2 * * *; "
				  "schedule other suspended 15 2 * * *; "
				  "schedule app in (db),!old active 15 2 * * *; "
				  "run data failed -; base data not ready -; ");
	inventory_done(&inventory);
	inventory.list[INVENTORY_SNAPSHOTS] =
		LIST("{'metadata':{'namespace':'a','name':'b','labels':{"
		     "'cairn.csi.dev/backup':'base'},'annotations':{"
		     "'cairn.csi.dev/claim-name':'\\u001b[2J'}}}");
	text[0] = '\0';
	assert_ok(inventory_backups(&inventory, see_backup, text, &err), &err);
	assert_string_equal(text, "base (null) not ready -; ");
}

static void the_space_of_pools_is_their_sum(void **state)
{
	struct inventory_pool_space space;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(inventory_pool_space_parse(
			  "# HELP cairn_pool_bytes Space of a pool.\n"
			  "cairn_pool_bytes{pool=\"default\",kind=\"total\"} 1e+09\n"
			  "cairn_pool_bytes{pool=\"default\",kind=\"free\"} 250000000\n"
			  "cairn_pool_bytes{pool=\"two\",kind=\"total\"} 1000\n"
			  "cairn_pool_bytes{pool=\"two\",kind=\"free\"} NaN\n"
			  "cairn_pool_bytes{pool=\"cut\n"
			  "other{kind=\"total\"} 7",
			  &space, &err),
		  &err);
	assert_int_equal(space.total, 1000001000);
	assert_int_equal(space.free, 250000000);
	assert_int_equal(inventory_pool_space_parse("", &space, &err), CAIRN_NOT_FOUND);
	assert_int_equal(inventory_pool_space_parse("cairn_pool_bytes{", &space, &err),
			 CAIRN_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_base_is_the_newest_usable_snapshot_of_the_same_volume),
		cmocka_unit_test(snapshots_of_one_second_have_an_order),
		cmocka_unit_test(without_contents_a_snapshot_is_shown_and_its_base_is_not),
		cmocka_unit_test(claims_of_the_driver_have_their_node_and_snapshots),
		cmocka_unit_test(every_state_of_a_node_is_told),
		cmocka_unit_test(schedules_runs_and_bases_are_told),
		cmocka_unit_test(the_space_of_pools_is_their_sum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
