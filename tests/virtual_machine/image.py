"""The virtual machine's disk: Debian with systemd, and what the lock file lists.

Nothing of the project itself is on it, so that it is made once and used for any version.
"""

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.text import say

ROOT = Path(__file__).parents[2]
ACCOUNT = "someone"  # the ordinary user
_MIRROR = "http://deb.debian.org/debian"
_SUITE = "trixie"
_PACKAGES = (
    *("systemd", "systemd-sysv", "udev", "kmod", "dbus", "dbus-user-session", "libpam-systemd"),
    *("openssh-server", "iproute2", "netbase", "procps", "ca-certificates", "python3", "python3-venv"),
)
# The kernel is of the release before: that of trixie does not start without KVM.
_KERNEL = f"""
    export DEBIAN_FRONTEND=noninteractive
    echo 'deb {_MIRROR} bookworm main' > /etc/apt/sources.list.d/kernel.list
    printf 'Package: *\\nPin: release n=bookworm\\nPin-Priority: 100\\n' > /etc/apt/preferences.d/kernel
    apt-get -q update
    apt-get -q install -y --no-install-recommends initramfs-tools zstd
    apt-get -q install -y --no-install-recommends -t bookworm linux-image-cloud-amd64
    apt-get clean
"""
_ENVIRONMENT = """
    python3 -m venv /opt/venv
    /opt/venv/bin/pip install --no-cache-dir --require-hashes -r /tmp/requirements-dev.lock
    find /opt/venv -name tests -path '*/site-packages/*' -prune -exec rm -rf {} +
"""
_SYSTEM = f"""
    useradd --create-home --shell /bin/bash {ACCOUNT}
    echo machine > /etc/hostname
    echo '127.0.0.1 localhost machine' > /etc/hosts
    echo '/dev/vda / ext4 defaults 0 1' > /etc/fstab
    printf '[Match]\\nName=en* eth*\\n[Network]\\nDHCP=ipv4\\n' > /etc/systemd/network/all.network
    systemctl enable systemd-networkd ssh
    systemctl disable apt-daily.timer apt-daily-upgrade.timer
    systemctl mask systemd-networkd-wait-online.service
    for home in /root /home/{ACCOUNT}; do
        mkdir -p -m 700 $home/.ssh
        cp /tmp/key.pub $home/.ssh/authorized_keys
    done
    chown -R {ACCOUNT}: /home/{ACCOUNT}/.ssh
    passwd -d root
"""
_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
_PASSED_ON = ("http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT")
_QUIET = ("nice", "-n", "15")
_PROGRAMS = ("qemu-system-x86_64", "debootstrap", "mkfs.ext4", "unshare", "ssh", "ssh-keygen", "tar", "git")


@dataclass(frozen=True)
class Image:
    """What a machine is started from."""

    folder: Path

    @property
    def disk(self) -> Path:
        """The root's file system."""
        return self.folder / "disk.img"

    @property
    def key(self) -> Path:
        """The private key that its accounts know."""
        return self.folder / "key"

    def boot_file(self, name: str) -> Path:
        """Return the kernel (vmlinuz) or its first root (initrd.img)."""
        return next((self.folder / "root/boot").glob(f"{name}-*"))


def missing_programs() -> list[str]:
    """Programs that are needed and not there."""
    return [name for name in _PROGRAMS if shutil.which(name) is None]


def make_image(cache: Path) -> Image:
    """Make the disk in a folder of the cache, or find it there; UserError where that cannot be."""
    if missing := missing_programs():
        raise UserError(
            f"{', '.join(missing)} not found; on Debian: apt install qemu-system-x86 debootstrap ssh"
        )
    if os.geteuid() != 0:
        raise UserError("the virtual machine's root is made by debootstrap, which needs root: use sudo")
    image = Image(cache.resolve() / f"image-{_digest()}")
    if image.disk.exists():
        return image
    image.folder.mkdir(parents=True, exist_ok=True)
    if not image.key.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", image.key], check=True)
    root = image.folder / "root"
    _debootstrap(root)
    for name in ("requirements-dev.lock", "key.pub"):
        shutil.copy((ROOT if name.endswith("lock") else image.folder) / name, root / "tmp")
    _once(root, "kernel", _KERNEL)
    _once(root, "environment", _ENVIRONMENT)
    _once(root, "system", _SYSTEM)
    say("disk")
    partial = image.disk.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    subprocess.run([*_QUIET, "mkfs.ext4", "-q", "-d", root, partial, "16G"], check=True)
    partial.rename(image.disk)
    return image


def _digest() -> str:
    lock = (ROOT / "requirements-dev.lock").read_text()
    recipe = (*_PACKAGES, _KERNEL, _ENVIRONMENT, _SYSTEM, lock)
    return hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:12]


def _debootstrap(root: Path) -> None:
    if root.exists():
        return
    say(f"debootstrap: {root.name}")
    partial = root.with_suffix(".partial")
    if partial.exists():
        shutil.rmtree(partial)
    include = f"--include={','.join(_PACKAGES)}"
    _run(["unshare", "--mount", "debootstrap", "--variant=minbase", include, _SUITE, partial, _MIRROR], root)
    partial.rename(root)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")


def _once(root: Path, name: str, script: str) -> None:
    """Run a script in a root, unless it has run there."""
    stamp = root.parent / f"{name}.done"
    if stamp.exists():
        return
    say(name)
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    environment |= {each: os.environ[each] for each in _PASSED_ON if each in os.environ}
    if bundle := _bundle():
        shutil.copy(bundle, root / "tmp/certificates.pem")
        environment |= dict.fromkeys(_CERTIFICATES, "/tmp/certificates.pem")
    # What is mounted, and whatever was started, is gone with the namespaces.
    inside = 'mount -t proc proc "$0/proc" && exec chroot "$0" sh -euc "$1"'
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inside, root, script]
    _run(command, root, env=environment)
    stamp.touch()


def _run(command: list[str | Path], root: Path, **options: dict[str, str]) -> None:
    log = root.parent / f"{root.name}.log"
    with log.open("a") as output:
        done = subprocess.run([*_QUIET, *command], stdout=output, stderr=output, **options)
    if done.returncode != 0:
        raise UserError(f"the virtual machine's root could not be made: see {log}")


def _bundle() -> str | None:
    return next((os.environ[name] for name in _CERTIFICATES if os.environ.get(name)), None)
