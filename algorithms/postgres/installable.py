"""Put an extension's release into the embedded PostgreSQL, or beside it."""

from pathlib import Path

from .environment import PREFIX, server_kind
from .errors import PostgresError
from .releases import install_release, use_release
from .servers.binaries import embedded_installation
from .servers.installation import Installation, install, read_release


class InstallableExtension:
    """What install.py --local asks of a plug-in; `extension` is the name that CREATE EXTENSION takes."""

    extension: str
    instead_of_installing = f"use a server that has the extension ({PREFIX}HOST, ...)"

    @classmethod
    def local_target(cls) -> dict[str, str]:
        """Tell what a release has to be for: the major version of PostgreSQL, and the machine."""
        installation = _embedded()
        return {"major": installation.major(), "machine": installation.machine()}

    @classmethod
    def local_state(cls) -> str:
        """Say on one line what is there."""
        installation = _embedded()
        version = installation.version_of(cls.extension)
        has = f"has {cls.extension} {version} already" if version else f"lacks {cls.extension}"
        return f"the embedded PostgreSQL {installation.major()} {has}"

    @classmethod
    def install_local(cls, archive: Path) -> str:
        """Put the release in an archive in place; say so on one line."""
        installation = _embedded()
        release = read_release(archive, cls.extension)
        install(release, installation)
        return (
            f"{cls.extension} {release.version} is installed for PostgreSQL {installation.major()} "
            f"in {installation.folder}"
        )

    @classmethod
    def install_version(cls, version: str, archive: Path | None) -> str:
        """Put a release beside the one that is here, to be named by a tag; say so on one line."""
        return install_release(cls.extension, version, archive)

    @classmethod
    def use_version(cls, version: str) -> None:
        """Have this process's server be of that release; an addition to the interface."""
        use_release(cls.extension, version)


def _embedded() -> Installation:
    kind = server_kind()
    if kind != "embedded":
        raise PostgresError(
            f"the environment ({PREFIX}...) names an {kind} server, whose administrator installs extensions: "
            f"unset it, or set {PREFIX}SERVER=embedded, to install into the embedded PostgreSQL"
        )
    return Installation(embedded_installation())
