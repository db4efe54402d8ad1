/* SPDX-License-Identifier: Apache-2.0 */

/* What the programs of the gRPC benchmarks share: cost, times of calls, and arguments. */
#ifndef CAIRN_BENCH_MEASURE_H
#define CAIRN_BENCH_MEASURE_H

#include <stdint.h>

struct cairn_flag;

#define BENCH_IN_FLIGHT_MAX 1024U

/* Says why, and exits with 1. */
_Noreturn void bench_die(const char *text);

/* Parses the flags of `argv`; returns the number of other arguments, which then begin at
 * argv[1]. */
int bench_arguments(const struct cairn_flag *flags, int argc, char **argv);

uint64_t bench_number(const char *text);

/* What a program of the gRPC benchmark does; it may have no slow readers. */
struct bench_modes {
	int (*serve)(const char *address);
	int (*tuples)(const char *target, uint64_t count, uint64_t per_message);
	int (*calls)(const char *target, uint64_t count, uint64_t in_flight);
	int (*slow)(const char *target, uint64_t count);
};

/* The mode that the first of `n` arguments names, with the others. */
int bench_run(const struct bench_modes *modes, int n, char **args);

/* CPU time of this process. */
uint64_t bench_cpu_us(void);

/* Certificates, and the server that a relay passes calls on to; each NULL without its flag. */
struct bench_files {
	const char *cert, *key, *ca, *relay;
};

#define BENCH_FILES_FLAGS(files)                                                      \
	{.name = "cert", .kind = CAIRN_FLAG_STRING, .target = &(files)->cert},        \
		{.name = "key", .kind = CAIRN_FLAG_STRING, .target = &(files)->key},  \
		{.name = "ca", .kind = CAIRN_FLAG_STRING, .target = &(files)->ca},    \
	{                                                                             \
		.name = "relay", .kind = CAIRN_FLAG_STRING, .target = &(files)->relay \
	}

/* While it runs: the values at its beginning; after bench_cost_end(): the differences. */
struct bench_cost {
	uint64_t wall_ns, client_us, server_us;
};

struct bench_cost bench_cost_begin(uint64_t server_us);

/* All but the server's part, which costs a call to ask for. */
void bench_cost_end(struct bench_cost *cost);

/* One line of JSON. */
void bench_print_tuples(uint64_t tuples, const struct bench_cost *cost);

/* The same, with percentiles of the times in nanoseconds, which it sorts. */
void bench_print_calls(uint64_t count, uint64_t *times, const struct bench_cost *cost);

/* The p-th percentile of sorted times: p50 and p99. */
void bench_percentiles(uint64_t *times, uint64_t count, uint64_t *ret_p50, uint64_t *ret_p99);

/* Makes `count` calls, `in_flight` at a time, finished in the order in which they begin. Returns
 * the time of each, to be freed. */
uint64_t *bench_pipeline(uint64_t count, uint64_t in_flight, void *(*begin)(void *arg, uint64_t i),
			 void (*finish)(void *call), void *arg);

#endif
