#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The examples of the proposal of snapshot sessions (proposals/) against what Cairn ships: the
messages on the wire, and the fields of the objects."""
import pathlib
import subprocess
import tempfile
import unittest

import yaml
from google.protobuf import descriptor_pb2

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def descriptors(directory, name):
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["protoc", "-I", directory, f"--descriptor_set_out={out.name}", name],
                       check=True)
        return descriptor_pb2.FileDescriptorSet.FromString(out.read()).file[0]


class Messages(unittest.TestCase):
    def test_the_service_is_the_proposals(self):
        theirs = descriptors(HERE / "proposals", "session.proto")
        ours = descriptors(ROOT / "src/proto", "snapshot_session.proto")

        def fields(file):
            return {(message.name, field.name, field.number, field.type, field.label,
                     field.type_name) for message in file.message_type for field in message.field}

        def values(file):
            return {(enum.name, value.name, value.number)
                    for enum in file.enum_type for value in enum.value}

        def methods(file):
            return {(service.name, method.name, method.input_type, method.output_type,
                     method.server_streaming) for service in file.service
                    for method in service.method}
        self.assertEqual(ours.package, theirs.package)
        self.assertEqual(fields(ours), fields(theirs))
        self.assertEqual(values(ours), values(theirs))
        self.assertEqual(methods(ours), methods(theirs))


class Objects(unittest.TestCase):
    def check(self, theirs, ours, where):
        """Whatever the proposal's schema allows is a field of ours, with the same type."""
        self.assertEqual(theirs.get("type"), ours.get("type"), where)
        for name, schema in theirs.get("properties", {}).items():
            self.assertIn(name, ours["properties"], where)
            self.check(schema, ours["properties"][name], f"{where}.{name}")
        self.assertLessEqual(set(theirs.get("required", ())), set(ours.get("required", ())), where)

    def test_the_fields_are_the_proposals(self):
        examples = sorted((HERE / "proposals").glob("*.yaml"))
        self.assertEqual(len(examples), 3)
        for path in examples:
            theirs = yaml.safe_load(path.read_text())
            shipped = next((ROOT / "deploy").rglob(path.name))
            ours = yaml.safe_load(shipped.read_text())
            with self.subTest(kind=theirs["spec"]["names"]["kind"]):
                for field in ("group", "scope"):
                    self.assertEqual(ours["spec"][field], theirs["spec"][field])
                for field in ("kind", "listKind", "plural"):
                    self.assertEqual(ours["spec"]["names"][field], theirs["spec"]["names"][field])
                schemas = [crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
                           for crd in (theirs, ours)]
                for part in ("spec", "status"):
                    if part in schemas[0]["properties"]:
                        self.check(schemas[0]["properties"][part], schemas[1]["properties"][part],
                                   part)

    def test_a_differential_snapshot_has_the_proposals_fields(self):
        """Its proposal has Go structs, whose tags name the fields."""
        shipped = next((ROOT / "deploy").rglob("differentialsnapshots.yaml"))
        schema = yaml.safe_load(shipped.read_text())["spec"]["versions"][0]["schema"]
        parts = schema["openAPIV3Schema"]["properties"]
        for part, wanted in (("spec", {
                "baseVolumeSnapshotName": "string", "targetVolumeSnapshotName": "string",
                "volumeId": "string", "mode": "string", "startOffset": "string",
                "parameters": "object"}), ("status", {
                    "state": "string", "error": "string", "url": "string"})):
            found = {name: field["type"] for name, field in parts[part]["properties"].items()}
            self.assertLessEqual(wanted.items(), found.items())
        self.assertEqual(parts["spec"]["required"], ["targetVolumeSnapshotName"])


if __name__ == "__main__":
    unittest.main()
