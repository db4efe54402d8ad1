#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a file's bytes as a C array: embed.py INPUT NAME OUTPUT."""

import sys


def main():
    source, name, output = sys.argv[1:]
    with open(source, "rb") as f:
        data = f.read()
    with open(output, "w", encoding="ascii") as f:
        f.write("#include <stddef.h>\n#include <stdint.h>\n")
        f.write(f"extern const uint8_t {name}[];\nextern const size_t {name}_len;\n")
        f.write(f"const size_t {name}_len = {len(data)};\nconst uint8_t {name}[] = {{\n")
        for i in range(0, len(data), 16):
            f.write("\t" + ",".join(str(b) for b in data[i : i + 16]) + ",\n")
        f.write("};\n")


main()
