"""What install.py does before a build begins; no engine is needed."""

import io
import os
import tarfile
from pathlib import Path

import certifi
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.installing import debian
from ann_benchmarks.installing.building import BuildLog
from ann_benchmarks.installing.catalog import LARGE_BASE, SMALL_BASE, ImageCatalog
from ann_benchmarks.installing.context import (
    ca_bundle,
    check_used,
    proxies,
    read_build_arguments,
    read_certificates,
    read_dockerfile,
    write_context,
)
from ann_benchmarks.installing.images import apt_mirror
from ann_benchmarks.installing.main import main

from .programs import one_line


def refused(*arguments: str) -> str:
    with pytest.raises(UserError) as raised:
        main(arguments)
    assert "\n" not in str(raised.value)
    return str(raised.value)


# Dockerfiles


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_dockerfile_is_read(tmp_path: Path) -> None:
    path = written(
        tmp_path / "Dockerfile",
        """\
# syntax=x
ARG BASE=debian:12 TAG="a b"
ARG NAME
from --platform=linux/amd64 ${BASE} AS Builder
RUN echo \\
  # a comment
  FROM nothing \\
  ARG neither
ARG LATER=1
FROM builder
COPY --from=builder /x /x
FROM registry/$NAME:${OTHER:-1}
""",
    )
    dockerfile = read_dockerfile(path)
    assert dockerfile.arguments == {"BASE", "TAG", "NAME", "LATER"}
    assert dockerfile.bases({}) == ["debian:12", "debian:12", "registry/:1"]
    assert dockerfile.bases({"BASE": "mine", "NAME": "n", "OTHER": "2", "LATER": "2"}) == [
        *("mine", "mine"),
        "registry/n:1",
    ]
    with pytest.raises(UserError, match="has no FROM line"):
        read_dockerfile(written(tmp_path / "Empty", "RUN true\n"))
    with pytest.raises(UserError, match="cannot be read"):
        read_dockerfile(tmp_path / "missing")


# Which images


def catalog(
    folder: Path, *arguments: str, base: str = "debian:trixie-slim", mirror: str = ""
) -> ImageCatalog:
    return ImageCatalog(folder, [], [], read_build_arguments(arguments), base, mirror or None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    plugins = tmp_path / "plugins"
    written(plugins / "base/Dockerfile", "ARG BASE=x\nFROM ${BASE}\nARG APT_MIRROR\n")
    written(plugins / "base/Dockerfile.tools", "FROM ann-benchmarks-base\n")
    written(plugins / "ours/Dockerfile", "ARG BASE=ann-benchmarks\nFROM ${BASE}\nARG WHAT\n")
    written(plugins / "theirs/Dockerfile", "FROM ann-benchmarks AS builder\nFROM ubuntu:22.04\n")
    written(plugins / "other/Dockerfile", "FROM python:3\n")
    return plugins


@pytest.mark.parametrize(
    ("name", "arguments", "images"),
    [
        ("ours", [], [SMALL_BASE, "ann-benchmarks-ours"]),
        ("ours:1", [], [SMALL_BASE, "ann-benchmarks-ours:1"]),
        ("ours", ["BASE=ann-benchmarks"], [SMALL_BASE, LARGE_BASE, "ann-benchmarks-ours"]),
        ("ours", ["BASE=mine:1"], ["ann-benchmarks-ours"]),
        ("theirs", [], [SMALL_BASE, LARGE_BASE, "ann-benchmarks-theirs"]),
        ("other:2", [], ["ann-benchmarks-other:2"]),
        ("base", [], [SMALL_BASE]),
        (
            None,
            [],
            ["ann-benchmarks-other", SMALL_BASE, "ann-benchmarks-ours", LARGE_BASE, "ann-benchmarks-theirs"],
        ),
    ],
)
def test_bases_come_first_and_only_where_needed(
    folder: Path, name: str | None, arguments: list[str], images: list[str]
) -> None:
    assert [spec.image for spec in catalog(folder, *arguments).specs(name)] == images


def test_what_each_is_built_with(folder: Path) -> None:
    book = catalog(folder, "WHAT=1", base="mine:2", mirror="http://mirror")
    base, ours = book.specs("ours:3")
    assert base.arguments.values == {"BASE": "mine:2", "APT_MIRROR": "http://mirror"}
    assert base.base == "mine:2"
    assert ours.arguments.values == {"WHAT": "1", "BASE": SMALL_BASE}
    assert ours.needs == (SMALL_BASE,)
    assert ours.dockerfile == "ann_benchmarks/algorithms/ours/Dockerfile"
    with pytest.raises(UserError, match="declares ARG WHTA; did you mean 'WHAT'"):
        catalog(folder, "WHTA=1").specs("ours")
    with pytest.raises(UserError, match="base has no versions"):
        catalog(folder).specs("base:1")
    written(folder / "a/Dockerfile", "FROM ann-benchmarks-b\n")
    written(folder / "b/Dockerfile", "FROM ann-benchmarks-a:latest\n")
    with pytest.raises(UserError, match="made of each other: ann-benchmarks-"):
        catalog(folder).specs("a")


# Arguments


def test_build_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    package = written(tmp_path / "somewhere/x_1.deb", "")
    written(tmp_path / "17", "")
    texts = [
        "A=1",
        "A=2",
        "V=17",
        "EMPTY=",
        "SET",
        "UNSET",
        f"P={package}",
        "R=https://x/y.deb",
        "PREFIX=/usr",
    ]
    given = read_build_arguments(texts, {"SET": "s"})
    assert given.values == {
        **{"A": "2", "V": "17", "EMPTY": "", "SET": "s", "P": "x_1.deb"},
        **{"R": "https://x/y.deb", "PREFIX": "/usr"},
    }
    assert given.packages == {"P": package}
    assert given.only({"A"}).packages == {} and given.only({"P"}).packages == {"P": package}
    assert str(read_build_arguments(["U=https://me:secret@host/x"])) == '{"U": "https://***@host/x"}'
    other = written(tmp_path / "elsewhere/x_1.deb", "")
    for wrong, message in (
        (["1A=2"], "'1A=2' is not a build argument: write NAME=VALUE"),
        (["=2"], "is not a build argument"),
        (["P=./absent.deb"], "the file ./absent.deb, which a build argument names, does not exist"),
        ([f"P={package}", f"Q={other}"], "have the same name"),
    ):
        with pytest.raises(UserError, match=message):
            read_build_arguments(wrong)
    check_used(read_build_arguments(["http_proxy=x"]), [])
    assert proxies({"HTTP_PROXY": "a", "no_proxy": "", "https_proxy": "b", "x": "c"}) == {
        "HTTP_PROXY": "a",
        "https_proxy": "b",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--local", "--algorithm", "x", "--proc", "2"], "--proc does not go with --local"),
        (["--local", "--no-cache"], "--no-cache does not go with --local"),
        (["--version", "1"], "--version does not go with images"),
        (["--export", "x", "--base", "y"], "--base does not go with --export"),
        (["--mirror", "ftp://x"], "--mirror ftp://x is not an address"),
        (["--mirror", "http://x y"], "is not an address"),
        (["--mirror", "http://x/y"], "does not end in /debian"),
        (["--ca-bundle", "absent.pem"], "--ca-bundle: absent.pem cannot be read: No such file"),
        (["--definitions", "absent"], "absent is not one"),
        (["--algorithm", "base:a b"], "'a b' must be a tag of an image"),
        (
            ["--algorithm", "pgvector_hnws"],
            "unknown algorithm 'pgvector_hnws'; did you mean 'pgvector_hnsw'?",
        ),
    ],
)
def test_options_that_are_refused(arguments: list[str], message: str) -> None:
    assert message in refused(*arguments)


def test_mirrors() -> None:
    assert apt_mirror(None, False) is None
    assert (
        apt_mirror("https://mirror/", True) == apt_mirror("https://mirror/debian", False) == "https://mirror"
    )
    assert apt_mirror("https://mirror/own", True) is None
    assert debian.archive_address("https://mirror/own/") == "https://mirror/own"


# Certificates


def test_a_bundle_is_split(tmp_path: Path) -> None:
    end = "-----END CERTIFICATE-----\n"
    blocks = Path(certifi.where()).read_text().split(end)[:2]
    bundle = written(
        tmp_path / "own.pem", "text\r\n" + end.join([*blocks, *blocks, ""]).replace("\n", "\r\n")
    )
    certificates = read_certificates(bundle, "X")
    assert len(certificates) == 2 and all(name.endswith(".crt") for name in certificates)
    assert all(content.count(b"BEGIN") == 1 and b"\r" not in content for content in certificates.values())
    assert read_certificates(tmp_path, "X") == certificates
    for text in ("", "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"):
        with pytest.raises(UserError, match="X: .* holds no certificate"):
            read_certificates(written(tmp_path / "none.pem", text), "X")
    damaged = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
    with one_line("is damaged"):
        read_certificates(written(tmp_path / "bad.pem", damaged), "X")


def test_which_bundle() -> None:
    environment = {"SSL_CERT_FILE": "", "CURL_CA_BUNDLE": "c", "PIP_CERT": "p"}
    assert ca_bundle(None, environment) == (Path("c"), "CURL_CA_BUNDLE")
    assert ca_bundle("own.pem", environment) == (Path("own.pem"), "--ca-bundle")
    assert ca_bundle("none", environment) is None and ca_bundle(None, {}) is None


# The context


def context(folder: Path, packages: tuple[Path, ...] = ()) -> bytes:
    file = io.BytesIO()
    write_context(file, folder, {"b.crt": b"B", "a.crt": b"A"}, packages)
    return file.getvalue()


def test_the_context_is_the_same_for_the_same_files(tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    script = written(folder / "mine/run.sh", "true\n")
    script.chmod(0o700)
    written(folder / "mine/__pycache__/x.pyc", "")
    written(folder / "mine/.git/config", "")
    (folder / "mine/link").symlink_to("run.sh")
    (folder / "linked").symlink_to(folder / "mine")
    written(folder / "bruteforce/Dockerfile", "FROM mine\n")
    package = written(tmp_path / "x.deb", "content")
    before = context(folder, (package,))
    written(folder / "mine/__pycache__/y.pyc", "")
    os.utime(script, (1, 1))
    package.chmod(0o600)
    assert context(folder, (package,)) == before
    with tarfile.open(fileobj=io.BytesIO(before)) as tar:
        members = {member.name: member for member in tar}
        assert len(members) == len(tar.getnames())
        assert {(m.uid, m.gid, m.uname, m.mtime) for m in members.values()} == {(0, 0, "", 315_619_200)}
        text = tar.extractfile("ann_benchmarks/algorithms/bruteforce/Dockerfile")
        assert text is not None and text.read() == b"FROM mine\n"  # not the project's own
    algorithms = "ann_benchmarks/algorithms"
    assert members[algorithms].isdir() and members[f"{algorithms}/base/module.py"].mode == 0o644
    assert members[f"{algorithms}/mine/run.sh"].mode == members[f"{algorithms}/linked/run.sh"].mode == 0o755
    assert members[f"{algorithms}/mine/link"].linkname == "run.sh"
    assert f"{algorithms}/bruteforce/module.py" not in members
    assert not [name for name in members if "__pycache__" in name or ".git" in name]
    for name in ("run.py", "requirements.lock", "ann_benchmarks/run/request.py", f"{algorithms}/__init__.py"):
        assert members[name].isfile()
    inside = [name for name in members if name.startswith(("ca-certificates", "packages"))]
    assert inside == [
        *("ca-certificates", "ca-certificates/a.crt", "ca-certificates/b.crt"),
        *("packages", "packages/x.deb"),
    ]
    assert b"packages\0" not in context(folder)


# The log, and the end


def test_why_a_build_failed(tmp_path: Path) -> None:
    status = "The command '/bin/sh -c x' returned a non-zero code: 100"

    def why(output: str, message: str = status) -> str:
        with BuildLog(tmp_path / "x.log") as log:
            log.write("Step 1/2 : FROM x\nE: of another step\n")
            for letter in "Step 2/2 : RUN y\n" + output:
                log.write(letter)
            return log.explain(message)

    assert why("a\n\x1b[91mE: no package\x1b[0m\nb\n") == "step 2/2 ended with status 100: E: no package"
    assert why("a\nE: no\x1b]0;x\x07 package\nb\n").endswith("status 100: E: no ]0;x  package")
    assert why("10%\r100%\nlast\n\nRemoving intermediate container 1\n").endswith("status 100: last")
    assert why("") == f"step 2/2: {status}"
    assert why("x\n", "COPY failed:\nno such file") == "step 2/2: COPY failed: no such file"
    assert (tmp_path / "x.log").read_text().endswith("COPY failed:\nno such file\n")


# Debian


def test_debootstrap_needs_root_and_its_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UserError, match="needs root: run this with sudo, once, or give .* --base IMAGE"):
        debian.check_can_make()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="needs the program debootstrap: install it"):
        debian.check_can_make()
