"""Archives as releases of extensions come in: tars, and Debian's packages."""

import io
import tarfile
from collections.abc import Mapping


def tarred(files: Mapping[str, bytes], compression: str = "") -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=f"w:{compression}") as archive:
        for name, body in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    return content.getvalue()


def debian_package(data: bytes, name: str = "data.tar") -> bytes:
    """Return a Debian package of version 2.0: an `ar` archive of three entries, padded to even sizes."""
    content = b"!<arch>\n"
    for each, body in (("debian-binary", b"2.0\n"), ("control.tar", tarred({})), (name, data)):
        header = f"{each:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(body):<10}`\n".encode()
        content += header + body + b"\n" * (len(body) % 2)
    return content
