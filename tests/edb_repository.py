"""Stand-ins for EnterpriseDB's package repository and for pgpu; every package says that it is one."""

import base64
import gzip
import hashlib
import shutil
import subprocess
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TOKEN = "qZ7kept-out/of+everything42"


class Repository(ThreadingHTTPServer):
    """An apt repository of stand-ins, laid out like EnterpriseDB's; it requires the token as a password."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/basic/enterprise"


class _Handler(BaseHTTPRequestHandler):
    server: Repository

    def do_GET(self) -> None:
        expected = "Basic " + base64.b64encode(f"token:{TOKEN}".encode()).decode()
        path = self.server.folder / self.path.removeprefix("/basic/enterprise/")
        is_known = self.headers.get("Authorization") == expected
        content = path.read_bytes() if is_known and path.is_file() else b""
        self.send_response(200 if content else 404 if is_known else 401)
        self.send_header("WWW-Authenticate", "Basic")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def stand_in(
    folder: Path,
    version: str,
    name: str = "edb-pg17-pgpu",
    major: str = "17",
    library: Path | None = None,
) -> Path:
    """A package NAMED a stand-in: an extension pgpu of one SQL function, which needs no library."""
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    extension = tree / f"usr/share/postgresql/{major}/extension"
    extension.mkdir(parents=True)
    (extension / "pgpu.control").write_text(
        f"comment = 'a stand-in for pgpu'\ndefault_version = '{version}'\nrelocatable = false\n"
        "superuser = true\nschema = 'pgpu'\nrequires = 'vector, vchord'\n"
    )
    (extension / f"pgpu--{version}.sql").write_text(
        "CREATE FUNCTION ping() RETURNS text RETURN 'a stand-in';\n"
    )
    if library is not None:
        libraries = tree / f"usr/lib/postgresql/{major}/lib"
        libraries.mkdir(parents=True)
        shutil.copy(library, libraries / "pgpu.so")
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: {version}-1.bookworm\nArchitecture: amd64\n"
        "Maintainer: nobody <nobody@invalid>\n"
        f"Depends: edb-pg{major}-pgvector-0 (>= 0.8), libc6, libcublas-12-9, postgresql-{major},"
        f" edb-pg{major}-vectorchord | postgresql-{major}-vchord\nDescription: a stand-in for pgpu\n"
    )
    path = folder / f"{name}_{version}-1.bookworm_amd64.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, path], check=True, capture_output=True)
    return path


def publish(folder: Path, packages: list[Path]) -> None:
    """Make a signed repository of packages, with its key."""
    pool, suite = folder / "deb/debian/pool", folder / "deb/debian/dists/bookworm"
    index = suite / "main/binary-amd64/Packages.gz"
    pool.mkdir(parents=True)
    index.parent.mkdir(parents=True)
    entries = []
    for path in packages:
        shutil.copy(path, pool)
        fields = subprocess.run(["dpkg-deb", "-f", path], check=True, capture_output=True, text=True).stdout
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        entries.append(f"{fields}Filename: pool/{path.name}\nSize: {path.stat().st_size}\nSHA256: {digest}\n")
    text = "\n".join(entries).encode()
    lines = []
    for path, content in ((index.with_suffix(""), text), (index, gzip.compress(text))):
        path.write_bytes(content)
        lines.append(f" {hashlib.sha256(content).hexdigest()} {len(content)} main/binary-amd64/{path.name}\n")
    (suite / "Release").write_text(
        "Suite: bookworm\nCodename: bookworm\nComponents: main\nArchitectures: amd64\n"
        f"Date: {formatdate(usegmt=True)}\nSHA256:\n{''.join(lines)}"
    )
    home = folder / "gnupg"
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", ""]
    try:
        subprocess.run([*gpg, "--quick-generate-key", "stand-in", "ed25519"], check=True, capture_output=True)
        clear = ["--clearsign", "--output", str(suite / "InRelease"), str(suite / "Release")]
        subprocess.run([*gpg, *clear], check=True, capture_output=True)
        export = ["--armor", "--output", str(folder / "gpg.key"), "--export"]
        subprocess.run([*gpg, *export], check=True, capture_output=True)
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], capture_output=True)
