#!/bin/sh
# Build step, after postgres.sh: pgvectorscale.
#
#   PGVECTORSCALE   a version, which is downloaded from the project's releases, or a .zip of it or a .deb next to
#                   this script
# shellcheck source=../../postgres/docker/packages.sh
. "$(dirname "$0")/packages.sh"

package=pgvectorscale-$server
machine=$(dpkg --print-architecture)

# unpack ZIP: the .deb in it that is for this server; the other one has symbols for a debugger.
unpack() {
    [ -e "$1" ] || fail "there is no ${1##*/} in the build's folder packages/"
    unpacked=$(mktemp -d)
    python3 -m zipfile -e "$1" "$unpacked" || fail "${1##*/} is not a .zip"
    deb=$(find "$unpacked" -name "${package}_*_$machine.deb")
    [ -n "$deb" ] || fail "${1##*/} has no ${package}_..._$machine.deb: give that one, or choose POSTGRES to match"
}

leave_out
case $PGVECTORSCALE in
    *.zip) unpack "$here/$PGVECTORSCALE" ;;
    *.deb) deb=$here/$PGVECTORSCALE ;;
    [0-9]*)
        file=pgvectorscale-$PGVECTORSCALE-pg$POSTGRES-$machine.zip
        url=https://github.com/timescale/pgvectorscale/releases/download/$PGVECTORSCALE/$file
        /usr/lib/apt/apt-helper download-file "$url" "/tmp/$file" ||
            fail "$url cannot be downloaded; where you have the file, give it as PGVECTORSCALE=./$file"
        unpack "/tmp/$file"
        rm "/tmp/$file"
        ;;
    *) fail "PGVECTORSCALE is '$PGVECTORSCALE': give a version such as 0.9.0, or a .zip or .deb" ;;
esac
check_deb "$deb" "$package"
update || fail "the package lists of $PRETTY_NAME cannot be had"
install "$deb"
[ -z "${unpacked:-}" ] || rm -r "$unpacked"

try_extension vectorscale
echo "installed: $(dpkg-query -W -f '${Package} ${Version}' "$package")"
clean
