#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The smallest change that is reported, and pairs of snapshots that must be compared: what is
listed is checked against the bytes of the snapshots."""
import os
import random

from cairncli import INVALID, MIB, CliTest, main

SECTOR = 512
BLOCK = 4096
SIZE = 8 * MIB


class GranularityTest(CliTest):
    def path_of(self, kind, name):
        return self.out(kind, "path", name).strip()

    def write(self, volume, offset, data):
        with open(self.path_of("volume", volume), "r+b") as file:
            file.seek(offset)
            file.write(data)

    def bytes_of(self, snapshot):
        with open(self.path_of("snapshot", snapshot), "rb") as file:
            return file.read()

    def listed(self, base, target, unit, *more):
        """Units that are listed, and those that are listed as zero."""
        found = self.json("delta", base, target, *more)["block_metadata"]
        units, zeros = set(), set()
        for entry in found:
            first, end = entry["byte_offset"], entry["byte_offset"] + entry["size_bytes"]
            these = set(range(first // unit, -(-end // unit)))
            units |= these
            if entry["zero"]:
                zeros |= these
        return units, zeros

    def changed(self, base, target, unit):
        old, new = self.bytes_of(base), self.bytes_of(target)
        return {i for i in range(len(new) // unit)
                if old[i * unit:(i + 1) * unit] != new[i * unit:(i + 1) * unit]}

    def scatter(self, volume, seed):
        dice = random.Random(seed)
        with open(self.path_of("volume", volume), "r+b") as file:
            for _ in range(200):
                file.seek(dice.randrange(SIZE // SECTOR) * SECTOR)
                file.write(dice.randbytes(SECTOR))


class Sectors(GranularityTest):
    def make_pool(self):
        self.cairn("pool", "create", "--backend", "copy", "--granularity", "512", self.pool)

    def test_single_sectors_are_told(self):
        self.cairn("volume", "create", "data", "--size", SIZE)
        self.scatter("data", 1)
        for i in range(1, 5):
            self.cairn("snapshot", "create", f"data@{i}")
            self.scatter("data", i + 1)
        for base, target in ((1, 2), (2, 3), (1, 4)):
            truth = self.changed(f"data@{base}", f"data@{target}", SECTOR)
            listed, _ = self.listed(f"data@{base}", f"data@{target}", SECTOR)
            self.assertEqual(truth - listed, set(), "a change is never missed")
            if target - base == 1:
                self.assertEqual(listed, truth)
        self.assertEqual(self.json("pool", "info")["granularity_bytes"], SECTOR)

    def test_a_volume_may_have_its_own(self):
        for name, granularity in (("coarse", 4096), ("fine", 512)):
            self.cairn("volume", "create", name, "--size", SIZE)
            self.cairn("volume", "modify", name, "--granularity", granularity)
            self.cairn("snapshot", "create", f"{name}@1")
            self.write(name, 5 * SECTOR, b"x" * SECTOR)
            self.cairn("snapshot", "create", f"{name}@2")
            found = self.json("delta", f"{name}@1", f"{name}@2")["block_metadata"]
            self.assertEqual([e["size_bytes"] for e in found], [granularity])


class Zeros(GranularityTest):
    def test_zeros_that_were_written_are_zero(self):
        """Written, not punched: the comparison of bytes knows it."""
        self.cairn("volume", "create", "data", "--size", SIZE)
        self.write("data", 0, os.urandom(MIB))
        self.cairn("snapshot", "create", "data@1")
        self.write("data", 64 * BLOCK, bytes(8 * BLOCK))
        # One sector of a block that is zero otherwise: the block is zero all the same.
        self.write("data", 100 * BLOCK, os.urandom(SECTOR) + bytes(BLOCK - SECTOR))
        self.cairn("snapshot", "create", "data@2")
        self.write("data", 100 * BLOCK, bytes(SECTOR))
        self.cairn("snapshot", "create", "data@3")
        listed, zeros = self.listed("data@1", "data@2", BLOCK)
        self.assertEqual(zeros, set(range(64, 72)))
        self.assertEqual(listed, set(range(64, 72)) | {100})
        self.assertEqual(self.listed("data@2", "data@3", BLOCK), ({100}, {100}))


class Compare(GranularityTest):
    def test_pairs_without_change_sets_are_compared_when_wanted(self):
        for name, seed in (("data", 1), ("other", 2)):
            self.cairn("volume", "create", name, "--size", SIZE)
            self.scatter(name, seed)
            self.cairn("snapshot", "create", f"{name}@1")
            self.scatter(name, seed + 10)
            self.write(name, MIB, bytes(MIB))
            self.cairn("snapshot", "create", f"{name}@2")
        for base, target, why in (("data@2", "data@1", "newer than the target"),
                                  ("data@1", "other@1", "no common ancestor")):
            done = self.cairn("delta", base, target, code=INVALID)
            self.assertIn(why, done.stderr)
            self.assertIn("--compare", done.stderr)
            truth = self.changed(base, target, BLOCK)
            listed, zeros = self.listed(base, target, BLOCK, "--compare")
            self.assertEqual(listed, truth)
            new = self.bytes_of(target)
            self.assertEqual(zeros, {i for i in truth
                                     if not any(new[i * BLOCK:(i + 1) * BLOCK])})
            self.assertTrue(self.json("delta", base, target, "--compare")["compared"])
            # From any offset on, and in parts.
            start = 3 * MIB + 100
            some = self.json("delta", base, target, "--compare", "--starting-offset", start,
                             "--max-results", 3)
            self.assertGreaterEqual(some["block_metadata"][0]["byte_offset"], start)
            self.assertIn("next_offset", some)
        done = self.cairn("delta", "data@1", "other@1", code=INVALID)
        self.assertIn("of volume 'data'", done.stderr)
        self.assertIn("of volume 'other'", done.stderr)
        # Related pairs are answered from change sets all the same.
        self.assertNotIn("compared", self.json("delta", "data@1", "data@2", "--compare"))

    def test_volumes_of_two_sizes(self):
        for name, size in (("small", MIB), ("large", 2 * MIB)):
            self.cairn("volume", "create", name, "--size", size)
            self.write(name, 0, b"same" * 1024)
            self.cairn("snapshot", "create", f"{name}@1")
        listed, zeros = self.listed("small@1", "large@1", BLOCK, "--compare")
        self.assertEqual(listed, set(range(MIB // BLOCK, 2 * MIB // BLOCK)))
        self.assertEqual(zeros, listed)
        self.assertEqual(self.listed("large@1", "small@1", BLOCK, "--compare"), (set(), set()))

    def test_a_base_without_data_can_not_be_compared(self):
        self.cairn("volume", "create", "data", "--size", SIZE)
        for i in (1, 2):
            self.cairn("snapshot", "create", f"data@{i}")
        gone = self.json("snapshot", "info", "data@2")["id"]
        self.cairn("snapshot", "delete", "data@2")
        self.cairn("delta", gone, "data@1", "--compare", code=INVALID)


if __name__ == "__main__":
    main()
