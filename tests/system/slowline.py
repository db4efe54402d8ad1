# SPDX-License-Identifier: Apache-2.0
"""A program run at one end of a slow line, with restic's REST server at the other."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
URL = "rest:http://10.99.0.2:8000/"
LINE = 100 * 10 ** 6 // 8  # bytes a second: 100 Mbit/s
HEADERS = 1448 / 1500  # of a packet, what is left for data


def rest_server():
    line = subprocess.run([ROOT / "scripts/peers", "rest-server"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    return line.split()[1]


def run(delayline, round_trip_ms, place, log, command, ahead=(), **environment):
    """Runs the command with the server behind the line; returns its exit status. `ahead` is put
    before all of it, for example to give it a priority."""
    os.makedirs(place, exist_ok=True)
    return subprocess.run(
        [*ahead, delayline, str(round_trip_ms // 2), str(LINE), log,
         rest_server(), "--no-auth", "--listen", "10.99.0.2:8000", "--path", place,
         "--", *command], env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
        check=False).returncode


class Log:
    """What passed: a list of (ms, bytes to the server, bytes from it), a tenth of a second each."""

    def __init__(self, path):
        text = pathlib.Path(path).read_text(encoding="ascii")
        self.lines = [tuple(map(int, line.split())) for line in text.splitlines()]

    def now(self):
        return self.lines[-1][0] if self.lines else 0

    def busy(self, way, since=0):
        """Bytes, and seconds from when a tenth of the line was used first until it was last."""
        rows = [row for row in self.lines if row[0] >= since]
        used = [i for i, row in enumerate(rows) if row[way] > LINE / 100]
        if len(used) < 2:
            return 0, 0.0
        part = rows[used[0]:used[-1] + 1]
        return sum(row[way] for row in part), (part[-1][0] - part[0][0]) / 1000 + 0.1

    def most(self, way, seconds, since=0):
        """The most bytes that passed in so many seconds."""
        rows = [row for row in self.lines if row[0] >= since]
        best = total = first = 0
        for row in rows:
            total += row[way]
            while row[0] - rows[first][0] > seconds * 1000:
                total -= rows[first][way]
                first += 1
            best = max(best, total)
        return best


TO_SERVER, FROM_SERVER = 1, 2
