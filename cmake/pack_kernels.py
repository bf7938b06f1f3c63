#!/usr/bin/env python3
"""Packs compiled kernels into one image per module, and writes the sources that put them into the library.

Fails where a row of ballast/backends/cuda/kernel_names.h has no kernel in its module, or a kernel no row, for any
architecture: what a launch names is then in the library. Run by the build (cmake/BallastCuda.cmake).

Usage: cmake/pack_kernels.py --names HEADER --fatbinary PROGRAM --out FOLDER COMPILED...
  COMPILED  MODULE.sm_NN.cubin or MODULE.compute_NN.ptx
"""

import argparse
import pathlib
import re
import struct
import subprocess
import sys

ROW = re.compile(r"\bX\(\s*(\w+)\s*,\s*(\w+)\s*\)")
PTX_ENTRY = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+)*\.entry\s+(\w+)", re.MULTILINE)
SHT_SYMTAB, STT_FUNC, STO_ENTRY = 2, 2, 0x10


def named_kernels(header):
    """module -> names, of the rows of BALLAST_CUDA_KERNELS."""
    rows = {}
    for module, function in ROW.findall(header.read_text(encoding="utf-8")):
        if (module, function) != ("module", "function"):
            rows.setdefault(module, set()).add(function)
    return rows


def kernels_of_cubin(data):
    """The kernels of a cubin, which is an ELF file: functions marked as entries."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit ELF file")
    table, = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + size * i) for i in range(count)]
    names = set()
    for section in sections:
        if section[1] != SHT_SYMTAB:
            continue
        texts = sections[section[6]]
        for at in range(section[4], section[4] + section[5], 24):
            name, info, other, place = struct.unpack_from("<IBBH", data, at)
            if info & 15 == STT_FUNC and other & STO_ENTRY and place != 0:
                begin = texts[4] + name
                names.add(data[begin:data.index(b"\0", begin)].decode())
    return names


def kernels_of(path):
    if path.suffix == ".ptx":
        return set(PTX_ENTRY.findall(path.read_text(encoding="utf-8")))
    return kernels_of_cubin(path.read_bytes())


def check(path, wanted):
    found = kernels_of(path)
    problems = [f"{path.name} has no kernel {name}, which kernel_names.h has" for name in sorted(wanted - found)]
    problems += [f"{path.name} has a kernel {name}, which kernel_names.h does not have" for name in sorted(found - wanted)]
    return problems


def image_option(path):
    architecture = path.name.split(".")[1]
    kind = "ptx" if path.suffix == ".ptx" else "elf"
    return f"--image3=kind={kind},sm={architecture.split('_')[1]},file={path}"


def write_assembly(out, modules):
    lines = ["// Made by cmake/pack_kernels.py.", "#if defined(__linux__) && defined(__ELF__)",
             '.section .note.GNU-stack,"",%progbits', "#endif", '.section .rodata.ballast_kernels,"a",%progbits']
    for module in modules:
        lines += [".balign 16", f".globl ballast_kernels_{module}", f".hidden ballast_kernels_{module}",
                  f"ballast_kernels_{module}:", f'.incbin "{out / (module + ".fatbin")}"',
                  f".globl ballast_kernels_{module}_end", f".hidden ballast_kernels_{module}_end",
                  f"ballast_kernels_{module}_end:", ".byte 0"]
    (out / "kernel_image.S").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_table(out, modules, architectures):
    declared = "".join(f"extern const std::byte ballast_kernels_{m}[], ballast_kernels_{m}_end[];\n" for m in modules)
    rows = "".join(f'      {{"{m}", ByteSpan(ballast_kernels_{m}, ballast_kernels_{m}_end)}},\n' for m in modules)
    (out / "kernel_image.cc").write_text(
        '// Made by cmake/pack_kernels.py.\n#include "ballast/backends/cuda/kernel_image.h"\n\n#include <array>\n\n'
        f'extern "C" {{\n{declared}}}\n\nnamespace ballast::cuda {{\n\n'
        "std::span<const KernelImage> kernel_images() {\n"
        f"  static const std::array<KernelImage, {len(modules)}> images = {{{{\n{rows}  }}}};\n  return images;\n}}\n"
        f'std::string_view kernel_architectures() {{ return "{" ".join(architectures)}"; }}\n\n'
        "}  // namespace ballast::cuda\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", type=pathlib.Path, required=True)
    parser.add_argument("--fatbinary", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("compiled", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    named = named_kernels(options.names)
    modules = {}
    for path in options.compiled:
        modules.setdefault(path.name.split(".")[0], []).append(path)
    problems = [f"kernel_names.h names the module {m}, and there is no kernels/{m}.cu" for m in sorted(named.keys() - modules)]
    for module, paths in modules.items():
        for path in paths:
            problems += check(path, named.get(module, set()))
    if problems:
        print("\n".join(f"pack_kernels: {problem}" for problem in problems), file=sys.stderr)
        return 1
    for module, paths in modules.items():
        subprocess.run([options.fatbinary, f"--create={options.out / (module + '.fatbin')}", "-64", "-compress-all",
                        *map(image_option, paths)], check=True)
    write_assembly(options.out, sorted(modules))
    architectures = list(dict.fromkeys(path.name.split(".")[1] for path in options.compiled))
    write_table(options.out, sorted(modules), architectures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
