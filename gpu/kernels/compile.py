"""Compiles every kernel ahead of time, without a GPU, and says what each needs.

    python -m draftproof.gpu.kernels.compile            the table, as Markdown
    python -m draftproof.gpu.kernels.compile --json     the same as JSON lines
    python -m draftproof.gpu.kernels.compile --write F  the table, into the file between its marks

What is compiled is what would be launched: launchers run on tensors without memory, and each
launch is turned into a compilation with the specialisation that Triton would choose for it. The
assembler says how many registers a thread uses and how many bytes it spills.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from draftproof.gpu.kernels.loading import INTERPRET

CAPABILITY = 90
BLOCKS = (5, 7)
MARK = "<!-- registers and spills -->"

DTYPES = {
    torch.int64: "*i64",
    torch.float32: "*fp32",
    torch.bfloat16: "*bf16",
    torch.bool: "*i1",
}


@dataclass(frozen=True, slots=True)
class Compiled:
    """One kernel in one variant. registers: per thread; spills: bytes; shared: bytes."""

    case: str
    kernel: str
    block: int
    warps: int
    registers: int
    spills: int
    shared: int


def compiled(block: int) -> Iterator[Compiled]:
    """Every kernel that is launched at draft length `block`, compiled once per variant."""
    from draftproof.gpu.kernels.launching import launching_by
    from draftproof.gpu.kernels.published import cases

    for case in cases(block):
        seen: dict[tuple[Any, ...], Compiled] = {}

        def record(
            kernel: Any,
            grid: tuple[int, ...],
            arguments: tuple[Any, ...],
            warps: int,
            constants: dict[str, Any],
            name: str = case.name,
            seen: dict[tuple[Any, ...], Compiled] = seen,
        ) -> None:
            variant = kernel.__name__, *(value is None for value in arguments)
            if variant not in seen:
                later = any(kernel.__name__ == other for other, *_ in seen)
                label = f"{name}, later launches" if later else name
                facts = _compile(kernel, arguments, warps, constants)
                seen[variant] = Compiled(label, kernel.__name__, block, warps, *facts)

        with launching_by(record):
            case.call()
        yield from seen.values()


def _compile(
    kernel: Any, arguments: tuple[Any, ...], warps: int, constants: dict[str, Any]
) -> tuple[int, int, int]:
    """Registers, bytes spilled, bytes of shared memory."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature, fixed, attributes = _specialised(kernel, arguments, constants)
    source = ASTSource(fn=kernel, signature=signature, constexprs=fixed, attrs=attributes)
    target = GPUTarget("cuda", CAPABILITY, 32)
    made = triton.compile(source, target=target, options={"num_warps": warps})
    return *_assembled(made.asm["ptx"]), made.metadata.shared


def _specialised(
    kernel: Any, arguments: tuple[Any, ...], constants: dict[str, Any]
) -> tuple[dict[str, str], dict[str, Any], dict[tuple[int, ...], list[list[Any]]]]:
    """Types, constants, and what is a multiple of 16, as Triton finds them at a launch."""
    signature: dict[str, str] = {}
    fixed: dict[str, Any] = dict(constants)
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    for i, (parameter, value) in enumerate(zip(kernel.params, arguments, strict=False)):
        free = parameter.do_not_specialize
        if isinstance(value, Tensor):
            signature[parameter.name] = DTYPES[value.dtype]
        elif value is None or (not free and isinstance(value, int) and value == 1):
            fixed[parameter.name] = value
        elif isinstance(value, float):
            signature[parameter.name] = "fp32"
        else:
            signature[parameter.name] = "i32" if -(2**31) <= value < 2**31 else "i64"
        offset = value.storage_offset() * value.itemsize if isinstance(value, Tensor) else value
        if not free and isinstance(offset, int) and offset % 16 == 0:
            attributes[(i,)] = [["tt.divisibility", 16]]
    names = [parameter.name for parameter in kernel.params]
    signature = {name: "constexpr" if name in fixed else signature[name] for name in names}
    return signature, fixed, attributes


def _assembled(ptx: str) -> tuple[int, int]:
    """What the assembler says: registers per thread, bytes of spilled stores and loads."""
    from triton.backends.nvidia.compiler import get_ptxas

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx, "utf-8")
        command = [get_ptxas(CAPABILITY).path, "-v", f"--gpu-name=sm_{CAPABILITY}a"]
        command += [str(source), "-o", str(source.with_suffix(".cubin"))]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = re.search(r"Used (\d+) registers", told)
    spilled = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", told)
    assert registers and spilled, told
    return int(registers[1]), int(spilled[1]) + int(spilled[2])


def table(rows: list[Compiled]) -> str:
    """The rows as Markdown, and the versions they hold for."""
    import triton

    lines = [
        f"Triton {triton.__version__}, compute capability {CAPABILITY // 10}.{CAPABILITY % 10}.",
        "",
        "| operation | kernel | K | warps | registers | spilled bytes | shared memory |",
        "|---|---|---|---|---|---|---|",
    ]
    blocks: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        facts = row.warps, row.registers, row.spills, row.shared
        blocks.setdefault((row.case, f"`{row.kernel}`", facts), []).append(row.block)
    for (case, kernel, facts), equal in blocks.items():
        cells = [case, kernel, ", ".join(map(str, equal)), *facts]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def write(file: Path, text: str) -> None:
    """Replace what stands between the marks."""
    before, _, after = file.read_text("utf-8").split(MARK)
    file.write_text(f"{before}{MARK}\n\n{text}\n\n{MARK}{after}", "utf-8")


def main(argv: list[str] | None = None) -> int:
    """Compile everything; 1 if a kernel spills."""
    parser = argparse.ArgumentParser(prog="python -m draftproof.gpu.kernels.compile")
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    parser.add_argument("--write", type=Path, metavar="F", help="put the table into this file")
    options = parser.parse_args(argv)
    os.environ.pop(INTERPRET, None)
    rows = [row for block in BLOCKS for row in compiled(block)]
    if options.json:
        print("\n".join(json.dumps(asdict(row)) for row in rows))
    elif options.write:
        write(options.write, table(rows))
    else:
        print(table(rows))
    return int(any(row.spills for row in rows))


if __name__ == "__main__":
    sys.exit(main())
