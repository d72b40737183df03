"""Archives as releases of extensions come in."""

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
