"""The server's account plants links, pipes and lies wherever root goes: what is root's stays as it is.

Root starts and stops servers in a folder that their account owns, and may have filled with anything.
"""

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import account as accounts
from ann_benchmarks.algorithms.postgres.servers import cluster, local
from ann_benchmarks.algorithms.postgres.servers.account import ServerAccount, server_account
from ann_benchmarks.algorithms.postgres.servers.cluster import ClusterFolder, default_folder
from ann_benchmarks.algorithms.postgres.servers.folder_files import place_for_root
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.servers.machine import drop_from_cache
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation
from tiers.machine import drop_caches

from .programs import temporary_folder
from .vchord_archives import copied_installation

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root has another account"
    ),
    pytest.mark.skipif(sys.platform != "linux", reason="how an account is taken differs"),
]
STRANGER = 54321  # neither root nor the server's account
SETTINGS = {"shared_buffers": "16MB"}


@pytest.fixture(scope="module")
def account() -> ServerAccount:
    return server_account()


@pytest.fixture(scope="module")
def made(account: ServerAccount) -> Iterator[SimpleNamespace]:
    """A server's folder, whole and stopped, and programs that the account cannot reach."""
    with temporary_folder() as folder:
        (folder / "closed").mkdir(mode=0o700)
        programs = copied_installation(folder / "closed") / "bin"
        server = LocalServer(programs, folder / "server")
        server.start(SETTINGS)
        server.stop()
        yield SimpleNamespace(server=folder / "server", programs=programs, account=account)


@pytest.fixture
def place(
    made: SimpleNamespace, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SimpleNamespace]:
    """A copy of that folder, and what is root's; at the end it must be as it was."""
    monkeypatch.setattr(local, "_START_SECONDS", 10)  # that a server which cannot start is waited for
    with temporary_folder() as folder, ended_after(300):
        victim = folder / "victim"
        for name in ("secret", "file/secret", "99999", "data/secret", "ann-pg-1/secret", "lib/secret"):
            (victim / name).parent.mkdir(parents=True, exist_ok=True)
            (victim / name).write_text(f"of root: {name}")
            (victim / name).chmod(0o600)
        (victim / "empty").mkdir(mode=0o700)
        (victim / "postmaster.pid").write_text("4\nof root\n\n\n/tmp\n")
        before = contents(victim)
        (folder / "server").mkdir(mode=0o700)
        os.chown(folder / "server", made.account.uid, made.account.gid)
        copied = [
            part for part in made.server.iterdir() if "copy" in request.fixturenames or part.suffix == ""
        ]
        subprocess.run(["cp", "-a", *copied, folder / "server"], check=True)
        [home] = (folder / "server").glob("pg*")
        yield SimpleNamespace(
            server=folder / "server", home=home, victim=victim, folder=folder, programs=made.programs
        )
        assert contents(victim) == before


@pytest.fixture
def copy(made: SimpleNamespace) -> str:
    """The name of the copy of the programs, which is in the place of a test that requests it."""
    [path] = made.server.glob("install-*")
    return path.name


@contextmanager
def ended_after(seconds: int) -> Iterator[None]:
    def end(*_: Any) -> None:
        pytest.fail(f"it hangs: not done in {seconds} s")

    former = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


def contents(folder: Path) -> dict[str, tuple[Any, ...]]:
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        text = path.read_text() if stat.S_ISREG(status.st_mode) else ""
        found[str(path)] = (
            status.st_ino,
            status.st_uid,
            status.st_gid,
            status.st_mode,
            status.st_nlink,
            text,
        )
    return found


def as_user(uid: int, gid: int, script: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["sh", "-ec", script],
        cwd=folder,
        user=uid,
        group=gid,
        extra_groups=[],
        capture_output=True,
        text=True,
    )


def plant(place: SimpleNamespace, account: ServerAccount, script: str) -> None:
    """Run what the account does; V, S and H are the folders of root, of the server and of its cluster."""
    names = f"V={place.victim} S={place.server} H={place.home}\n"
    done = as_user(account.uid, account.gid, names + script, place.server)
    if done.returncode and "ln:" in done.stderr:
        pytest.skip(f"this system does not allow it: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr


def start(place: SimpleNamespace, programs: Path | None = None) -> None:
    """Start and stop the server as root, which may be refused on one line."""
    server = LocalServer(programs or embedded_installation() / "bin", place.server)
    try:
        server.start(SETTINGS)
        server.last_words()
    except PostgresError as error:
        assert "\n" not in str(error)
    finally:
        server.stop()


PLACES = {
    "the lock": "rm -f lock; ln -s $V/secret lock",
    "the lock, hard": "rm -f lock; ln $V/secret lock",
    "the lock, a pipe": "rm -f lock; mkfifo lock",
    "the lock, a folder": "rm -f lock; ln -s $V/empty lock",
    "the home": "rm -rf $H; ln -s $V $H",
    "the home, to an empty folder": "rm -rf $H; ln -s $V/empty $H",
    "the home, dangling": "rm -rf $H; ln -s $V/new $H",
    "the log": "rm -f $H/log; ln -s $V/secret $H/log",
    "the log, hard": "rm -f $H/log; ln $V/secret $H/log",
    "the log, dangling": "rm -f $H/log; ln -s $V/new $H/log",
    "the log, a pipe": "rm -f $H/log; mkfifo $H/log",
    "the socket": "rm -rf $H/socket; ln -s $V/empty $H/socket",
    "the socket, dangling": "rm -rf $H/socket; ln -s $V/new $H/socket",
    "what initdb makes": "rm -rf $H/data; ln -s $V/empty $H/data.partial",
    "in what initdb made": "mv $H/data $H/data.partial; ln -s $V/file $H/data.partial/base/file",
    "the data": "rm -rf $H/data; ln -s $V/data $H/data",
    "the data, dangling": "rm -rf $H/data; ln -s $V/new $H/data",
    "the pid": "ln -s $V/postmaster.pid $H/data/postmaster.pid",
    "the pid, hard": "ln $V/postmaster.pid $H/data/postmaster.pid",
    "the pid, a pipe": "mkfifo $H/data/postmaster.pid",
    "the pid, endless": "ln -s /dev/zero $H/data/postmaster.pid",
    "a socket of root's": "printf '99999999\\n\\n\\n\\n'$V'/ann-pg-1\\n' > $H/data/postmaster.pid",
    "a file of a table": "ln -s $V/99999 $H/data/base/5/99999",
}
COPIES = {
    "a half copy": "rm -rf install-*; ln -s $V install-@.partial",
    "a half copy, to an empty folder": "rm -rf install-*; ln -s $V/empty install-@.partial",
    "the copy": "rm -rf install-*; ln -s $V install-@",
    "the copy, dangling": "rm -rf install-*; ln -s $V/new install-@",
    "another copy": "mv install-@ x; ln -s $V install-1-0",
    "in another copy": "mv install-@ install-1-0; ln -s $V install-1-0/lib",
    "the name that was once taken": "rm -rf install-*; p=install-@; ln -s $V ${p%%.*}.partial",
}


@pytest.mark.parametrize("where", PLACES)
def test_what_is_roots_stays(place: SimpleNamespace, account: ServerAccount, where: str) -> None:
    plant(place, account, PLACES[where])
    start(place)


@pytest.mark.parametrize("where", COPIES)
def test_copies_of_programs_go_nowhere_else(
    place: SimpleNamespace, account: ServerAccount, copy: str, where: str
) -> None:
    plant(place, account, COPIES[where].replace("install-@", copy))
    start(place, place.programs)


def test_programs_of_a_third_account_are_copied_with_its_rights(
    place: SimpleNamespace, account: ServerAccount
) -> None:
    """As root, a link that comes between a look at a file and its opening would be copied, too."""
    theirs = place.folder / "theirs"
    programs = copied_installation(theirs)
    os.chown(theirs, STRANGER, STRANGER)
    theirs.chmod(0o700)
    start(place, programs / "bin")
    os.link(place.victim / "secret", programs / "lib/secret")
    (programs / "lib/another.so").touch()  # so that another copy is due
    with pytest.raises(PostgresError, match="cannot copy the programs .*Permission denied"):
        LocalServer(programs / "bin", place.server).start(SETTINGS)
    (programs / "lib/secret").unlink()


def test_a_process_of_roots_is_not_ended(
    place: SimpleNamespace, account: ServerAccount, tmp_path: Path
) -> None:
    """It calls itself postgres, and works in the data folder, as the file says."""
    shutil.copy(shutil.which("sleep") or "", tmp_path / "postgres")
    process = subprocess.Popen([tmp_path / "postgres", "60"], cwd=place.home / "data")
    try:
        line = f"printf '{process.pid}\\n\\n\\n\\n/tmp/none\\n' > $H/data/postmaster.pid"
        plant(place, account, line)
        start(place)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_what_a_server_says_of_its_files_leads_nowhere(
    place: SimpleNamespace, account: ServerAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database whose number is a path to a folder with files that are named as those of relations."""
    answers = {"SELECT oid": (str(place.victim),), "SELECT pg_": ("1",)}

    def execute(query: str) -> SimpleNamespace:
        row = next(row for start, row in answers.items() if query.startswith(start))
        return SimpleNamespace(fetchone=lambda: row, fetchall=lambda: [row])

    folder = ClusterFolder(place.server, account)
    folder.take()
    try:
        folder.choose_version(place.home.name.removeprefix("pg"))
        with suppress(OSError, PostgresError):
            folder.remove_orphans(SimpleNamespace(execute=execute))  # type: ignore[arg-type]
    finally:
        folder.give_back()


@pytest.mark.parametrize("drop", [drop_from_cache, lambda folder: drop_caches(folder, everything=False)])
def test_forgetting_files_opens_no_others(
    place: SimpleNamespace,
    account: ServerAccount,
    monkeypatch: pytest.MonkeyPatch,
    drop: Callable[[Path], Any],
) -> None:
    """Not even where the link comes between a look at the file and its opening."""
    script = f"rm -f $H/log; mkfifo $H/pipe; ln -s $V $H/folder; echo x > $H/data/base/x; ls {place.home}"
    plant(place, account, script)
    opened: list[str] = []
    really_open, fsync = os.open, os.fsync

    def opening(path: Any, *how: Any, **more: Any) -> int:
        if str(path).endswith("/x") or path == "x":
            (place.home / "data/base/x").unlink()
            (place.home / "data/base/x").symlink_to(place.victim / "secret")
        return really_open(path, *how, **more)

    def noting(file: int) -> None:
        opened.append(str(Path(f"/proc/self/fd/{file}").readlink()))
        fsync(file)

    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(os, "fsync", noting)
    drop(place.server)
    assert opened and not [path for path in opened if not path.startswith(str(place.server))]


def test_a_server_knows_no_secrets_and_no_folder_of_roots(
    place: SimpleNamespace, account: ServerAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY_TOKEN", "precious")
    monkeypatch.setenv("ANN_BENCHMARKS_PG_PASSWORD", "precious")
    server = LocalServer(embedded_installation() / "bin", place.server)
    server.start(SETTINGS)
    try:
        process = Path(f"/proc/{server._process.pid}")  # type: ignore[union-attr]
        assert b"precious" not in (process / "environ").read_bytes()
        assert b"PATH=" in (process / "environ").read_bytes()
        assert (process / "cwd").readlink() == place.home / "data"
        groups = next(line for line in (process / "status").read_text().splitlines() if "Groups" in line)
        assert groups.split() == ["Groups:"]
    finally:
        server.stop()


# The folder itself, and the way to it


def test_a_folder_below_one_of_the_accounts(place: SimpleNamespace, account: ServerAccount) -> None:
    """It leads to a folder of root's by a link; a new one the account makes itself."""
    plant(place, account, "mkdir own; chmod 755 own; ln -s $V/empty own/link; ln -s $V own/up")
    for name in ("own/link", "own/up/empty", "own/up/new"):
        with pytest.raises(PostgresError, match="cannot use .*root makes nothing where other accounts"):
            ClusterFolder(place.server / name, account).take()
    folder = ClusterFolder(place.server / "own/a/b", account)
    folder.take()
    folder.give_back()
    assert {path.stat().st_uid for path in (place.server / "own").rglob("[ab]")} == {account.uid}


def test_a_folder_that_strangers_can_replace_is_refused(
    place: SimpleNamespace, account: ServerAccount
) -> None:
    """One below a folder of a third account's, or below one that all may write."""
    public = place.folder / "public"
    public.mkdir()
    public.chmod(0o1777)
    script = f"mkdir theirs; ln -s {place.victim}/empty link; ln -s {place.server} server; mkdir -m 777 new"
    assert as_user(STRANGER, STRANGER, script, public).returncode == 0
    for name in ("theirs/new", "link", "server", "server/new", "new"):
        with pytest.raises(
            PostgresError, match="cannot use .*(other accounts can change|root makes nothing)"
        ):
            ClusterFolder(public / name, account).take()
    public.chmod(0o777)
    with pytest.raises(PostgresError, match=f"other accounts can change {public}"):
        ClusterFolder(public / "mine", account).take()
    assert not (public / "mine").exists()


def test_a_link_that_comes_while_root_makes_a_folder(
    place: SimpleNamespace, account: ServerAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = place.folder / "public"
    public.mkdir()
    public.chmod(0o1777)

    def judge(path: Path) -> Path | None:
        found = place_for_root(path)
        as_user(STRANGER, STRANGER, f"ln -s {place.victim}/empty a", public)
        return found

    monkeypatch.setattr(accounts, "place_for_root", judge)
    with pytest.raises(PostgresError, match="cannot use"):
        ClusterFolder(public / "a/b", account).take()


def test_a_folder_where_all_may_write_but_not_replace(place: SimpleNamespace, account: ServerAccount) -> None:
    """As /tmp: it is made, and is the account's."""
    public = place.folder / "public"
    public.mkdir()
    public.chmod(0o1777)
    for _ in range(2):
        folder = ClusterFolder(public / "a/b", account)
        folder.take()
        folder.give_back()
    assert (public / "a").stat().st_uid == 0 and (public / "a/b").stat().st_uid == account.uid


def test_the_default_is_elsewhere_where_others_can_write(
    place: SimpleNamespace, account: ServerAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = place.folder / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    assert default_folder(account) == project / "data/postgres"
    os.chown(project, STRANGER, STRANGER)
    assert default_folder(account).is_relative_to("/var/tmp/ann-benchmarks")
    (project / "data/postgres").mkdir(parents=True)
    os.chown(project / "data/postgres", account.uid, account.gid)  # of an earlier run
    assert default_folder(account) == project / "data/postgres"


def test_a_long_path_has_its_socket_in_a_folder_of_the_accounts(
    place: SimpleNamespace, account: ServerAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_LONGEST_SOCKET_FOLDER", 10)
    server = LocalServer(embedded_installation() / "bin", place.server)
    server.start(SETTINGS)
    folder = Path(server.connection_parameters()["host"])
    assert folder.name.startswith("ann-pg-") and folder.stat().st_uid == account.uid
    server.stop()
    assert not folder.exists()


def test_a_call_that_ends_without_an_answer_is_one_line(account: ServerAccount) -> None:
    with pytest.raises(PostgresError, match="was ended or stopped"):
        account.perform(os._exit, 1)
    with pytest.raises(PostgresError, match="as the server's account: ZeroDivisionError"):
        account.perform(divmod, 1, 0)
    with pytest.raises(PermissionError):
        account.perform(os.listdir, "/root")
