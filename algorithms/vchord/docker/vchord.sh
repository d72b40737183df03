#!/bin/sh
# Build step, after postgres.sh: VectorChord.
#
#   VCHORD     a version, which is downloaded from the project's releases, or a .deb or .zip next to this script
# shellcheck source=../../postgres/docker/packages.sh
. "$(dirname "$0")/packages.sh"

put_in_place() {
    [ -e "$1" ] || fail "there is no ${1##*/} in the build's folder packages/"
    unpacked=$(mktemp -d)
    python3 -m zipfile -e "$1" "$unpacked" || fail "${1##*/} is not a .zip"
    library=$(find "$unpacked" -name vchord.so)
    control=$(find "$unpacked" -name vchord.control)
    [ -n "$library" ] && [ -n "$control" ] || fail "${1##*/} holds no built VectorChord: no vchord.so, no vchord.control"
    cp "$library" "/usr/lib/postgresql/$POSTGRES/lib/"
    cp "${control%/*}"/vchord* "/usr/share/postgresql/$POSTGRES/extension/"
    chmod -R a+rX "/usr/lib/postgresql/$POSTGRES/lib" "/usr/share/postgresql/$POSTGRES/extension"
    rm -r "$unpacked"
}

leave_out
case $VCHORD in
    *.zip) put_in_place "$here/$VCHORD" ;;
    *.deb) package=$here/$VCHORD ;;
    [0-9]*)
        file=$server-vchord_$VCHORD-1_$(dpkg --print-architecture).deb
        url=https://github.com/tensorchord/VectorChord/releases/download/$VCHORD/$file
        package=/tmp/$file
        /usr/lib/apt/apt-helper download-file "$url" "$package" ||
            fail "$url cannot be downloaded; where you have the package, give it as VCHORD=./$file"
        ;;
    *) fail "VCHORD is '$VCHORD': give a version such as 1.1.1, or a .deb or .zip" ;;
esac
if [ -n "${package:-}" ]; then
    check_deb "$package" "$server-vchord"
    update || fail "the package lists of $PRETTY_NAME cannot be had"
    install "$package"
    [ "$package" = "$here/$VCHORD" ] || rm "$package"
fi

try_extension vchord vchord
echo "installed: vchord $(sed -n "s/^default_version *= *'\\(.*\\)'/\\1/p" "/usr/share/postgresql/$POSTGRES/extension/vchord.control")"
clean
