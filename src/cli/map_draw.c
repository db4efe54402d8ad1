/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/map_draw.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "block/cells.h"
#include "cli/output.h"

#define LABEL_COLUMNS 10 /* "1023.5 GiB" */
#define FRAME_COLUMNS (LABEL_COLUMNS + 3)
#define STEP          16 /* cells; keeps the offsets at line starts round */
#define SHADES        4

/* A set of characters for cells and frame. */
struct style {
	const char *shade[SHADES]; /* from little to all */
	const char *zeroed;
	const char *unchanged;
	const char *side;
	const char *rule;
	const char *corner[4]; /* top left, top right, bottom left, bottom right */
};

static const struct style utf8_style = {
	.shade = {"░", "▒", "▓", "█"},
	.zeroed = "○",
	.unchanged = "·",
	.side = "│",
	.rule = "─",
	.corner = {"┌", "┐", "└", "┘"},
};

static const struct style ascii_style = {
	.shade = {"-", "+", "*", "#"},
	.zeroed = "0",
	.unchanged = ".",
	.side = "|",
	.rule = "-",
	.corner = {"+", "+", "+", "+"},
};

/* SGR parameters. Denser change is hotter. */
static const char *const shade_color[SHADES] = {"33", "33", "1;33", "1;31"};
#define COLOR_ZEROED    "36"
#define COLOR_UNCHANGED "2"
#define COLOR_ALLOCATED "34"

/* The appearance of a cell. */
struct look {
	const char *sign;
	const char *color; /* NULL: the default colour */
};

static const struct style *style_of(const struct cmd_picture *picture)
{
	return picture->utf8 ? &utf8_style : &ascii_style;
}

/* Returns 0 for up to 1/16 of the cell, 1 for up to 1/4, 2 for up to 3/4, 3 above. */
static int shade_of(uint64_t bytes, uint64_t span)
{
	if (bytes <= span / 16)
		return 0;
	if (bytes <= span / 4)
		return 1;
	return bytes <= span - span / 4 ? 2 : 3;
}

static struct look look_of(const struct cmd_picture *picture, size_t i)
{
	const struct style *style = style_of(picture);
	const struct block_cells *cells = picture->cells;
	enum block_cell_state state = block_cells_state(cells, i);
	int shade;

	if (state == BLOCK_CELL_HOLE)
		return (struct look){" ", NULL};
	shade = shade_of(block_cells_bytes(cells, i, state), block_cells_span(cells, i));
	if (state == BLOCK_CELL_CHANGED)
		return (struct look){style->shade[shade], shade_color[shade]};
	if (state == BLOCK_CELL_ZEROED)
		return (struct look){style->zeroed, COLOR_ZEROED};
	if (picture->allocation)
		return (struct look){style->shade[shade], COLOR_ALLOCATED};
	return (struct look){style->unchanged, COLOR_UNCHANGED};
}

/* Changes the colour if it differs from the current one. */
static void set_color(const struct cmd_picture *picture, const char **current, const char *color)
{
	if (!picture->color || *current == color)
		return;
	if (*current)
		cmd_out_text("\033[0m");
	if (color)
		cmd_outf("\033[%sm", color);
	*current = color;
}

size_t cmd_picture_columns(size_t terminal_columns)
{
	size_t room = terminal_columns > FRAME_COLUMNS ? terminal_columns - FRAME_COLUMNS : 0;

	return room < STEP ? STEP : room - room % STEP;
}

static void print_rule(const struct cmd_picture *picture, const char *left, const char *right)
{
	cmd_out_repeat(' ', LABEL_COLUMNS + 1);
	cmd_out_text(left);
	for (size_t i = 0; i < picture->columns; i++)
		cmd_out_text(style_of(picture)->rule);
	cmd_outf("%s\n", right);
}

/* Prints an exact offset: "2.25 GiB", not "2.2 GiB". */
static void print_offset(uint64_t offset)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	char text[CAIRN_SIZE_TEXT_MAX];
	unsigned unit = 0;
	size_t columns;

	while (unit + 1 < sizeof(units) / sizeof(units[0]) && offset >> (10 * (unit + 1)))
		unit++;
	/* Use a smaller unit if two decimals are not exact. */
	while (unit > 0 && (offset & ((1ULL << (10 * unit - 2)) - 1)) != 0)
		unit--;
	if (unit > 0 && (offset & ((1ULL << (10 * unit)) - 1)) != 0)
		snprintf(text, sizeof(text), "%g %s",
			 (double)offset / (double)(1ULL << (10 * unit)), units[unit]);
	else
		snprintf(text, sizeof(text), "%llu %s", (unsigned long long)(offset >> (10 * unit)),
			 units[unit]);
	columns = strlen(text);
	cmd_out_repeat(' ', columns < LABEL_COLUMNS ? LABEL_COLUMNS - columns : 0);
	cmd_outf("%s ", text);
}

static void print_line(const struct cmd_picture *picture, size_t first)
{
	const struct style *style = style_of(picture);
	const char *current = NULL;

	print_offset(first * picture->cells->cell_size);
	cmd_out_text(style->side);
	for (size_t i = first; i < first + picture->columns; i++) {
		struct look look = {" ", NULL};

		if (i < picture->cells->n)
			look = look_of(picture, i);
		set_color(picture, &current, look.color);
		cmd_out_text(look.sign);
	}
	set_color(picture, &current, NULL);
	cmd_outf("%s\n", style->side);
}

/* Prints the meaning of a character, and how much of the volume it stands for. */
static void print_total(const struct cmd_picture *picture, enum block_cell_state state,
			struct look look, const char *meaning)
{
	const char *current = NULL;
	uint64_t bytes = block_cells_total(picture->cells, state);
	double percent = (double)bytes * 100.0 / (double)picture->cells->size;
	size_t columns = cairn_text_columns(look.sign);
	char size[CAIRN_SIZE_TEXT_MAX];

	cmd_out_repeat(' ', LABEL_COLUMNS + 2);
	set_color(picture, &current, look.color);
	cmd_out_text(look.sign);
	set_color(picture, &current, NULL);
	cmd_out_repeat(' ', SHADES + 1 - columns);
	cmd_outf("%-10s %10s  ", meaning, cairn_format_size(bytes, size));
	if (bytes > 0 && percent < 0.1)
		cmd_out_text("< 0.1 %\n");
	else
		cmd_outf("%5.1f %%\n", percent);
}

static void map_draw_print_totals(const struct cmd_picture *picture)
{
	const struct style *style = style_of(picture);
	char shades[32];

	snprintf(shades, sizeof(shades), "%s%s%s%s", style->shade[0], style->shade[1],
		 style->shade[2], style->shade[3]);
	if (picture->allocation) {
		print_total(picture, BLOCK_CELL_UNCHANGED, (struct look){shades, COLOR_ALLOCATED},
			    "allocated");
	} else {
		print_total(picture, BLOCK_CELL_CHANGED, (struct look){shades, shade_color[1]},
			    "changed");
		print_total(picture, BLOCK_CELL_ZEROED, (struct look){style->zeroed, COLOR_ZEROED},
			    "zeroed");
		print_total(picture, BLOCK_CELL_UNCHANGED,
			    (struct look){style->unchanged, COLOR_UNCHANGED}, "unchanged");
	}
	print_total(picture, BLOCK_CELL_HOLE, (struct look){" ", NULL}, "hole");
}

void cmd_picture_print(const struct cmd_picture *picture)
{
	const struct style *style = style_of(picture);

	print_rule(picture, style->corner[0], style->corner[1]);
	for (size_t i = 0; i < picture->cells->n; i += picture->columns)
		print_line(picture, i);
	print_rule(picture, style->corner[2], style->corner[3]);
	map_draw_print_totals(picture);
}
