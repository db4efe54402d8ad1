/* SPDX-License-Identifier: Apache-2.0 */

/* A client of HTTP/2 made of bytes: it can say what no library lets it say. */
#ifndef CAIRN_TESTS_UNIT_GRPC_RAW_H
#define CAIRN_TESTS_UNIT_GRPC_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RAW_WAIT_MS   60000
#define RAW_NO_GOAWAY UINT32_MAX

enum {
	RAW_DATA = 0,
	RAW_HEADERS = 1,
	RAW_RST_STREAM = 3,
	RAW_SETTINGS = 4,
	RAW_PING = 6,
	RAW_GOAWAY = 7,
	RAW_WINDOW_UPDATE = 8,
	RAW_CONTINUATION = 9
};
enum { RAW_END_STREAM = 1, RAW_END_HEADERS = 4 };

struct raw {
	int fd;
	uint8_t out[1 << 16];
	size_t n;
	bool broken;
	bool dropped; /* bytes that came were thrown away: fields cannot be decoded */
};

/* What came back until the connection ended. */
struct raw_reply {
	bool closed;
	uint32_t goaway;      /* the last error code */
	uint32_t resets;      /* RST_STREAM frames */
	uint32_t reset_error; /* of the last of them */
	uint32_t headers;     /* HEADERS frames */
	uint32_t data;        /* bytes of DATA frames */
	bool ended;           /* a frame had END_STREAM */
	char text[1 << 14];   /* the fields, as "name: value" lines */
	size_t text_len;
};

void raw_connect(struct raw *raw, const char *path);
/* The same, with preface and SETTINGS. */
void raw_greet(struct raw *raw, const char *path);

void raw_put(struct raw *raw, const void *data, size_t n);
void raw_put_frame(struct raw *raw, uint8_t type, uint8_t flags, uint32_t id, const void *data,
		   uint32_t n);
void raw_flush(struct raw *raw);

/* A literal field that is not indexed; the length it has at `at`. */
size_t raw_field(uint8_t *at, const char *name, const char *value);
/* What every gRPC request says. */
size_t raw_request_block(uint8_t at[512], const char *path);
void raw_put_request(struct raw *raw, uint32_t id, const char *path);

bool raw_read_all(int fd, uint8_t *at, size_t n);
/* Reads frames until the connection ends, or until `enough` HEADERS frames came.
 * Once a connection: the fields of a second time could not be decoded. */
void raw_read_reply(struct raw *raw, struct raw_reply *reply, uint32_t enough);
/* The same until the stream has ended, by frame or by reset. */
void raw_read_answer(struct raw *raw, struct raw_reply *reply);
/* The same until the fields that came hold the text. */
void raw_read_until(struct raw *raw, struct raw_reply *reply, const char *text);

#endif
