# SPDX-License-Identifier: Apache-2.0
"""Alert rules of the chart, tried with promtool: made-up series, or metrics that programs report."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

TREE = pathlib.Path(__file__).resolve().parents[2]
RULES = TREE / "deploy/helm/cairn/monitoring/alerts.yaml"
DASHBOARD = TREE / "deploy/helm/cairn/monitoring/dashboard.json"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "cairn"
METRIC = re.compile(r"\b(?:cairn|csi|process|snapshot)_[a-z0-9_]+")
SAMPLE = re.compile(r"^([a-z_][a-z0-9_]*)(?:\{(.*)\})? (\S+)$")


def promtool_or_skip():
    """Debian's, from its package and without installing that: it would start a server."""
    found = shutil.which("promtool")
    if found:
        return found
    kept = CACHE / "promtool"
    if not kept.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as place:
            done = subprocess.run("apt-get download -q prometheus && dpkg-deb --extract *.deb x",
                                  shell=True, cwd=place, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise unittest.SkipTest(f"there is no promtool: {done.stderr[-200:]}")
            os.rename(f"{place}/x/usr/bin/promtool", kept)
    return str(kept)


def alerts():
    return [rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"]
            for rule in group["rules"]]


def try_rules(cases):
    """(status, what promtool says) of a file of cases."""
    with tempfile.TemporaryDirectory() as place:
        shutil.copy(RULES, place)
        (pathlib.Path(place) / "cases.yaml").write_text(cases)
        done = subprocess.run([promtool_or_skip(), "test", "rules", f"{place}/cases.yaml"],
                              capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr


def samples_of(text, now=0.0, **labels):
    """{series: value} of what a program reports. A scrape adds labels; times are counted from
    `now`, since the time of promtool begins at 0."""
    found = {}
    for line in text.splitlines():
        match = SAMPLE.match(line)
        if not match:
            continue
        name, inner, value = match.groups()
        inner = [*filter(None, [inner]), *(f'{key}="{text}"' for key, text in labels.items())]
        number = float(value)
        if name.endswith(("timestamp_seconds", "expiry_seconds")) and number:
            number -= now
        found[f"{name}{{{','.join(inner)}}}"] = number
    return found


def differs(phases, minute, want):
    """What promtool says if at a minute other alerts fire than {alert: how many}; "" if these do.
    `phases` are [(minutes, samples)], one after another."""
    series = sorted({name for _, samples in phases for name in samples})
    values = {name: " ".join(f"{samples[name]!r}x{minutes - 1}" if name in samples else
                             f"_x{minutes}" for minutes, samples in phases) for name in series}
    status, said = try_rules(yaml.safe_dump({
        "rule_files": ["alerts.yaml"], "evaluation_interval": "1m",
        "tests": [{
            "interval": "1m",
            "input_series": [{"series": name, "values": values[name]} for name in series],
            "promql_expr_test": [{
                "expr": f'count(ALERTS{{alertstate="firing",alertname="{alert}"}}) or vector(0)',
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": "{}", "value": want.get(alert, 0)}]}
                for alert in alerts()]}]}))
    return "" if status == 0 else said
