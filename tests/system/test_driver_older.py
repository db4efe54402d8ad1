#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The flavours of the changed-block API that came before SnapshotMetadata: that each
answers as its proposal says, and that all four tell the same blocks."""
import base64
import os
import random
import subprocess
import time

import grpc

from cairncli import BIN, MIB, main
from csidriver import Code, DriverTest, Failed, blocks_of, blocks_told

BLOCK = 4096
SIZE = 8 * MIB
ALL = ("--sessions", "--differential-snapshots", "--snapshot-deltas")
FALLOC_PUNCH = ["fallocate", "--punch-hole"]
SERVICE, CAPABILITY = 1001, 1001


class OlderTest(DriverTest):
    driver_args = ALL

    def punch(self, volume, offset, size):
        subprocess.run([*FALLOC_PUNCH, "-o", str(offset), "-l", str(size),
                        self.path_of("volume", volume)], check=True)

    def bytes_of(self, snapshot):
        with open(self.path_of("snapshot", snapshot), "rb") as file:
            return file.read()

    def changed(self, base, target):
        """Numbers of the blocks that differ, from the bytes themselves."""
        old, new = (self.bytes_of(base) if base else bytes(SIZE)), self.bytes_of(target)
        return {i for i in range(len(new) // BLOCK)
                if old[i * BLOCK:(i + 1) * BLOCK] != new[i * BLOCK:(i + 1) * BLOCK]}

    # ---- the four flavours, each as a set of block numbers ----

    def shipped(self, base, target, limit):
        if base:
            messages = self.stream("SnapshotMetadata.GetMetadataDelta", base_snapshot_id=base,
                                   target_snapshot_id=target, max_results=limit)
        else:
            messages = self.stream("SnapshotMetadata.GetMetadataAllocated", snapshot_id=target,
                                   max_results=limit)
        return blocks_told(self, messages, limit)

    def session(self, volume, base, target, limit):
        if base:
            messages = self.stream("Session.GetDelta", session_token="any", volume_id=volume,
                                   base_snapshot=base, target_snapshot=target, max_results=limit)
        else:
            messages = self.stream("Session.GetAllocated", session_token="any", volume_id=volume,
                                   snapshot=target, max_results=limit)
        self.assertEqual({m.volume_size_bytes for m in messages}, {SIZE})
        return blocks_told(self, messages, limit)

    def differential_pages(self, base, target, limit, **fields):
        at, pages = "", []
        while True:
            page = self.call("DifferentialSnapshot.GetDifferentialSnapshot",
                             snapshot_base=base or "", snapshot_target=target, start_offset=at,
                             max_entries=limit, **fields)
            self.assertLessEqual(len(page.change_block_list), limit)
            pages.append(page)
            at = page.next_offset
            if not at:
                return pages

    def differential(self, base, target, limit):
        pages = self.differential_pages(base, target, limit)
        entries = [e for page in pages for e in page.change_block_list]
        for a, b in zip(entries, entries[1:]):
            end = a.offset + a.size
            self.assertTrue(end < b.offset or (end == b.offset and a.zero_out != b.zero_out),
                            "neighbours must be one block")
        return set().union(*[blocks_of(e.offset, e.size) for e in entries])

    def delta_pages(self, base, target, limit):
        at, pages = "", []
        while True:
            page = self.call("Controller.ListSnapshotDeltas", from_snapshot_id=base or "",
                             to_snapshot_id=target, max_entries=limit, starting_token=at)
            self.assertLessEqual(len(page.changed_blocks), limit)
            pages.append(page)
            at = page.next_token
            if not at:
                return pages

    def deltas(self, base, target, limit):
        entries = [b for page in self.delta_pages(base, target, limit)
                   for b in page.changed_blocks]
        offsets = [e.offset for e in entries]
        self.assertEqual(offsets, sorted(set(offsets)))
        return set().union(*[blocks_of(e.offset * e.block_size_bytes, e.block_size_bytes)
                             for e in entries])

    def block_data(self, token):
        return b"".join(m.data for m in self.stream("SnapshotData.GetBlock", token=token))

    def refuses_stream(self, code, name, /, **fields):
        with self.assertRaises(Failed) as caught:
            self.stream(name, **fields)
        self.assertEqual(caught.exception.code, code, caught.exception)
        return caught.exception.text


class Answers(OlderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dice = random.Random(7)

    def history(self):
        """A volume and two snapshots of it; the second one with new, rewritten and
        discarded ranges."""
        volume = self.create(SIZE)
        for _ in range(40):
            self.write(volume, self.dice.randrange(SIZE // BLOCK) * BLOCK, os.urandom(BLOCK))
        self.write(volume, 4 * MIB, os.urandom(MIB))
        base = self.snapshot(volume)
        for _ in range(60):
            self.write(volume, self.dice.randrange(SIZE // 2 // BLOCK) * BLOCK,
                       os.urandom(BLOCK))
        self.punch(volume, 4 * MIB + 64 * 1024, 256 * 1024)
        return volume, base, self.snapshot(volume)

    def test_all_flavours_tell_the_same_blocks(self):
        volume, base, target = self.history()
        for old in (base, None):
            truth = self.changed(old, target)
            expected = self.shipped(old, target, 1024)
            self.assertEqual(truth - expected, set(), "a change is never missed")
            for limit in (1, 7, 256):
                with self.subTest(limit=limit, base=old):
                    self.assertEqual(self.shipped(old, target, limit), expected)
                    self.assertEqual(self.session(volume, old, target, limit), expected)
                    self.assertEqual(self.differential(old, target, limit), expected)
                    self.assertEqual(self.deltas(old, target, limit), expected)

    def test_a_deleted_base_still_answers(self):
        volume = self.create(SIZE)
        self.write(volume, 0, os.urandom(MIB))
        base = self.call("Controller.CreateSnapshot", source_volume_id=volume,
                         name="goes away").snapshot.snapshot_id
        self.write(volume, 2 * MIB, os.urandom(BLOCK))
        target = self.snapshot(volume)
        expected = self.shipped(base, target, 100)
        self.assertEqual(self.differential_pages(base, target, 100)[0].timeout, 0)
        self.call("Controller.DeleteSnapshot", snapshot_id=base)
        self.assertEqual(self.session(volume, base, target, 100), expected)
        self.assertEqual(self.differential(base, target, 100), expected)
        self.assertEqual(self.deltas(base, target, 100), expected)
        self.assertGreater(self.differential_pages(base, target, 100)[0].timeout, time.time())

    def test_what_was_discarded_is_told_as_zero(self):
        _, base, target = self.history()
        data = self.bytes_of(target)
        zeros = 0
        for page in self.differential_pages(base, target, 7):
            self.assertEqual(page.volume_size, SIZE)
            for entry in page.change_block_list:
                if entry.zero_out:
                    zeros += entry.size
                    self.assertFalse(any(data[entry.offset:entry.offset + entry.size]))
        self.assertGreaterEqual(zeros, 256 * 1024)

    def test_session_types_are_numbered_from_zero(self):
        volume, base, target = self.history()
        kinds = {m.block_metadata_type for m in self.stream(
            "Session.GetDelta", volume_id=volume, base_snapshot=base, target_snapshot=target)}
        self.assertEqual(kinds, {1})

    def test_a_session_stream_continues_from_an_offset_while_a_clone_is_in_use(self):
        volume, base, target = self.history()
        clone = self.create(SIZE, volume_content_source={"snapshot": {"snapshot_id": target}})
        whole = sorted(self.session(volume, base, target, 256))
        self.write(clone, 0, os.urandom(MIB))
        start = whole[len(whole) // 2] * BLOCK
        rest = blocks_told(self, self.stream("Session.GetDelta", volume_id=volume, base_snapshot=base,
                                       target_snapshot=target, starting_byte_offset=start), 2**32)
        self.assertEqual(sorted(rest), [i for i in whole if i * BLOCK >= start])

    def test_an_empty_result_still_has_a_message(self):
        volume = self.create(SIZE)
        first, second = self.snapshot(volume), self.snapshot(volume)
        message, = self.stream("Session.GetDelta", volume_id=volume, base_snapshot=first,
                               target_snapshot=second)
        self.assertEqual((message.volume_size_bytes, len(message.block_metadata)), (SIZE, 0))
        page, = self.differential_pages(first, second, 10)
        self.assertEqual((page.volume_size, list(page.change_block_list)), (SIZE, []))
        page, = self.delta_pages(first, second, 10)
        self.assertEqual((page.volume_size_bytes, list(page.changed_blocks)), (SIZE, []))

    def test_bad_requests_of_sessions(self):
        volume, base, target = self.history()
        other = self.create(SIZE)
        good = {"volume_id": volume, "base_snapshot": base, "target_snapshot": target}
        cases = [
            (Code.INVALID_ARGUMENT, {"volume_id": ""}),
            (Code.INVALID_ARGUMENT, {"base_snapshot": ""}),
            (Code.INVALID_ARGUMENT, {"target_snapshot": ""}),
            (Code.NOT_FOUND, {"volume_id": other}),
            (Code.NOT_FOUND, {"volume_id": "nothing"}),
            (Code.NOT_FOUND, {"base_snapshot": "snap-0"}),
            (Code.NOT_FOUND, {"target_snapshot": "snap-0"}),
            (Code.OUT_OF_RANGE, {"starting_byte_offset": SIZE + 1}),
            (Code.OUT_OF_RANGE, {"starting_byte_offset": 2**64 - 1}),
        ]
        for code, fields in cases:
            with self.subTest(**fields):
                self.refuses_stream(code, "Session.GetDelta", **{**good, **fields})
        for code, fields in [
                (Code.INVALID_ARGUMENT, {"volume_id": volume}),
                (Code.INVALID_ARGUMENT, {"snapshot": target}),
                (Code.NOT_FOUND, {"volume_id": other, "snapshot": target}),
                (Code.OUT_OF_RANGE, {"volume_id": volume, "snapshot": target,
                                     "starting_offset": SIZE + 1})]:
            with self.subTest(**fields):
                self.refuses_stream(code, "Session.GetAllocated", **fields)

    def test_bad_requests_of_differential_snapshots(self):
        volume, base, target = self.history()
        good = {"snapshot_base": base, "snapshot_target": target}
        for code, fields in [
                (Code.INVALID_ARGUMENT, {"snapshot_target": ""}),
                (Code.INVALID_ARGUMENT, {"mode": "File"}),
                (Code.INVALID_ARGUMENT, {"volume_id": "vol-0"}),
                (Code.INVALID_ARGUMENT, {"start_offset": "-1"}),
                (Code.INVALID_ARGUMENT, {"start_offset": "4096x"}),
                (Code.INVALID_ARGUMENT, {"snapshot_base": target, "snapshot_target": base}),
                (Code.INVALID_ARGUMENT, {"parameters": {"dataTokens": "yes"}}),
                (Code.OUT_OF_RANGE, {"start_offset": str(SIZE + 1)}),
                (Code.NOT_FOUND, {"snapshot_base": "snap-0"}),
                (Code.NOT_FOUND, {"snapshot_target": "snap-0"})]:
            with self.subTest(**fields):
                self.refuses(code, "DifferentialSnapshot.GetDifferentialSnapshot",
                             **{**good, **fields})
        text = self.refuses(Code.INVALID_ARGUMENT, "DifferentialSnapshot.GetDifferentialSnapshot",
                            snapshot_base=target, snapshot_target=base)
        self.assertIn("--compare-max", text)
        for fields in ({"mode": "Block"}, {"mode": "block"}, {"volume_id": volume},
                       {"max_entries": 2**64 - 1},
                       {"parameters": {"of another": "driver"}}, {"start_offset": str(SIZE)}):
            with self.subTest(**fields):
                self.call("DifferentialSnapshot.GetDifferentialSnapshot", **{**good, **fields})

    def test_bad_requests_of_deltas(self):
        _, base, target = self.history()
        good = {"from_snapshot_id": base, "to_snapshot_id": target}
        for code, fields in [
                (Code.INVALID_ARGUMENT, {"to_snapshot_id": ""}),
                (Code.INVALID_ARGUMENT, {"max_entries": -1}),
                (Code.INVALID_ARGUMENT, {"from_snapshot_id": target, "to_snapshot_id": base}),
                (Code.ABORTED, {"starting_token": "invalid-token"}),
                (Code.OUT_OF_RANGE, {"starting_token": str(SIZE // BLOCK + 1)}),
                (Code.NOT_FOUND, {"from_snapshot_id": "snap-0"}),
                (Code.NOT_FOUND, {"to_snapshot_id": "snap-0"})]:
            with self.subTest(**fields):
                self.refuses(code, "Controller.ListSnapshotDeltas", **{**good, **fields})
        last = self.call("Controller.ListSnapshotDeltas", starting_token=str(SIZE // BLOCK),
                         **good)
        self.assertEqual((len(last.changed_blocks), last.next_token), (0, ""))

    def test_capabilities_are_told(self):
        kinds = [c.service.type for c in self.call("Identity.GetPluginCapabilities").capabilities]
        self.assertIn(SERVICE, kinds)
        kinds = [c.rpc.type for c in
                 self.call("Controller.ControllerGetCapabilities").capabilities]
        self.assertIn(CAPABILITY, kinds)


class Compared(OlderTest):
    """Pairs that no change sets connect, read and compared up to a size."""

    driver_args = (*ALL, "--compare-max", str(SIZE))

    def test_any_pair_of_snapshots(self):
        volume = self.create(SIZE)
        self.write(volume, MIB, os.urandom(64 * BLOCK))
        first = self.snapshot(volume)
        self.write(volume, MIB + 3 * BLOCK, bytes(2 * BLOCK))
        self.write(volume, 5 * MIB, os.urandom(BLOCK))
        second = self.snapshot(volume)
        other = self.create(SIZE)
        self.write(other, 2 * MIB, os.urandom(BLOCK))
        third = self.snapshot(other)
        for base, target in ((second, first), (first, third), (third, second)):
            truth = self.changed(base, target)
            for limit in (1, 7, 256):
                self.assertEqual(self.differential(base, target, limit), truth)
            self.assertEqual(truth - self.deltas(base, target, 256), set())
        # Written zeros, which a comparison knows.
        zeros = [e for page in self.differential_pages(third, second, 7)
                 for e in page.change_block_list if e.zero_out]
        self.assertEqual([(e.offset, e.size) for e in zeros], [(2 * MIB, BLOCK)])

    def test_a_larger_one_is_refused(self):
        first, second = (self.snapshot(self.create(2 * SIZE)) for _ in range(2))
        text = self.refuses(Code.INVALID_ARGUMENT, "DifferentialSnapshot.GetDifferentialSnapshot",
                            snapshot_base=first, snapshot_target=second)
        self.assertIn("too large to be compared", text)


class Tokens(OlderTest):
    def two(self):
        volume = self.create(SIZE)
        base = self.snapshot(volume)
        self.write(volume, 3 * MIB, os.urandom(5 * BLOCK))
        return base, self.snapshot(volume)

    def test_a_token_fetches_its_block_also_after_a_restart(self):
        base, target = self.two()
        data = self.bytes_of(target)
        page = self.call("Controller.ListSnapshotDeltas", from_snapshot_id=base,
                         to_snapshot_id=target)
        self.driver.restart()
        self.assertEqual(len(page.changed_blocks), 5)
        for entry in page.changed_blocks:
            at = entry.offset * entry.block_size_bytes
            self.assertEqual(self.block_data(entry.token.token),
                             data[at:at + entry.block_size_bytes])
            self.assertEqual(entry.token.ttl_seconds, 600)
            self.assertAlmostEqual(entry.token.issuance_time.seconds, time.time(), delta=120)

    def test_a_token_in_the_context_fetches_a_whole_range(self):
        base, target = self.two()
        page, = self.differential_pages(base, target, 10, parameters={"dataTokens": "true"})
        entry, = page.change_block_list
        self.assertEqual(self.block_data(entry.context.decode()),
                         self.bytes_of(target)[entry.offset:entry.offset + entry.size])
        page, = self.differential_pages(base, target, 10)
        self.assertEqual(page.change_block_list[0].context, b"")

    def test_nothing_else_fetches_anything(self):
        base, target = self.two()
        token = self.call("Controller.ListSnapshotDeltas", from_snapshot_id=base,
                          to_snapshot_id=target).changed_blocks[0].token.token
        raw = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        raw[20] ^= 1  # the offset
        forged = base64.urlsafe_b64encode(raw).decode().rstrip("=")
        for bad in ("", "x", token[:-1], token + "A", token + "=", forged, "A" * 1000,
                    "\N{SNOWMAN}"):
            with self.subTest(token=bad):
                text = self.refuses_stream(Code.UNAUTHENTICATED, "SnapshotData.GetBlock",
                                           token=bad)
                if bad:
                    self.assertNotIn(bad, text)
        self.assertEqual(len(self.block_data(token)), BLOCK)
        log = self.driver.log.read_text(encoding="utf-8")
        self.assertNotIn(token, log)

    def test_a_token_of_a_deleted_snapshot_fetches_nothing(self):
        volume = self.create(SIZE)
        base = self.snapshot(volume)
        self.write(volume, 0, os.urandom(BLOCK))
        target = self.call("Controller.CreateSnapshot", source_volume_id=volume,
                           name="short life").snapshot.snapshot_id
        token = self.call("Controller.ListSnapshotDeltas", from_snapshot_id=base,
                          to_snapshot_id=target).changed_blocks[0].token.token
        self.call("Controller.DeleteSnapshot", snapshot_id=target)
        self.refuses_stream(Code.NOT_FOUND, "SnapshotData.GetBlock", token=token)


class Expiring(OlderTest):
    driver_args = (*ALL, "--data-token-ttl", "1s")
    backend = "copy"

    def test_a_token_expires(self):
        volume = self.create(SIZE)
        base = self.snapshot(volume)
        self.write(volume, 0, os.urandom(BLOCK))
        target = self.snapshot(volume)
        found = self.call("Controller.ListSnapshotDeltas", from_snapshot_id=base,
                          to_snapshot_id=target).changed_blocks[0]
        self.assertEqual((found.offset, found.token.ttl_seconds), (0, 1))
        time.sleep(2.1)
        self.assertIn("expired", self.refuses_stream(
            Code.UNAUTHENTICATED, "SnapshotData.GetBlock", token=found.token.token))


class OddBlocks(OlderTest):
    driver_args = (*ALL, "--delta-block-size", "96K")
    backend = "copy"

    def test_blocks_that_do_not_divide_the_volume(self):
        volume = self.create(SIZE)
        base = self.snapshot(volume)
        self.write(volume, SIZE - BLOCK, os.urandom(BLOCK))
        self.write(volume, 96 * 1024 - BLOCK, os.urandom(2 * BLOCK))
        target = self.snapshot(volume)
        last = SIZE // (96 * 1024)
        for limit in (1, 2, 100):
            found = [b for p in self.delta_pages(base, target, limit) for b in p.changed_blocks]
            self.assertEqual([b.offset for b in found], [0, 1, last])
            self.assertEqual({b.block_size_bytes for b in found}, {96 * 1024})
            self.assertEqual(len(self.block_data(found[-1].token.token)),
                             SIZE - last * 96 * 1024)


class BaseForgotten(OlderTest):
    """A base whose time has passed: everything is reported, and what is empty as zero."""
    driver_args = ("--differential-snapshots",)

    def test_everything_is_told(self):
        volume = self.create(SIZE)
        subprocess.run([BIN, "--pool", self.pool, "volume", "modify", "--retention", "1ms",
                        volume], check=True, capture_output=True)
        self.write(volume, 0, os.urandom(MIB))
        self.write(volume, 6 * MIB, os.urandom(MIB))
        base = self.call("Controller.CreateSnapshot", source_volume_id=volume,
                         name="short").snapshot.snapshot_id
        self.write(volume, 2 * MIB, os.urandom(BLOCK))
        self.punch(volume, 6 * MIB, MIB)
        target = self.snapshot(volume)
        self.call("Controller.DeleteSnapshot", snapshot_id=base)
        time.sleep(0.1)
        subprocess.run([BIN, "--pool", self.pool, "pool", "gc"], check=True, capture_output=True)
        with self.assertRaises(Failed) as caught:
            self.shipped(base, target, 10)
        self.assertEqual(caught.exception.code, Code.FAILED_PRECONDITION)
        data, at = self.bytes_of(target), 0
        for limit in (1, 3, 1000):
            at = 0
            for page in self.differential_pages(base, target, limit):
                for entry in page.change_block_list:
                    self.assertEqual(entry.offset, at, "nothing is left out")
                    at += entry.size
                    if entry.zero_out:
                        self.assertFalse(any(data[entry.offset:at]))
            self.assertEqual(at, SIZE)
        entries = self.differential_pages(base, target, 1000)[0].change_block_list
        self.assertLess(sum(e.size for e in entries if not e.zero_out), 2 * MIB)


class Off(OlderTest):
    driver_args = ()
    backend = "copy"

    def test_nothing_of_it_is_there_unless_asked_for(self):
        kinds = [c.service.type for c in self.call("Identity.GetPluginCapabilities").capabilities]
        self.assertNotIn(SERVICE, kinds)
        kinds = [c.rpc.type for c in
                 self.call("Controller.ControllerGetCapabilities").capabilities]
        self.assertNotIn(CAPABILITY, kinds)
        for name in ("DifferentialSnapshot.GetDifferentialSnapshot",
                     "Controller.ListSnapshotDeltas"):
            self.refuses(Code.UNIMPLEMENTED, name)
        for name in ("Session.GetAllocated", "Session.GetDelta", "SnapshotData.GetBlock"):
            self.refuses_stream(grpc.StatusCode.UNIMPLEMENTED, name)


if __name__ == "__main__":
    main()
