"""What a container gets and may do: CPUs, memory and folders, and next to nothing beyond them."""

import io
import os
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.host import usable_cores
from ann_benchmarks.common.layout import (
    DATA_VARIABLE,
    DEFINITIONS_FOLDER,
    IS_CHECKOUT,
    PACKAGE,
    PROJECT,
    data_folder,
    own_algorithms,
)
from ann_benchmarks.common.numbers import size_text

from .engine import OWNER_LABEL, Image, maps_users

HOME = "/home/app"  # in the container, as in ann-benchmarks
USER_ID = 10001  # inside, where run.py is root's
MOST_PROCESSES = 4096
# For images that need root: to start services, which give up what they do not need.
ROOT_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"]
LEAST_MEMORY = 6 * 2**20  # Docker allows no less


@dataclass(frozen=True)
class ContainerAccount:
    """As whom a container's processes run."""

    uid: int
    gid: int
    is_mapped: bool = False  # for this machine, it is another one

    @classmethod
    def choose(cls, image: Image | None, client: Any) -> "ContainerAccount":
        """Root where the image needs it; else whoever we are, so that what is kept is ours; never root."""
        if image is not None and image.needs_root:
            return cls(0, 0)
        is_mapped = maps_users(client)
        if os.geteuid() == 0 or is_mapped:
            return cls(USER_ID, USER_ID, is_mapped)
        return cls(os.geteuid(), os.getegid())

    @property
    def entries(self) -> dict[str, str]:
        """Lines for /etc/passwd and /etc/group: programs such as initdb want a name."""
        user = f"ann:x:{self.uid}:{self.gid}::{HOME}:/bin/sh\n"
        return {"passwd": user, "group": f"ann:x:{self.gid}:\n"}


@dataclass(frozen=True)
class Sandbox:
    """The arguments that a container is created with."""

    image: Image
    account: ContainerAccount
    owner: str  # the run, or check, that removes it
    memory: int  # bytes
    cpus: Sequence[int]
    files: Mapping[Path, str] = field(default_factory=dict)  # of this machine, to where they are to be read
    storage: Path | None = None  # what is kept from run to run
    environment: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)  # further ones of Docker's

    def create(self, client: Any) -> Any:
        """Create the container; it is not started."""
        from docker.types import DeviceRequest, LogConfig, Mount

        mounts = [Mount(place, str(path), type="bind", read_only=True) for path, place in self.files.items()]
        if self.storage is not None:
            mounts.append(Mount(f"{HOME}/storage", str(self.storage), type="bind"))
        is_root = self.account.uid == 0
        gpus = [DeviceRequest(count=-1, capabilities=[["gpu"]])]
        container = client.containers.create(
            self.image.id,
            entrypoint=["python3", "-u", "-m", "ann_benchmarks.run.containers.inside"],
            command=[],
            labels={OWNER_LABEL: self.owner},
            environment={
                "PYTHONPATH": f"{HOME}:{self.image.python_path}".rstrip(":"),
                "PYTHONUNBUFFERED": "1",
                # Of the framework, too, beside which nothing can be written: else each process compiles it.
                "PYTHONPYCACHEPREFIX": self.image.bytecode or "/tmp/pycache",
                DATA_VARIABLE: str(data_folder()),
                **self.environment,
            },
            working_dir=HOME,
            user=f"{self.account.uid}:{self.account.gid}",
            mounts=mounts,
            stdin_open=True,
            init=True,  # a process 1 that sees to those whose parents have ended
            network_mode="none",
            cap_drop=["ALL"],
            cap_add=ROOT_CAPABILITIES if is_root else [],
            security_opt=["no-new-privileges"],
            pids_limit=MOST_PROCESSES,
            mem_limit=self.memory,
            memswap_limit=self.memory,  # the same: no swapping, which no measurement survives
            shm_size=self.memory,  # parallel builds keep graphs there; what is used of it counts as memory
            cpuset_cpus=write_cpus(self.cpus),
            device_requests=gpus if self.image.needs_gpus else [],
            # What it writes is attached to; the engine's own copy of it would be a file of any size.
            log_config=LogConfig(type="none"),
            **self.options,
        )
        if not is_root:
            self._add_account(container)
        return container

    def _add_account(self, container: Any) -> None:
        from docker.errors import NotFound

        with io.BytesIO() as content:
            with tarfile.open(fileobj=content, mode="w") as archive:
                for name, line in self.account.entries.items():
                    try:
                        pieces, _ = container.get_archive(f"/etc/{name}")
                        before = _only_file(b"".join(pieces))
                    except (NotFound, ValueError):  # or a link, which is replaced
                        before = b""
                    entry = tarfile.TarInfo(name)
                    text = before + line.encode()
                    entry.size, entry.mode = len(text), 0o644
                    archive.addfile(entry, io.BytesIO(text))
            container.put_archive("/etc", content.getvalue())


def placement_facts(image: Image | None, memory: int | None) -> dict[str, Any]:
    """Return what is stored of an image and of the memory that was requested; 0 where none was."""
    return {**(image.facts if image else {}), "container_memory_requested": memory or 0}


def project_files(definitions: Path, packages: Sequence[str] = ()) -> dict[Path, str]:
    """The framework, the plug-ins and further packages, to where a container has them."""
    files = {PROJECT / name: f"{HOME}/{name}" for name in (PACKAGE.name, *packages)}
    # In a checkout, ann_benchmarks/algorithms is a link to it; else those of the user are looked for there.
    if (plugins := DEFINITIONS_FOLDER if IS_CHECKOUT else own_algorithms()) is not None:
        files[plugins] = f"{HOME}/algorithms"
    definitions = definitions.resolve()
    if definitions in (DEFINITIONS_FOLDER, *files):
        return files
    place = f"{HOME}/{definitions.name}"
    if place in files.values():
        raise UserError(f"{definitions} has the name of a folder of this project: give it another one")
    return files | {definitions: place}


def dataset_files(files: Sequence[Path], account: ContainerAccount) -> dict[Path, str]:
    """The files of a dataset, to where a container finds them by the same names.

    Raises UserError where its processes could not read one.
    """
    mounted = {}
    for file in files:
        real = file.resolve()
        mode = real.stat()
        allowed = 0o400 if account.uid == mode.st_uid else 0o040 if account.gid == mode.st_gid else 0o004
        if account.uid != 0 and not mode.st_mode & allowed:
            raise UserError(f"{file} cannot be read in a container: chmod a+r {file}")
        mounted[file.absolute()] = str(file) if file.is_absolute() else f"{HOME}/{file}"
    return mounted


def storage_folder(root: Path, image: str, account: ContainerAccount, number: int = 0) -> Path:
    """Make the folder in which the containers of an image keep what outlives them.

    `number` tells apart those that run at the same time.
    """
    name = image.replace(":", "_").replace("/", "_") + (f".{number + 1}" if number else "")
    folder = (root / name).resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if account.is_mapped:
            folder.chmod(0o1777)  # for the account that it is on this machine
        elif os.geteuid() == 0:
            os.chown(folder, account.uid, account.gid)
    except OSError as error:
        raise UserError(
            f"the folder {folder} cannot be made: {error.strerror}; name another with --storage"
        ) from None
    return folder


def _only_file(archive: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        [member] = [member for member in opened if member.isfile()]
        file = opened.extractfile(member)
        assert file is not None
        return file.read()


def memory_of_each(requested: int | None, containers: int, engine_memory: int | None = None) -> int:
    """Return the bytes for each container: as requested, else its share of what is free now.

    `engine_memory` is what the engine has, which may run in a virtual machine.
    """
    machine = psutil.virtual_memory()
    total = min(machine.total, engine_memory or machine.total)
    memory = requested or min(machine.available, total) // containers
    if memory < LEAST_MEMORY:
        raise UserError(f"--memory {memory} is less than the {size_text(LEAST_MEMORY)} that Docker allows")
    if memory * containers > total:
        raise UserError(
            f"{containers} x {size_text(memory)} is more than this machine's {size_text(total)}:"
            " give less --memory"
        )
    return memory


def cpus_of_each(
    requested: Sequence[int], containers: int, engine_cpus: int | None = None
) -> list[Sequence[int]]:
    """Share out the CPUs, those requested or else all, among containers.

    `engine_cpus` is how many the engine has: elsewhere than on Linux, it runs in a virtual machine.
    """
    usable = [*range(engine_cpus or usable_cores())]
    if sys.platform == "linux":
        usable = sorted(os.sched_getaffinity(0))
    missing = [cpu for cpu in requested if cpu not in usable]
    if missing:
        raise UserError(f"--cpuset names CPU {missing[0]}; this machine has {write_cpus(usable)}")
    cpus = requested or usable
    if len(cpus) < containers:
        raise UserError(
            f"--parallelism {containers} needs as many CPUs; there are {len(cpus)}: {write_cpus(cpus)}"
        )
    return [cpus[number::containers] for number in range(containers)]


def write_cpus(cpus: Sequence[int]) -> str:
    """Write CPUs as Docker reads them."""
    return ",".join(map(str, cpus))
