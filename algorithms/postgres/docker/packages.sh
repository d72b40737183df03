# What the build steps of the PostgreSQL images share; they read it with `.` and run as root.

set -eu
# shellcheck source=/dev/null
. /etc/os-release
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2034
here=$(dirname "$0")
server=postgresql-$POSTGRES
sources=/etc/apt/sources.list.d/ann-benchmarks.list
left_out=/etc/dpkg/dpkg.cfg.d/ann-benchmarks-postgres

fail() {
    echo "error: $*" >&2
    exit 1
}

update() {
    apt-get -q update -o APT::Update::Error-Mode=any
}

install() {
    apt-get -q install -y --no-install-recommends "$@" || fail "apt cannot install $*; what it said is above"
}

# versions PACKAGE: those that can be had, newest first.
versions() {
    apt-cache madison "$1" 2>/dev/null | awk -F ' *[|] *' '{ print $2 }'
}

# there_is EXTENSION [SUITE]: its packages and their versions, for a message.
there_is() {
    found=$(apt-cache pkgnames postgresql- | grep -xE "postgresql-[0-9]+-$1" | xargs -r apt-cache madison |
        grep -F " ${2:-}" | awk -F ' *[|] *' '{ sub("^ *", "", $1); print $1, $2 }' | sort -uV | paste -sd , -)
    echo "${found:-none}" | sed 's/,/, /g'
}

# check_deb FILE PACKAGE: what the user gave, or what was downloaded, is that package and for this machine.
check_deb() {
    [ -e "$1" ] || fail "there is no ${1##*/} in the build's folder packages/"
    name=$(dpkg-deb --field "$1" Package 2>/dev/null) || fail "${1##*/} is not a Debian package"
    [ "$name" = "$2" ] ||
        fail "${1##*/} is the package $name, not $2: give that one, or choose POSTGRES to match"
    machine=$(dpkg-deb --field "$1" Architecture)
    [ "$machine" = all ] || [ "$machine" = "$(dpkg --print-architecture)" ] ||
        fail "${1##*/} is for $machine, this image for $(dpkg --print-architecture)"
}

# Say no to what a benchmark in a container never reads: the just-in-time compiler, which the plug-ins switch off
# (PostgreSQL goes without where its library is missing), translations, manuals, definitions of locales.
leave_out() {
    cat >"$left_out" <<'END'
path-exclude=/usr/lib/postgresql/*/lib/llvmjit*
path-exclude=/usr/lib/postgresql/*/lib/bitcode/*
path-exclude=/usr/lib/*/libLLVM*
path-exclude=/usr/lib/llvm-*
path-exclude=/usr/lib/*/libz3.so*
path-exclude=/usr/share/i18n/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/man/*
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
END
}

# try_extension NAME: a server that cannot make it ends the build, not a run. VectorChord wants to be preloaded.
try_extension() {
    folder=$(mktemp -d)
    chown postgres "$folder"
    programs=/usr/lib/postgresql/$POSTGRES/bin
    as_postgres="runuser -u postgres --"
    if ! {
        $as_postgres "$programs/initdb" -D "$folder/data" --locale C --encoding UTF8 --no-sync &&
            echo "CREATE EXTENSION $1 CASCADE" | $as_postgres "$programs/postgres" --single -D "$folder/data" \
                -c "shared_preload_libraries=${2:-}" -c exit_on_error=on template1
    } >"$folder/said" 2>&1; then
        said=$(sed -nE 's/.*(FATAL|ERROR|DETAIL): *//p' "$folder/said" | paste -sd ' ' -)
        fail "PostgreSQL $POSTGRES cannot create the extension $1: ${said:-$(tail -n 1 "$folder/said")}"
    fi
    rm -r "$folder"
}

clean() {
    rm -f "$sources" "$left_out"
    apt-get clean
    rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old /var/lib/dpkg/*-old /var/log/apt /var/log/*.log
}
