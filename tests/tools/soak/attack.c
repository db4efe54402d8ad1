/* SPDX-License-Identifier: Apache-2.0 */

/* Attacks one port of a role and says what it cost.
 *
 *   attack --port 9000 --pid 1234 [--tls] [--h2] [--kind silent] [--connections 10000]
 *          [--ms 3000] [--nice 10] [--callers 64] [--control]
 *
 * Hostile connections come from 127.0.0.2 to 127.0.0.5; those that the role closes are opened
 * again. A caller from 127.0.0.6 is timed before and meanwhile; with --callers each call comes from
 * the next of so many addresses, so that the 99th percentile is that of the worst. Prints one line of JSON; the memory
 * is that of the process `pid`. Real attackers have processors of their own: --nice
 * keeps these ones from those that the role and the caller need, as far as the
 * scheduler can. What they send does not change. With --control the caller is timed
 * again while this process takes as much processor time as the attack took of it, and
 * has no connection: attacked_ms / control_ms is what the role's own work adds. Kinds:
 *
 *   silent   says nothing at all
 *   begun    the first bytes of a TLS record, a preface or a request head
 *   idle     a finished handshake, and for HTTP/2 the peer's SETTINGS
 *   fields   HTTP/2: calls without an end whose fields are named by HPACK index;
 *            HTTP/1.1: a request without its body
 *   unread   requests that are answered, and the answers not read
 *   updates  TLS key updates
 *   bodies   HTTP/1.1: a request whose body of a megabyte lacks its last bytes
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/clock.h"
#include "base/num.h"
#include "hpack.h"

#define HOSTS         4
#define FIRST_HOST    2
#define CALLER        6
#define OPENING_MAX   256 /* connections that are being opened at once */
#define QUIET_PROBES  20
#define PROBES_MAX    100000
#define PROBE_SECONDS 60
#define UPDATES       100 /* more than a stranger may send */
#define SETTLE_MS     3000
#define CONTROL_MS    10000
#define GRPC_STREAMS  400
#define FIELD_TIMES   20
#define BODY_BYTES    999000

enum kind { SILENT, BEGUN, IDLE, FIELDS, UNREAD, UPDATES_KIND, BODIES, KINDS };

static const char *const kind_names[KINDS] = {"silent", "begun",   "idle",  "fields",
					      "unread", "updates", "bodies"};

static struct {
	uint16_t port;
	uint64_t pid;
	bool tls, h2, control;
	enum kind kind;
	size_t connections;
	uint64_t ms, nice, callers;
} options = {.connections = 1000, .ms = 2000, .callers = 1};

enum state { CLOSED, CONNECTING, SHAKING, SENDING, HOLDING };

struct hostile {
	int fd;
	SSL *ssl;
	enum state state;
	size_t sent;
};

static SSL_CTX *tls;
static int epoll_fd;
static uint8_t payload[1 << 20];
static size_t payload_len;

static void die(const char *what)
{
	perror(what);
	exit(2);
}

/* --- what they say --- */

static void add_bytes(const void *data, size_t n)
{
	if (n > sizeof(payload) - payload_len)
		die("payload");
	memcpy(payload + payload_len, data, n);
	payload_len += n;
}

static void add_text(const char *text)
{
	add_bytes(text, strlen(text));
}

static size_t put_field(uint8_t *at, const char *name, const char *value)
{
	size_t n = strlen(name), v = strlen(value);

	at[0] = 0; /* literal, not indexed */
	at[1] = (uint8_t)n;
	memcpy(at + 2, name, n);
	at[2 + n] = (uint8_t)v;
	memcpy(at + 3 + n, value, v);
	return 3 + n + v;
}

static void add_frame(uint8_t type, uint8_t flags, uint32_t id, const void *data, size_t n)
{
	uint8_t head[9] = {
		(uint8_t)(n >> 16),  (uint8_t)(n >> 8),   (uint8_t)n,         type,       flags,
		(uint8_t)(id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};

	add_bytes(head, sizeof(head));
	add_bytes(data, n);
}

/* The fields of a call; with `define` one of 3000 bytes comes into the table. */
static size_t put_call(uint8_t *block, const char *path, bool define, unsigned times)
{
	size_t n = 0;

	block[n++] = 0x83; /* :method POST */
	block[n++] = 0x87; /* :scheme https */
	n += put_field(block + n, ":path", path);
	n += put_field(block + n, ":authority", "x");
	n += put_field(block + n, "te", "trailers");
	n += put_field(block + n, "content-type", "application/grpc");
	return n + hpack_large_fields(block + n, define, times);
}

static void make_h2(void)
{
	static uint8_t block[8192];

	add_text("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	if (options.kind == BEGUN) {
		payload_len = 10;
		return;
	}
	add_frame(4, 0, 0, "", 0);
	for (uint32_t i = 0; options.kind == FIELDS && i < GRPC_STREAMS; i++)
		add_frame(1, 4, 1 + 2 * i, block,
			  put_call(block, "/snapshotmetadata.SnapshotMetadata/GetMetadataDelta",
				   i == 0, FIELD_TIMES));
	/* A name in upper case: each is reset. */
	for (uint32_t i = 0; options.kind == UNREAD && i < 20000; i++)
		add_frame(1, 5, 1 + 2 * i, block, put_field(block, "X-Bad", "1"));
}

static void make_http(void)
{
	if (options.kind == BEGUN)
		add_text("GET /healthz HTTP/1.1\r\nHost: x\r\n");
	if (options.kind == FIELDS)
		add_text("POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx");
	if (options.kind == BODIES) {
		add_text("POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
		memset(payload + payload_len, 'x', BODY_BYTES);
		payload_len += BODY_BYTES;
	}
	for (unsigned i = 0; options.kind == UNREAD && i < 5000; i++)
		add_text("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
}

/* --- their connections --- */

static int dial(unsigned host, bool blocking)
{
	struct sockaddr_in from = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(0x7f000000U + host)};
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(options.port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (blocking ? 0 : SOCK_NONBLOCK), 0);
	int on = 1;
	struct timeval limit = {.tv_sec = PROBE_SECONDS};

	if (fd < 0)
		die("socket");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) != 0)
		die("bind");
	if (blocking) {
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	}
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0 && errno != EINPROGRESS) {
		close(fd);
		return -1;
	}
	return fd;
}

static void close_hostile(struct hostile *h)
{
	SSL_free(h->ssl);
	if (h->fd >= 0)
		close(h->fd);
	*h = (struct hostile){.fd = -1};
}

static bool watch(struct hostile *h, uint32_t events, int op)
{
	struct epoll_event event = {.events = events | EPOLLRDHUP, .data.ptr = h};

	return epoll_ctl(epoll_fd, op, h->fd, &event) == 0;
}

static SSL *new_session(int fd)
{
	SSL *ssl = SSL_new(tls);

	SSL_set_fd(ssl, fd);
	SSL_set_connect_state(ssl);
	return ssl;
}

static bool open_hostile(struct hostile *h, size_t i)
{
	*h = (struct hostile){.fd = dial(FIRST_HOST + (unsigned)(i % HOSTS), false),
			      .state = CONNECTING};
	return h->fd >= 0 && watch(h, EPOLLOUT, EPOLL_CTL_ADD);
}

/* True to go on; false when the connection is over. */
static bool step_handshake(struct hostile *h)
{
	int rc = SSL_do_handshake(h->ssl), why;

	if (rc == 1) {
		h->state = SENDING;
		return watch(h, EPOLLOUT, EPOLL_CTL_MOD);
	}
	why = SSL_get_error(h->ssl, rc);
	ERR_clear_error();
	if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
		return false;
	return watch(h, why == SSL_ERROR_WANT_READ ? EPOLLIN : EPOLLOUT, EPOLL_CTL_MOD);
}

static bool hold(struct hostile *h)
{
	h->state = HOLDING;
	return watch(h, 0, EPOLL_CTL_MOD);
}

static bool update_keys(struct hostile *h)
{
	for (int i = 0; i < UPDATES; i++) {
		if (SSL_key_update(h->ssl, SSL_KEY_UPDATE_REQUESTED) != 1 ||
		    SSL_do_handshake(h->ssl) != 1) {
			ERR_clear_error();
			return hold(h);
		}
	}
	return hold(h);
}

static bool step_sending(struct hostile *h)
{
	size_t left = payload_len - h->sent, part = left < 65536 ? left : 65536;
	ssize_t n = 0;

	if (options.kind == UPDATES_KIND && h->ssl)
		return update_keys(h);
	if (part == 0)
		return hold(h);
	if (h->ssl) {
		size_t done = 0;

		if (SSL_write_ex(h->ssl, payload + h->sent, part, &done) != 1) {
			ERR_clear_error();
			return options.kind == BODIES || hold(h);
		}
		n = (ssize_t)done;
	} else {
		n = send(h->fd, payload + h->sent, part, MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN && (options.kind == BODIES || hold(h));
	}
	h->sent += (size_t)n;
	return true;
}

static bool step_connected(struct hostile *h)
{
	bool shake = options.tls && options.kind != SILENT && options.kind != BEGUN;

	if (options.kind == SILENT)
		return hold(h);
	if (options.tls && options.kind == BEGUN) {
		(void)!send(h->fd, "\x16\x03\x01\x02", 4, MSG_NOSIGNAL);
		return hold(h);
	}
	if (!shake) {
		h->state = SENDING;
		return true;
	}
	h->ssl = new_session(h->fd);
	h->state = SHAKING;
	return step_handshake(h);
}

static bool step_hostile(struct hostile *h, uint32_t events)
{
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		return false;
	if (h->state == CONNECTING)
		return step_connected(h);
	if (h->state == SHAKING)
		return step_handshake(h);
	return h->state == SENDING ? step_sending(h) : true;
}

/* --- the caller at another address --- */

static bool transfer(SSL *ssl, int fd, const uint8_t *out, size_t n, uint8_t *in, size_t in_n)
{
	size_t got = 0;

	if (ssl)
		return SSL_write_ex(ssl, out, n, &got) == 1 &&
		       SSL_read_ex(ssl, in, in_n, &got) == 1;
	return send(fd, out, n, MSG_NOSIGNAL) == (ssize_t)n && recv(fd, in, in_n, 0) > 0;
}

static size_t build_probe(uint8_t *out)
{
	static const char http[] = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	size_t n = 0;

	if (!options.h2) {
		memcpy(out, http, sizeof(http) - 1);
		return sizeof(http) - 1;
	}
	payload_len = 0;
	add_text("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	add_frame(4, 0, 0, "", 0);
	n = put_call(out, "/grpc.health.v1.Health/Check", false, 0);
	{
		static uint8_t block[1024];

		memcpy(block, out, n);
		add_frame(1, 4, 1, block, n);
	}
	add_frame(0, 1, 1, "\0\0\0\0\0", 5);
	memcpy(out, payload, payload_len);
	n = payload_len;
	payload_len = 0;
	return n;
}

/* Frames until the answer's fields; a first read may bring only SETTINGS. */
static bool has_answer(SSL *ssl, int fd, uint8_t *in, size_t n, size_t cap)
{
	size_t at = 0;

	for (int reads = 0; reads < 8; reads++) {
		while (at + 9 <= n) {
			size_t len = (size_t)in[at] << 16 | (size_t)in[at + 1] << 8 | in[at + 2];

			if (in[at + 3] == 1)
				return true;
			if (in[at + 3] == 3 || in[at + 3] == 7) /* RST_STREAM, GOAWAY */
				return false;
			at += 9 + len;
		}
		{
			size_t got = 0;
			bool ok = ssl ? SSL_read_ex(ssl, in + n, cap - n, &got) == 1 : false;

			if (!ssl) {
				ssize_t r = recv(fd, in + n, cap - n, 0);

				ok = r > 0;
				got = r > 0 ? (size_t)r : 0;
			}
			if (!ok)
				return false;
			n += got;
		}
	}
	return false;
}

/* The caller keeps within the handshakes a second that any one address is given. */
#define PROBE_PAUSE_MS 20

static uint8_t probe_bytes[4096];
static size_t probe_len;

static bool probe_once(void)
{
	static unsigned calls;
	int fd = dial(CALLER + calls++ % (unsigned)options.callers, true);
	SSL *ssl = NULL;
	uint8_t in[16384] = {0};
	bool ok;

	if (fd < 0)
		return false;
	if (options.tls) {
		ssl = new_session(fd);
		if (SSL_do_handshake(ssl) != 1) {
			ERR_clear_error();
			SSL_free(ssl);
			close(fd);
			return false;
		}
	}
	if (options.h2) {
		ok = ssl ? SSL_write(ssl, probe_bytes, (int)probe_len) > 0
			 : send(fd, probe_bytes, probe_len, MSG_NOSIGNAL) > 0;
		ok = ok && has_answer(ssl, fd, in, 0, sizeof(in));
	} else {
		ok = transfer(ssl, fd, probe_bytes, probe_len, in, sizeof(in) - 1) &&
		     strncmp((char *)in, "HTTP/1.1 ", 9) == 0;
	}
	ERR_clear_error();
	SSL_free(ssl);
	close(fd);
	return ok;
}

struct timings {
	size_t n, served;
	double ms[PROBES_MAX];
};

static void probe(struct timings *t)
{
	uint64_t start = cairn_monotonic_ns();
	bool ok = probe_once();

	if (t->n == PROBES_MAX)
		return;
	t->ms[t->n++] = (double)(cairn_monotonic_ns() - start) / 1e6;
	t->served += ok;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double percentile(struct timings *t, double part)
{
	if (t->n == 0)
		return 0;
	qsort(t->ms, t->n, sizeof(t->ms[0]), compare);
	return t->ms[(size_t)((double)(t->n - 1) * part)];
}

static atomic_bool over;
static struct timings quiet, attacked, control;

/* --- memory --- */

/* The first line of a file that the kernel has about the role; "" if there is none. */
static void read_proc(const char *name, char *text, int size)
{
	char path[64];
	FILE *file;

	text[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%llu/%s", (unsigned long long)options.pid, name);
	file = fopen(path, "r");
	if (file && !fgets(text, size, file))
		text[0] = '\0';
	if (file)
		fclose(file);
}

static uint64_t resident(void)
{
	char text[128], *second, *end;
	uint64_t pages = 0;

	read_proc("statm", text, sizeof(text));
	second = strchr(text, ' ');
	end = second ? strchr(second + 1, ' ') : NULL;
	if (!end)
		return 0;
	*end = '\0';
	return cairn_parse_u64(second + 1, &pages, NULL) == 0 ? pages * 4096 : 0;
}

/* Processor time of the role so far. */
static double cpu_ms(void)
{
	char text[1024], *at, *save = NULL;
	uint64_t user = 0, system = 0;

	read_proc("stat", text, sizeof(text));
	at = strrchr(text, ')'); /* the 14th and 15th words; the name is the second */
	at = at ? strtok_r(at + 1, " ", &save) : NULL;
	for (int i = 3; at && i <= 15; i++, at = strtok_r(NULL, " ", &save))
		if (i >= 14 && cairn_parse_u64(at, i == 14 ? &user : &system, NULL) != 0)
			return 0;
	return (double)(user + system) * 1000 / (double)sysconf(_SC_CLK_TCK);
}

/* --- the attack --- */

struct result {
	size_t opened, closed, held_most, next;
	double cpu_ms;                   /* of the role */
	uint64_t attack_ns, attacker_ns; /* how long it took, and processor time of ours */
	uint64_t rss_idle, rss_peak, rss_after;
};

/* Opens the next connections: those that were closed are opened again, so that the flood lasts
 * as long as the attack. */
static void open_more(struct hostile *all, struct result *r, size_t *opening, size_t *alive)
{
	for (size_t tried = 0; tried < options.connections && *opening < OPENING_MAX; tried++) {
		size_t i = r->next++ % options.connections;

		if (all[i].state != CLOSED)
			continue;
		r->opened++;
		if (!open_hostile(&all[i], i)) {
			close_hostile(&all[i]);
			r->closed++;
			return;
		}
		++*opening;
		++*alive;
	}
}

static void run_attack(struct hostile *all, struct result *r)
{
	uint64_t end = cairn_monotonic_ns() + options.ms * CAIRN_NS_PER_MS;
	uint64_t hard_end = end + 120 * CAIRN_NS_PER_SEC;
	size_t opening = 0, alive = 0;

	while (cairn_monotonic_ns() < end ||
	       (r->opened < options.connections && cairn_monotonic_ns() < hard_end)) {
		struct epoll_event events[256];
		uint64_t rss;
		int n;

		open_more(all, r, &opening, &alive);
		n = epoll_wait(epoll_fd, events, 256, 20);
		for (int i = 0; i < n; i++) {
			struct hostile *h = events[i].data.ptr;
			bool was_opening = h->state != HOLDING;

			if (h->state == CLOSED)
				continue;
			if (!step_hostile(h, events[i].events)) {
				close_hostile(h);
				r->closed++;
				alive--;
				opening -= was_opening;
			} else if (was_opening && h->state == HOLDING) {
				opening--;
			}
		}
		r->held_most = alive > r->held_most ? alive : r->held_most;
		rss = resident();
		r->rss_peak = rss > r->rss_peak ? rss : r->rss_peak;
	}
}

static uint64_t own_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * CAIRN_NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

static void attack_timed(struct hostile *all, struct result *r)
{
	uint64_t start = cairn_monotonic_ns(), cpu = own_cpu_ns();

	run_attack(all, r);
	r->attack_ns = cairn_monotonic_ns() - start;
	r->attacker_ns = own_cpu_ns() - cpu;
}

/* Takes the processor for the same part of the time as the attack did. */
static void burn(struct hostile *all, struct result *r)
{
	uint64_t start = cairn_monotonic_ns(), cpu = own_cpu_ns(), now;
	uint64_t most = CONTROL_MS * CAIRN_NS_PER_MS;
	uint64_t end = start + (r->attack_ns < most ? r->attack_ns : most);
	double part = (double)r->attacker_ns / (double)r->attack_ns;

	(void)all;
	while ((now = cairn_monotonic_ns()) < end)
		if ((double)(own_cpu_ns() - cpu) > part * (double)(now - start))
			cairn_sleep_ms(1);
}

struct work {
	void (*run)(struct hostile *all, struct result *r);
	struct hostile *all;
	struct result *r;
};

static void *run_work(void *arg)
{
	const struct work *work = arg;

	/* On Linux this is the calling thread's own. */
	if (setpriority(PRIO_PROCESS, 0, (int)options.nice) != 0)
		die("nice");
	work->run(work->all, work->r);
	atomic_store(&over, true);
	return NULL;
}

/* Times the caller at the other address while `run` does its work. */
static void time_caller(struct timings *t, void (*run)(struct hostile *all, struct result *r),
			struct hostile *all, struct result *r)
{
	struct work work = {.run = run, .all = all, .r = r};
	pthread_t thread;

	atomic_store(&over, false);
	if (pthread_create(&thread, NULL, run_work, &work) != 0)
		die("thread");
	while (!atomic_load(&over)) {
		probe(t);
		cairn_sleep_ms(PROBE_PAUSE_MS);
	}
	pthread_join(thread, NULL);
}

static void print_result(const struct result *r)
{
	printf("{\"kind\": \"%s\", \"connections\": %zu, \"closed\": %zu, \"held\": %zu, "
	       "\"cpu_ms\": %.0f, \"rss_idle\": %llu, \"rss_peak\": %llu, \"rss_after\": %llu, "
	       "\"quiet_served\": %zu, \"probes\": %zu, \"served\": %zu, \"quiet_ms\": %.2f, "
	       "\"attacked_ms\": %.2f, \"attacked_p99_ms\": %.2f, \"attack_ms\": %.0f, "
	       "\"attacker_cpu_ms\": %.0f, \"control_ms\": %.2f, \"control_p99_ms\": %.2f}\n",
	       kind_names[options.kind], r->opened, r->closed, r->held_most, r->cpu_ms,
	       (unsigned long long)r->rss_idle, (unsigned long long)r->rss_peak,
	       (unsigned long long)r->rss_after, quiet.served, attacked.n, attacked.served,
	       percentile(&quiet, 0.5), percentile(&attacked, 0.5), percentile(&attacked, 0.99),
	       (double)r->attack_ns / 1e6, (double)r->attacker_ns / 1e6, percentile(&control, 0.5),
	       percentile(&control, 0.99));
}

static uint64_t number(const char *text)
{
	uint64_t value;

	if (!text || cairn_parse_u64(text, &value, NULL) != 0) {
		fprintf(stderr, "not a number: %s\n", text ? text : "nothing");
		exit(2);
	}
	return value;
}

static void set_kind(const char *text)
{
	for (unsigned i = 0; i < KINDS; i++) {
		if (text && strcmp(text, kind_names[i]) == 0) {
			options.kind = (enum kind)i;
			return;
		}
	}
	fprintf(stderr, "no such kind: %s\n", text ? text : "nothing");
	exit(2);
}

static void read_options(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *next = i + 1 < argc ? argv[i + 1] : NULL;

		if (strcmp(argv[i], "--tls") == 0) {
			options.tls = true;
			continue;
		}
		if (strcmp(argv[i], "--h2") == 0) {
			options.h2 = true;
			continue;
		}
		if (strcmp(argv[i], "--control") == 0) {
			options.control = true;
			continue;
		}
		if (strcmp(argv[i], "--port") == 0)
			options.port = (uint16_t)number(next);
		else if (strcmp(argv[i], "--pid") == 0)
			options.pid = number(next);
		else if (strcmp(argv[i], "--connections") == 0)
			options.connections = number(next);
		else if (strcmp(argv[i], "--ms") == 0)
			options.ms = number(next);
		else if (strcmp(argv[i], "--nice") == 0)
			options.nice = number(next);
		else if (strcmp(argv[i], "--callers") == 0 && number(next) > 0)
			options.callers = number(next);
		else if (strcmp(argv[i], "--kind") == 0)
			set_kind(next);
		else
			die(argv[i]);
		i++;
	}
}

static void allow_descriptors(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < options.connections + 64)
		options.connections = limit.rlim_cur - 64;
}

static void start_tls(void)
{
	static const uint8_t h2[] = "\x02h2", http1[] = "\x08http/1.1";

	tls = SSL_CTX_new(TLS_client_method());
	if (!tls)
		die("TLS");
	SSL_CTX_set_alpn_protos(tls, options.h2 ? h2 : http1, options.h2 ? 3 : 9);
	SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
}

int main(int argc, char **argv)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct result r = {0};
	struct hostile *all;

	read_options(argc, argv);
	sigaction(SIGPIPE, &ignore, NULL);
	allow_descriptors();
	start_tls();
	all = calloc(options.connections + 1, sizeof(*all));
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!all || epoll_fd < 0)
		die("attack");
	probe_len = build_probe(probe_bytes);
	for (int i = 0; i < QUIET_PROBES; i++)
		probe(&quiet);
	r.rss_idle = resident();
	if (options.h2)
		make_h2();
	else
		make_http();
	r.cpu_ms = -cpu_ms();
	time_caller(&attacked, attack_timed, all, &r);
	r.cpu_ms += cpu_ms();
	for (size_t i = 0; i < options.connections; i++)
		if (all[i].state != CLOSED)
			close_hostile(&all[i]);
	for (int i = 0; i < SETTLE_MS / 100; i++) {
		r.rss_after = resident();
		if (r.rss_after <= r.rss_idle + (8U << 20))
			break;
		cairn_sleep_ms(100);
	}
	if (options.control)
		time_caller(&control, burn, NULL, &r);
	print_result(&r);
	free(all);
	close(epoll_fd);
	SSL_CTX_free(tls);
	return 0;
}
