#!/bin/sh
# Build step in an image with CUDA: copy the libraries that pgpu loads to /opt/cuda, each once and by the name that
# pgpu loads.
#
#   PGPU       a .deb next to this script
#   CUVS       what pip will install for the rest, such as libcuvs-cu13==26.6.0, or nothing
set -eu
here=$(dirname "$0")

fail() {
    echo "error: $*" >&2
    exit 1
}

case $PGPU in
    *.deb) ;;
    *) fail "PGPU is '$PGPU': give the package of pgpu, a .deb in the build's folder packages/" ;;
esac
[ -e "$here/$PGPU" ] || fail "there is no $PGPU in the build's folder packages/"
command -v dpkg-deb >/dev/null || fail "CUDA names an image without dpkg: choose one of Debian or Ubuntu"
unpacked=$(mktemp -d)
dpkg-deb --extract "$here/$PGPU" "$unpacked" || fail "$PGPU is not a Debian package"

# A package may bring cuVS along, in a folder of its own.
own=$(find "$unpacked" -name '*.so*' -printf '%h\n' | sort -u | paste -sd : -)
loaded=$(find "$unpacked" -name '*.so*' -type f -exec env LD_LIBRARY_PATH="$own" ldd {} + || true)
# Before the other stages are built; what is not of CUDA may come with them.
missing=$(echo "$loaded" | awk '/not found/ { print $1 }' | grep -E '^lib(cu|nccl|nv|rmm|raft|rapids)' |
    grep -vE '^lib(cuda|nvidia-[a-z]+)\.so\.1$' | sort -u | paste -sd ' ' -)
[ -z "$missing" ] || [ -n "${CUVS:-}" ] ||
    fail "pgpu needs $missing, which the CUDA image does not have: give another one as CUDA, or the version of" \
        "cuVS that pgpu was built with, from PyPI, as CUVS=libcuvs-cu12==VERSION or CUVS=libcuvs-cu13==VERSION"

mkdir -p /opt/cuda
echo "$loaded" | awk '$2 == "=>" && $3 ~ "^/" { print $3 }' | sort -u | grep -E '/cuda|/libnccl' |
    while read -r library; do
        cp -L "$library" /opt/cuda/
    done
echo "of CUDA: $(cd /opt/cuda && du -sh . | cut -f 1) $(echo /opt/cuda/* | sed 's#/opt/cuda/##g; s#^\*$#nothing#')"
rm -r "$unpacked"
