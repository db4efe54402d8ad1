/* SPDX-License-Identifier: Apache-2.0 */

/* What the parts of a backup and of a restore cost alone, on one thread: reading,
 * hashing, compressing, encrypting and writing the bytes of a file, by plain calls of the
 * libraries, with contexts that are made once. Prints a line for each part: its name and
 * CPU time in microseconds.
 *   bench-parts FILE CHUNK LEVEL DIR
 * Chunks of all zeros are left out, as a backup leaves them out. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/num.h"

#define PACK  ((size_t)16 << 20) /* plain bytes that are worked on at a time */
#define ALIGN 4096

enum part {
	READ,
	HASH,
	COMPRESS,
	ENCRYPT,
	MAC,
	PACK_HASH,
	WRITE,
	RESTORE_READ,
	RESTORE_MAC,
	RESTORE_DECRYPT,
	RESTORE_UNCOMPRESS,
	RESTORE_HASH,
	RESTORE_WRITE,
	PARTS,
};

static const char *const names[PARTS] = {
	"read",
	"hash",
	"compress",
	"encrypt",
	"mac",
	"pack-hash",
	"write",
	"restore-read",
	"restore-mac",
	"restore-decrypt",
	"restore-uncompress",
	"restore-hash",
	"restore-write",
};

struct bench {
	size_t chunk;
	const char *dir;
	int direct; /* O_DIRECT where the filesystem has it: the cheapest way to write */
	int restored;
	uint64_t spent_ns[PARTS];
	ZSTD_CCtx *compress;
	ZSTD_DCtx *uncompress;
	EVP_MD_CTX *hash;
	EVP_CIPHER_CTX *cipher;
	EVP_MAC_CTX *mac;
	uint8_t *plain, *packed, *sealed, *again;
	size_t *lengths; /* compressed, of each chunk */
	size_t n;        /* chunks of this round */
	size_t packed_n;
	uint64_t stored, files;
};

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static void fail(const char *what)
{
	fprintf(stderr, "bench-parts: %s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

static void must(bool good, const char *what)
{
	if (!good)
		fail(what);
}

static void hash_chunks(struct bench *b, const uint8_t *data)
{
	uint8_t out[32];

	for (size_t i = 0; i < b->n; i++)
		must(EVP_DigestInit_ex(b->hash, NULL, NULL) == 1 &&
			     EVP_DigestUpdate(b->hash, data + i * b->chunk, b->chunk) == 1 &&
			     EVP_DigestFinal_ex(b->hash, out, NULL) == 1,
		     "hash");
}

static void compress_chunks(struct bench *b)
{
	uint8_t *to = b->packed;

	for (size_t i = 0; i < b->n; i++) {
		size_t n = ZSTD_compress2(b->compress, to, ZSTD_compressBound(b->chunk),
					  b->plain + i * b->chunk, b->chunk);

		must(!ZSTD_isError(n), "compress");
		b->lengths[i] = n;
		to += n;
	}
	b->packed_n = (size_t)(to - b->packed);
}

static void uncompress_chunks(struct bench *b)
{
	const uint8_t *from = b->packed;

	for (size_t i = 0; i < b->n; i++) {
		must(ZSTD_decompressDCtx(b->uncompress, b->again + i * b->chunk, b->chunk, from,
					 b->lengths[i]) == b->chunk,
		     "uncompress");
		from += b->lengths[i];
	}
}

static void crypt_chunks(struct bench *b, const uint8_t *from, uint8_t *to)
{
	const uint8_t iv[16] = {2};

	for (size_t i = 0; i < b->n; i++) {
		int n = 0;

		must(EVP_EncryptInit_ex(b->cipher, NULL, NULL, NULL, iv) == 1 &&
			     EVP_EncryptUpdate(b->cipher, to, &n, from, (int)b->lengths[i]) == 1,
		     "encrypt");
		from += n;
		to += n;
	}
}

static void mac_chunks(struct bench *b)
{
	const uint8_t key[32] = {3};
	const uint8_t *from = b->sealed;
	uint8_t out[16];

	for (size_t i = 0; i < b->n; i++) {
		size_t n = 0;

		must(EVP_MAC_init(b->mac, key, sizeof(key), NULL) == 1 &&
			     EVP_MAC_update(b->mac, from, b->lengths[i]) == 1 &&
			     EVP_MAC_final(b->mac, out, &n, sizeof(out)) == 1,
		     "authenticate");
		from += b->lengths[i];
	}
}

static void hash_pack(struct bench *b)
{
	uint8_t out[32];

	must(EVP_DigestInit_ex(b->hash, NULL, NULL) == 1 &&
		     EVP_DigestUpdate(b->hash, b->sealed, b->packed_n) == 1 &&
		     EVP_DigestFinal_ex(b->hash, out, NULL) == 1,
	     "hash");
}

static int open_pack(const struct bench *b, uint64_t number, int flags)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/pack-%" PRIu64, b->dir, number);
	fd = open(path, flags | O_CLOEXEC, 0600);
	must(fd >= 0, path);
	return fd;
}

static void write_pack(struct bench *b)
{
	cairn_auto_fd int fd = open_pack(b, b->files, O_WRONLY | O_CREAT | O_TRUNC | b->direct);
	size_t n = b->packed_n + (ALIGN - b->packed_n % ALIGN) % ALIGN;

	must(cairn_write_full(fd, b->sealed, n) == 0 && ftruncate(fd, (off_t)b->packed_n) == 0 &&
		     fsync(fd) == 0,
	     "write");
}

static void read_pack(struct bench *b)
{
	cairn_auto_fd int fd = open_pack(b, b->files, O_RDONLY);

	must(cairn_pread_full(fd, b->again, b->packed_n, 0) == (ssize_t)b->packed_n, "read");
}

#define TIMED(b, part, call)                                \
	do {                                                \
		uint64_t begun_ns = cpu_ns();               \
		call;                                       \
		(b)->spent_ns[part] += cpu_ns() - begun_ns; \
	} while (0)

/* One pack, there and back. */
static void round_trip(struct bench *b)
{
	size_t bytes = b->n * b->chunk;

	TIMED(b, HASH, hash_chunks(b, b->plain));
	TIMED(b, COMPRESS, compress_chunks(b));
	TIMED(b, ENCRYPT, crypt_chunks(b, b->packed, b->sealed));
	TIMED(b, MAC, mac_chunks(b));
	TIMED(b, PACK_HASH, hash_pack(b));
	TIMED(b, WRITE, write_pack(b));
	TIMED(b, RESTORE_READ, read_pack(b));
	must(memcmp(b->again, b->sealed, b->packed_n) == 0, "compare what was read");
	TIMED(b, RESTORE_MAC, mac_chunks(b));
	TIMED(b, RESTORE_DECRYPT, crypt_chunks(b, b->sealed, b->packed));
	TIMED(b, RESTORE_UNCOMPRESS, uncompress_chunks(b));
	must(memcmp(b->again, b->plain, bytes) == 0, "compare what was uncompressed");
	TIMED(b, RESTORE_HASH, hash_chunks(b, b->again));
	TIMED(b, RESTORE_WRITE,
	      must(cairn_write_full(b->restored, b->again, bytes) == 0, "write back"));
	b->stored += b->packed_n;
	b->files++;
}

/* Leaves chunks of zeros out; the others move up. */
static void drop_zeros(struct bench *b, size_t n)
{
	b->n = 0;
	for (size_t at = 0; at + b->chunk <= n; at += b->chunk) {
		if (b->plain[at] == 0 &&
		    memcmp(b->plain + at, b->plain + at + 1, b->chunk - 1) == 0)
			continue;
		memmove(b->plain + b->n++ * b->chunk, b->plain + at, b->chunk);
	}
}

static void run(struct bench *b, int fd)
{
	off_t at = 0;

	while ((at = lseek(fd, at, SEEK_DATA)) >= 0) {
		ssize_t n = 0;

		at -= at % (off_t)PACK;
		TIMED(b, READ, n = cairn_pread_full(fd, b->plain, PACK, (uint64_t)at));
		must(n >= 0, "read");
		drop_zeros(b, (size_t)n);
		if (b->n > 0)
			round_trip(b);
		at += (off_t)PACK;
	}
	TIMED(b, RESTORE_WRITE, must(fsync(b->restored) == 0, "sync"));
}

static void set_up(struct bench *b, int level)
{
	const uint8_t key[32] = {1};
	size_t chunks = PACK / b->chunk;
	size_t room = PACK + chunks * (ZSTD_compressBound(b->chunk) - b->chunk);
	char path[4096];

	b->compress = ZSTD_createCCtx();
	b->uncompress = ZSTD_createDCtx();
	b->hash = EVP_MD_CTX_new();
	b->cipher = EVP_CIPHER_CTX_new();
	b->mac = EVP_MAC_CTX_new(EVP_MAC_fetch(NULL, "POLY1305", NULL));
	b->plain = aligned_alloc(ALIGN, PACK);
	b->packed = aligned_alloc(ALIGN, room + ALIGN - room % ALIGN);
	b->sealed = aligned_alloc(ALIGN, room + ALIGN - room % ALIGN);
	b->again = aligned_alloc(ALIGN, room + ALIGN - room % ALIGN);
	b->lengths = calloc(chunks, sizeof(*b->lengths));
	must(b->plain && b->packed && b->sealed && b->again && b->lengths && b->mac &&
		     !ZSTD_isError(
			     ZSTD_CCtx_setParameter(b->compress, ZSTD_c_compressionLevel, level)) &&
		     EVP_DigestInit_ex(b->hash, EVP_MD_fetch(NULL, "SHA256", NULL), NULL) == 1 &&
		     EVP_EncryptInit_ex(b->cipher, EVP_aes_256_ctr(), NULL, key, NULL) == 1,
	     "set up");
	/* Touched before anything is timed. */
	memset(b->packed, 1, room);
	memset(b->sealed, 1, room);
	memset(b->again, 1, room);
	snprintf(path, sizeof(path), "%s/restored", b->dir);
	b->restored = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600);
	b->direct = b->restored < 0 ? 0 : O_DIRECT;
	if (b->restored < 0)
		b->restored = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	must(b->restored >= 0, path);
}

int main(int argc, char **argv)
{
	struct bench b = {0};
	struct cairn_err err = {0};
	uint64_t chunk = 0, level = 0;
	cairn_auto_fd int fd = -1;

	if (argc != 5 || cairn_parse_u64(argv[2], &chunk, &err) ||
	    cairn_parse_u64(argv[3], &level, &err) || chunk == 0 || PACK % chunk != 0) {
		fprintf(stderr, "usage: bench-parts FILE CHUNK LEVEL DIR\n");
		return 2;
	}
	b.chunk = chunk;
	b.dir = argv[4];
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	must(fd >= 0, argv[1]);
	set_up(&b, (int)level);
	run(&b, fd);
	for (int i = 0; i < PARTS; i++)
		printf("%s %" PRIu64 "\n", names[i], b.spent_ns[i] / 1000);
	printf("stored %" PRIu64 "\n", b.stored);
	return 0;
}
