#!/bin/sh
# Build step, after postgres.sh and vchord.sh, with CUDA's libraries in /opt/cuda: pgpu.
#
#   PGPU       a .deb next to this script
#   CUVS       what pip installs for it, such as libcuvs-cu13==26.6.0, with CUDA's libraries; or nothing
# shellcheck source=../../postgres/docker/packages.sh
. "$(dirname "$0")/packages.sh"

# They are here, from elsewhere than the package expects: pgvector and VectorChord as in the images of those,
# CUDA from NVIDIA's image, the driver with the GPU. The rest of what it depends on is installed.
here_already='pgvector|vchord|vectorchord|cuda|cublas|cusolver|cusparse|curand|nvjitlink|nccl|nvidia'

# without_those CONTROL: take them out of what a package depends on.
without_those() {
    sed -i -E "/^(Pre-)?Depends:/{
        s/^([^:]*:) */\\1, /
        s/, *[^,]*($here_already)[^,]*//g
        s/:, */: /
        /: *\$/d
    }" "$1"
}

# for_this FOLDER FILE: whether the package that is unpacked there is for this server.
for_this() {
    machine=$(dpkg-deb --field "$2" Architecture)
    [ "$machine" = all ] || [ "$machine" = "$(dpkg --print-architecture)" ] ||
        fail "${2##*/} is for $machine, this image for $(dpkg --print-architecture)"
    [ ! -e "$1/usr/share/postgresql/$POSTGRES/extension/pgpu.control" ] || return 0
    others=$(find "$1" -name pgpu.control | sed -nE 's#.*/postgresql/([0-9]+)/.*#\1#p' | sort -u | paste -sd , -)
    fail "${2##*/} holds ${others:+pgpu for PostgreSQL $others, }no pgpu for Debian's PostgreSQL $POSTGRES:" \
        "give another package, or choose POSTGRES to match"
}

case $PGPU in
    *.deb) package=$here/$PGPU ;;
    *) fail "PGPU is '$PGPU': give the package of pgpu, a .deb in the build's folder packages/" ;;
esac
[ -e "$package" ] || fail "there is no $PGPU in the build's folder packages/"
unpacked=$(mktemp -d)
dpkg-deb --raw-extract "$package" "$unpacked" || fail "$PGPU is not a Debian package"
for_this "$unpacked" "$package"
without_those "$unpacked/DEBIAN/control"
chmod 755 "$unpacked"
dpkg-deb --build "$unpacked" /tmp/pgpu.deb >/dev/null
leave_out
update || fail "the package lists of $PRETTY_NAME cannot be had"
install /tmp/pgpu.deb

echo /opt/cuda >/etc/ld.so.conf.d/ann-benchmarks-cuda.conf
if [ -n "${CUVS:-}" ]; then
    # cuRAND needs the CUDA runtime, which no wheel of cuVS asks for.
    pip install --no-cache-dir --no-compile --target /opt/cuvs "$CUVS" "cuda-toolkit[cudart]" ||
        fail "pip cannot install $CUVS; what it said is above"
    find /opt/cuvs -name '*.so*' -printf '%h\n' | sort -u >>/etc/ld.so.conf.d/ann-benchmarks-cuda.conf
fi
ldconfig
library=/usr/lib/postgresql/$POSTGRES/lib/pgpu.so
missing=
[ ! -e "$library" ] || missing=$(ldd "$library" | awk '/not found/ { print $1 }' | sort -u)
others=$(echo "$missing" | grep -vE '^lib(cuda|nvidia-[a-z]+)\.so\.1$' | paste -sd ' ' -)
if [ -n "$others" ]; then
    fail "pgpu needs $others, which the CUDA image does not have: give another one as CUDA, or another CUVS"
elif [ -n "$missing" ]; then
    echo "not tried: pgpu needs the GPU's driver, which a build does not have"
else
    try_extension pgpu vchord
fi
rm -r "$unpacked" /tmp/pgpu.deb
echo "installed: pgpu $(sed -n "s/^default_version *= *'\\(.*\\)'/\\1/p" "/usr/share/postgresql/$POSTGRES/extension/pgpu.control")"
clean
