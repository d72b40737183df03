#!/bin/sh
# Build step in an image with CUDA: copy the libraries that pgpu loads to /opt/cuda, each once and by the name that
# pgpu loads.
#
#   PGPU       a .deb next to this script
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

mkdir -p /opt/cuda
find "$unpacked" -name '*.so*' -type f -exec ldd {} + |
    awk '$2 == "=>" && $3 ~ "^/" { print $3 }' | sort -u | grep -E '/cuda|/libnccl' |
    while read -r library; do
        cp -L "$library" /opt/cuda/
    done
echo "of CUDA: $(cd /opt/cuda && du -sh . | cut -f 1) $(echo /opt/cuda/* | sed 's#/opt/cuda/##g; s#^\*$#nothing#')"
rm -r "$unpacked"
