#!/bin/sh
# Build step of ann-benchmarks-base: certificates, Python, what the framework imports. Small: nothing that is
# only read by people or compilers.
set -eu

fail() {
    echo "error: $*" >&2
    exit 1
}

certificates=/usr/local/share/ca-certificates
bundle=/etc/ssl/certs/ca-certificates.crt

# apt may need them to fetch the package that would put them in place.
if ls "$certificates"/*.crt >/dev/null 2>&1; then
    mkdir -p "${bundle%/*}"
    awk 1 "$certificates"/*.crt >>"$bundle"
fi

if [ -n "${APT_MIRROR:-}" ]; then
    find /etc/apt/sources.list /etc/apt/sources.list.d -type f 2>/dev/null | while read -r sources; do
        sed -i -E "s#https?://(deb\.debian\.org|security\.debian\.org|(archive|security|ports)\.ubuntu\.com)#${APT_MIRROR%/}#" \
            "$sources"
    done
fi
if [ -n "${APT_CONF:-}" ]; then
    echo "$APT_CONF" >/etc/apt/apt.conf.d/90ann-benchmarks
fi
if [ -n "${PIP_INDEX_URL:-}" ]; then
    printf '[global]\nindex-url = %s\n' "$PIP_INDEX_URL" >/etc/pip.conf
fi

cat >/etc/dpkg/dpkg.cfg.d/ann-benchmarks <<'END'
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/lintian/*
END

export DEBIAN_FRONTEND=noninteractive
apt-get update -o APT::Update::Error-Mode=any ||
    fail "the package lists of this image's distribution cannot be had; behind a proxy that inspects TLS," \
        "its certificates are needed, elsewhere perhaps a mirror: --build-arg APT_MIRROR=https://..."
apt-get install -y --no-install-recommends ca-certificates python3 python3-venv
update-ca-certificates >/dev/null 2>&1

python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "this image has $(python3 --version), and the framework needs 3.10 or newer: choose another BASE"
# In it, pip may install without leave of the distribution (PEP 668); packages of the distribution are seen.
python3 -m venv --system-site-packages /opt/venv
/opt/venv/bin/pip install --no-cache-dir --require-hashes -r "$certificates/requirements.lock"

# Compilers of plug-ins want numpy's headers. Nobody wants tests, pyarrow's headers and sources, what it has for
# Flight and S3, and the second and third name of a library, which in a wheel is a second and third copy.
cd /opt/venv/lib/python3*/site-packages
find . -path ./pip -prune -o -path '*/tests/*' -type f ! -name '_*' -exec rm {} +
rm -rf pyarrow/include pyarrow/includes pyarrow/src pyarrow/tests pyarrow/*.pyx pyarrow/*.pxi pyarrow/*.pxd
rm -f pyarrow/*_flight.* pyarrow/flight.py pyarrow/libarrow_s3.* pyarrow/_s3fs.* pyarrow/_pyarrow_cpp_tests.*
rm -f pyarrow/libarrow_python*.so pyarrow/libarrow_python*.so.*.*
/opt/venv/bin/python -c 'import h5py, numpy, psutil, pyarrow.compute, pyarrow.dataset, pyarrow.parquet, requests, tqdm, yaml'

# Bytecode is in one place for all processes of a container, in which it adds that of the framework.
bytecode=/opt/pycache # PYTHONPYCACHEPREFIX of the Dockerfile
rm -rf "$bytecode$(pwd)"/pip "$bytecode"/tmp
standard=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
find "$standard" -type d -name __pycache__ -prune -exec rm -rf {} +
python3 -m compileall -q -x '/tests?/' "$standard"
mkdir -p "$bytecode/home/app"
chmod 1777 "$bytecode/home/app"

# The environment is made, and python3-venv was for that only.
apt-get purge -y --auto-remove python3-venv
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old /var/lib/dpkg/*-old /var/log/apt /var/log/*.log

mkdir -p /home/app
chmod 1777 /home/app
