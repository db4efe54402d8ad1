# SPDX-License-Identifier: Apache-2.0
"""A Ceph cluster of one monitor and one storage daemon on loopback, up in a few seconds.

cephx is on. Everything lies below one directory and is removed with it; only processes that
were started here are ended, by their pid.
"""
import atexit
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))
from processes import free_port  # noqa: E402

PROGRAMS = ("ceph-mon", "ceph-osd", "ceph-authtool", "monmaptool", "ceph", "rbd")
LIMIT = 180  # seconds that only a hang reaches

# Short intervals of the monitor: each snapshot id and each new map waits for one.
CONFIG = """[global]
fsid = {fsid}
mon_host = [v2:127.0.0.1:{port},v1:127.0.0.1:{port1}]
mon_initial_members = a
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_ipv6 = false
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
keyring = {dir}/keyring
run_dir = {dir}/run
pid_file =
log_file = {dir}/log/$name.log
crash_dir = {dir}/log
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
[client]
admin_socket =
log_file =
[mon]
mon_data = {dir}/mon
mon_cluster_log_file = {dir}/log/cluster.log
mon_allow_pool_delete = true
mon_allow_pool_size_one = true
auth_allow_insecure_global_id_reclaim = false
mon_warn_on_pool_no_redundancy = false
paxos_propose_interval = 0.02
paxos_min_wait = 0.01
mon_tick_interval = 1
mon_data_avail_warn = 2
mon_data_avail_crit = 1
[osd]
osd_data = {dir}/osd.$id
osd_objectstore = {store}
bluestore_block_size = 10737418240
bluestore_block_db_create = false
bluestore_block_wal_create = false
memstore_device_bytes = 4294967296
bdev_aio_poll_ms = 10
bluestore_fsck_on_mkfs = false
osd_memory_target = 1073741824
"""


def missing():
    """The first program or module that is not installed, or None."""
    for program in PROGRAMS:
        if not shutil.which(program):
            return program
    try:
        import rados  # noqa: F401
        import rbd  # noqa: F401
    except ImportError as error:
        return error.name
    return None if os.geteuid() == 0 else "root"


class Cluster:
    def __init__(self, store="memstore"):
        self.store = store
        # A test that is ended from outside takes its cluster along.
        atexit.register(self.stop)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    @property
    def conf(self):
        return str(self.dir / "ceph.conf")

    def run(self, *command):
        environment = {**os.environ, "CEPH_CONF": self.conf}
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=LIMIT)
        if done.returncode != 0:
            raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    def daemon(self, name, *command):
        with open(self.dir / "log" / f"{name}.out", "wb") as log:
            process = subprocess.Popen(command, env={**os.environ, "CEPH_CONF": self.conf},
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True)
        self.processes.append(process)
        return process

    def make_keyring(self):
        keyring = str(self.dir / "keyring")
        for name, caps in (("mon.", ("mon", "allow *")),
                           ("client.admin", ("mon", "allow *", "osd", "allow *", "mgr", "allow *")),
                           ("client.cairn", ("mon", "profile rbd", "osd", "profile rbd pool=rbd")),
                           ("osd.0", ("mon", "allow profile osd", "mgr", "allow profile osd",
                                      "osd", "allow *"))):
            flags = [] if os.path.exists(keyring) else ["--create-keyring"]
            pairs = [word for i in range(0, len(caps), 2)
                     for word in ("--cap", caps[i], caps[i + 1])]
            self.run("ceph-authtool", keyring, *flags, "--gen-key", "-n", name, *pairs)
        return keyring

    def start(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="cairn-ceph-"))
        self.processes = []
        fsid, port = str(uuid.uuid4()), free_port(2)
        for part in ("run", "log", "mon", "osd.0"):
            (self.dir / part).mkdir()
        (self.dir / "ceph.conf").write_text(CONFIG.format(
            fsid=fsid, port=port, port1=port + 1, dir=self.dir, store=self.store))
        keyring = self.make_keyring()
        monmap = str(self.dir / "monmap")
        self.run("monmaptool", "--create", "--fsid", fsid, "--addv", "a",
                 f"[v2:127.0.0.1:{port},v1:127.0.0.1:{port + 1}]", monmap)
        self.run("ceph-mon", "-i", "a", "--mkfs", "--monmap", monmap, "--keyring", keyring)
        self.mon = self.daemon("mon", "ceph-mon", "-i", "a", "-f")
        osd = str(uuid.uuid4())
        self.run("ceph", "--connect-timeout", str(LIMIT), "osd", "new", osd)
        self.run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        self.start_osd()
        self.run("ceph", "osd", "pool", "create", "rbd", "8")
        self.run("rbd", "pool", "init", "rbd")

    def start_osd(self):
        self.osd = self.daemon("osd", "ceph-osd", "-i", "0", "-f")
        deadline = time.monotonic() + LIMIT
        while " 1 up" not in self.run("ceph", "osd", "stat"):
            if time.monotonic() > deadline:
                raise RuntimeError("the storage daemon does not come up")
            time.sleep(0.2)

    def stop(self):
        for process in reversed(getattr(self, "processes", [])):
            if process.poll() is None:
                process.kill()
            process.wait()
        if hasattr(self, "dir"):
            shutil.rmtree(self.dir, ignore_errors=True)
