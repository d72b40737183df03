"""What a shared library says of itself: the machine and the PostgreSQL that it was built for."""

import re
import struct

# By the number in the header of an ELF file; the names are those that `uname -m` prints.
_MACHINES = {3: "i686", 21: "ppc64le", 22: "s390x", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
# PostgreSQL compares this block before it loads a library: version, most arguments of a function, most
# columns of an index, length of a name, floats by value, and who made the server.
_MAGIC = re.compile(b"(..)\0\0" + re.escape(struct.pack("<4i", 100, 32, 64, 1)) + b"PostgreSQL\0", re.DOTALL)


def elf_machine(start: bytes) -> str | None:
    """Name the machine by the first 20 bytes of a program or library; None if it is no ELF file."""
    if len(start) < 20 or not start.startswith(b"\x7fELF"):
        return None
    number = int.from_bytes(start[18:20], "little" if start[5] == 1 else "big")
    return _MACHINES.get(number, f"ELF machine {number}")


def postgres_major(library: bytes) -> int | None:
    """Find the major version that an extension's library was built for; None where it does not show."""
    match = _MAGIC.search(library)
    return int.from_bytes(match[1], "little") // 100 if match else None
