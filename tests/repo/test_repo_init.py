# SPDX-License-Identifier: Apache-2.0
"""Several processes that make one repository at one time: one of them does, the others say
that there is one, and what is left opens."""
from fakes3 import FakeS3
from repoworld import KEYS, Repository, init_at_once, main, require

MAKERS = 4


def usable(world, repository):
    repository.tool("put", "/v", world.file("data", 300_000, 1)).good()
    repository.sound()


def race_on_s3(world, conditions, hold):
    server = FakeS3(conditions, hold, MAKERS)
    try:
        repository = Repository(f"s3:http://127.0.0.1:{server.port()}/bucket/path", world.dir, KEYS)
        made = init_at_once(repository, MAKERS)
        require(made == 1, f"{made} of {MAKERS} made it")
        keys = [key for key in server.objects if "/keys/" in key]
        require(len(keys) == 1, f"{len(keys)} keys are left")
        require(not any("/locks/" in key for key in server.objects), "a lock is left")
        usable(world, repository)
    finally:
        server.shutdown()


def all_look_before_one_writes_conditions_kept(world):
    race_on_s3(world, "kept", ("HEAD", "path/config"))


def all_look_before_one_writes_conditions_ignored(world):
    race_on_s3(world, "ignored", ("HEAD", "path/config"))


def all_look_before_one_writes_conditions_refused(world):
    race_on_s3(world, "refused", ("HEAD", "path/config"))


def one_at_a_time_with_each_kind_of_server(world):
    for conditions in ("kept", "ignored", "refused"):
        server = FakeS3(conditions)
        repository = Repository(f"s3:http://127.0.0.1:{server.port()}/bucket/path", world.dir, KEYS)
        repository.tool("init").good()
        repository.tool("init").bad("ALREADY_EXISTS")
        usable(world, repository)
        server.shutdown()


def a_bucket_with_object_lock_gets_what_it_wants(world):
    server = FakeS3(object_lock=True)
    repository = Repository(f"s3:http://127.0.0.1:{server.port()}/bucket/path", world.dir, KEYS)
    repository.tool("init").good()
    usable(world, repository)
    server.shutdown()


def in_a_directory_one_makes_it(world):
    for _ in range(5):
        repository = world.repository("directory")
        made = init_at_once(repository, MAKERS)
        require(made == 1, f"{made} of {MAKERS} made it")
        usable(world, repository)


main([all_look_before_one_writes_conditions_kept, all_look_before_one_writes_conditions_ignored,
      all_look_before_one_writes_conditions_refused, one_at_a_time_with_each_kind_of_server,
      a_bucket_with_object_lock_gets_what_it_wants, in_a_directory_one_makes_it])
