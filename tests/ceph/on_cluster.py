#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program with the address of a pool on Ceph as its last argument.

Usage: on_cluster.py NAMESPACE PROGRAM [ARGUMENT...]
"""
import os
import subprocess
import sys

import cephbed

if __name__ == "__main__":
    lacking = cephbed.missing()
    if lacking:
        print(f"needs {lacking}: scripts/deps ceph")
        sys.exit(77)
    cluster = cephbed.Cluster(os.environ.get("CAIRN_CEPH_STORE", "memstore"))
    try:
        sys.exit(subprocess.run([*sys.argv[2:], f"rbd:rbd/{sys.argv[1]}:conf={cluster.conf}"],
                                check=False).returncode)
    finally:
        cluster.stop()
