"""The CA certificates that images are to trust, such as that of a company's proxy."""

import hashlib
import os
import re
import ssl
from collections.abc import Mapping
from pathlib import Path

from ann_benchmarks.common.errors import UserError

VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def ca_bundle(option: str | None, environment: Mapping[str, str] = os.environ) -> tuple[Path, str] | None:
    """The bundle, and who named it: the option, else the environment; None for none."""
    if option is not None:
        return None if option == "none" else (Path(option), "--ca-bundle")
    return next(((Path(environment[name]), name) for name in VARIABLES if environment.get(name)), None)


def read_certificates(bundle: Path, named_by: str) -> dict[str, bytes]:
    """Split a bundle (a file, or a folder of them) into file name -> one certificate, each once."""
    try:
        files = sorted(path for path in bundle.iterdir() if path.is_file()) if bundle.is_dir() else [bundle]
        texts = [path.read_text(encoding="ascii", errors="replace") for path in files]
    except OSError as error:
        raise UserError(
            f"{named_by}: {bundle} cannot be read: {error.strerror}; name a file of CA certificates with"
            " --ca-bundle, or --ca-bundle none"
        ) from None
    certificates = {}
    for block in (match[0] for text in texts for match in _CERTIFICATE.finditer(text)):
        try:
            content = ssl.PEM_cert_to_DER_cert(block)
        except ValueError:
            raise UserError(f"{named_by}: a certificate in {bundle} is damaged: {block[27:70]!r}") from None
        name = f"{hashlib.sha256(content).hexdigest()[:16]}.crt"
        certificates[name] = ssl.DER_cert_to_PEM_cert(content).encode()
    if not certificates:
        raise UserError(
            f"{named_by}: {bundle} holds no certificate (-----BEGIN CERTIFICATE-----); name another file"
            " with --ca-bundle, or --ca-bundle none"
        )
    return certificates
