#!/bin/sh
# Build step: PostgreSQL and pgvector from published packages, or from one that is given.
#
#   POSTGRES   major version
#   PGVECTOR   empty: the package of this image's distribution, a suite of it such as sid, a version such as 0.7.4,
#              or a .deb next to this script
#   PGDG       the PostgreSQL project's package archive, for what the distribution does not have; a suite of it
#              may follow its address
. "$(dirname "$0")/packages.sh"

pgvector=$server-pgvector

# The version of pgvector's package that is meant, empty where there is none.
chosen() {
    case $PGVECTOR in
        '') versions "$pgvector" | head -n 1 ;;
        [0-9]*) versions "$pgvector" | awk -v v="$PGVECTOR" '$0 == v || index($0, v "-") == 1 { print; exit }' ;;
        *) apt-cache madison "$pgvector" 2>/dev/null | grep -F " $PGVECTOR/" | awk -F ' *[|] *' '{ print $2; exit }' ;;
    esac
}

add_suite() {
    # By the mirror and with the keys that the image uses already.
    # shellcheck disable=SC2016,SC2046
    set -- $(apt-get indextargets --format '$(CODENAME) $(REPO_URI) $(SIGNED_BY)' 'Created-By: Packages' |
        awk -v codename="$VERSION_CODENAME" '$1 == codename { print $2, ($3 ~ "^/" ? $3 : ""); exit }')
    [ $# -gt 0 ] || fail "this image has no package source of $PRETTY_NAME, where the suite $PGVECTOR could be"
    # A mirror or snapshot that stands still is as good for a version of old; its packages are signed all the same.
    echo "deb [check-valid-until=no${2:+ signed-by=$2}] $1 $PGVECTOR main" >"$sources"
    update || fail "$1 has no suite '$PGVECTOR', or it cannot be read"
}

add_pgdg() {
    has="$PRETTY_NAME has pgvector as: $(there_is pgvector)"
    install postgresql-common # it carries the key of the archive
    key=/usr/share/postgresql-common/pgdg/apt.postgresql.org
    [ -e "$key.asc" ] || sed -n '/BEGIN PGP/,/END PGP/p' "$key.sh" >"$key.asc"
    case $PGDG in
        *' '*) suite= ;;
        *) suite=$VERSION_CODENAME-pgdg-archive ;;
    esac
    echo "deb [signed-by=$key.asc] $PGDG $suite main" >"$sources"
    update || fail "the PostgreSQL project's archive $PGDG cannot be read; $has;" \
        "give a mirror of the archive as PGDG, or a package as PGVECTOR=./FILE.deb"
}

case $POSTGRES in
    '' | *[!0-9]*) fail "POSTGRES is '$POSTGRES': give a major version such as 17" ;;
esac
case $PGVECTOR in
    *.deb) check_deb "$here/$PGVECTOR" "$pgvector" ;;
esac

mkdir -p /etc/postgresql-common/createcluster.d
echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/ann-benchmarks.conf
leave_out
update || fail "the package lists of $PRETTY_NAME cannot be had"

# The distribution's server, where it has one, also with another pgvector: that alone is to differ.
has_server=$(versions "$server" | head -n 1)
if [ -n "$has_server" ]; then
    install "$server"
    missing=
else
    missing=$server
fi

case $PGVECTOR in
    *.deb) [ -n "$has_server" ] || add_pgdg ;;
    '' | [0-9]*) [ -n "$has_server" ] && [ -n "$(chosen)" ] || add_pgdg ;;
    *) add_suite ;;
esac

case $PGVECTOR in
    *.deb) install ${missing:+"$missing"} "$here/$PGVECTOR" ;;
    *)
        version=$(chosen)
        case $PGVECTOR in
            '' | [0-9]*) suite= ;;
            *) suite=$PGVECTOR ;;
        esac
        [ -n "$version" ] || fail "there is no pgvector${PGVECTOR:+ $PGVECTOR} for PostgreSQL $POSTGRES and $PRETTY_NAME;" \
            "there is: $(there_is pgvector "${suite:+$suite/}")"
        install ${suite:+--target-release "$suite"} ${missing:+"$missing"} "$pgvector=$version"
        ;;
esac
apt-mark hold "$server" "$pgvector" # a later package may not bring another one

try_extension vector
echo "installed: $(dpkg-query -W -f '${Package} ${Version}, ' "$server" "$pgvector" | sed 's/, $//')"
clean
