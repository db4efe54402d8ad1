/* SPDX-License-Identifier: Apache-2.0 */

/* What the views of `kubectl cairn` have in common: the objects that they read, rows of text or
 * records of JSON, and the cells of a row. */
#ifndef CAIRN_ROLES_PLUGIN_VIEW_H
#define CAIRN_ROLES_PLUGIN_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/num.h"
#include "cli/output_record.h"
#include "inventory/inventory_objects.h"

struct cairn_err;
struct kube_client;

struct client_view {
	struct kube_client *client;
	struct inventory inventory;
	struct cmd_listing listing;
	uint64_t now_ns;
	size_t rows;
	bool pools_denied; /* do not ask for the space of another pool */
};

/* Reads the kinds of these bits (inventory_read()), and notes which of the wanted ones the
 * caller may not list. */
int client_view_begin(struct client_view *view, unsigned needed, unsigned wanted,
		      struct cairn_err *err);

/* Prints the rows, or the note `nothing` if there are none. `rc` is the result so far, and is
 * returned if it is an error. */
int client_view_end(struct client_view *view, int rc, const char *nothing, struct cairn_err *err);
void client_view_done(struct client_view *view);

/* Counts a row. True if it is to be printed as text; else a JSON record was begun, which the
 * caller fills and ends. */
bool client_view_row(struct client_view *view);

/* 1 if the namespace of all rows is the same and its column, the first, is left out. */
size_t client_view_skip(void);

/* Cells of a row; "-" for what is unknown. */
const char *client_view_text(const char *text);
const char *client_view_size(uint64_t bytes, char out[CAIRN_SIZE_TEXT_MAX]);

/* "3d4h": the age in its largest two units; "-" for 0. */
#define CLIENT_AGE_TEXT_MAX 48
const char *client_view_age(const struct client_view *view, uint64_t ns,
			    char out[CLIENT_AGE_TEXT_MAX]);

/* A JSON field that is null if it is not known. */
void client_view_field(struct client_view *view, const char *key, bool known, uint64_t value);

#endif
