/* SPDX-License-Identifier: Apache-2.0 */

#include "measure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/flags.h"
#include "base/mem.h"
#include "base/num.h"

_Noreturn void bench_die(const char *text)
{
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, text);
	exit(1);
}

int bench_arguments(const struct cairn_flag *flags, int argc, char **argv)
{
	const struct cairn_flag *const tables[] = {flags, NULL};
	struct cairn_err err = {0};
	int n = 0;

	if (cairn_flags_parse(tables, argc - 1, argv + 1, 0, &n, &err) != 0)
		bench_die(err.msg);
	return n;
}

uint64_t bench_number(const char *text)
{
	struct cairn_err err = {0};
	uint64_t value;

	if (cairn_parse_u64(text, &value, &err) != 0)
		bench_die(err.msg);
	return value;
}

int bench_run(const struct bench_modes *modes, int n, char **args)
{
	if (n == 2 && strcmp(args[0], "serve") == 0)
		return modes->serve(args[1]);
	if (n == 4 && strcmp(args[0], "tuples") == 0)
		return modes->tuples(args[1], bench_number(args[2]), bench_number(args[3]));
	if (n == 4 && strcmp(args[0], "calls") == 0)
		return modes->calls(args[1], bench_number(args[2]), bench_number(args[3]));
	if (n == 3 && modes->slow && strcmp(args[0], "slow") == 0)
		return modes->slow(args[1], bench_number(args[2]));
	bench_die(modes->slow ? "serve, tuples, calls or slow" : "serve, tuples or calls");
}

uint64_t bench_cpu_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

struct bench_cost bench_cost_begin(uint64_t server_us)
{
	return (struct bench_cost){
		.server_us = server_us,
		.client_us = bench_cpu_us(),
		.wall_ns = cairn_monotonic_ns(),
	};
}

void bench_cost_end(struct bench_cost *cost)
{
	cost->wall_ns = cairn_monotonic_ns() - cost->wall_ns;
	cost->client_us = bench_cpu_us() - cost->client_us;
}

static void print_cost(const char *what, uint64_t n, const struct bench_cost *cost)
{
	printf("{\"%s\": %llu, \"wall_s\": %.6f, \"client_cpu_s\": %.6f, \"server_cpu_s\": %.6f",
	       what, (unsigned long long)n, (double)cost->wall_ns / 1e9,
	       (double)cost->client_us / 1e6, (double)cost->server_us / 1e6);
}

void bench_print_tuples(uint64_t tuples, const struct bench_cost *cost)
{
	print_cost("tuples", tuples, cost);
	puts("}");
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

void bench_percentiles(uint64_t *times, uint64_t count, uint64_t *ret_p50, uint64_t *ret_p99)
{
	qsort(times, count, sizeof(*times), by_value);
	*ret_p50 = times[count / 2];
	*ret_p99 = times[count - 1 - count / 100];
}

void bench_print_calls(uint64_t count, uint64_t *times, const struct bench_cost *cost)
{
	uint64_t p50, p99;

	bench_percentiles(times, count, &p50, &p99);
	print_cost("calls", count, cost);
	printf(", \"p50_us\": %.1f, \"p99_us\": %.1f}\n", (double)p50 / 1e3, (double)p99 / 1e3);
}

uint64_t *bench_pipeline(uint64_t count, uint64_t in_flight, void *(*begin)(void *arg, uint64_t i),
			 void (*finish)(void *call), void *arg)
{
	uint64_t *times = cairn_calloc(count, sizeof(*times)), begun[BENCH_IN_FLIGHT_MAX];
	void *calls[BENCH_IN_FLIGHT_MAX];

	if (!times || in_flight > BENCH_IN_FLIGHT_MAX)
		bench_die("too many calls");
	for (uint64_t i = 0; i < count + in_flight; i++) {
		uint64_t slot = i % in_flight;

		if (i >= in_flight) {
			finish(calls[slot]);
			times[i - in_flight] = cairn_monotonic_ns() - begun[slot];
		}
		if (i < count) {
			begun[slot] = cairn_monotonic_ns();
			calls[slot] = begin(arg, i);
		}
	}
	return times;
}
