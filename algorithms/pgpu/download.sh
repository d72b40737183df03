#!/bin/sh
# Download pgpu's package from EnterpriseDB's repository into /packages, in a container of the base image:
#
#     docker run --rm -i --network host --tmpfs /run/secret -v "$PWD/packages:/packages" \
#         -v "$PWD/algorithms/pgpu/download.sh:/download.sh" ann-benchmarks-base sh /download.sh <~/.edb-token
#
#   standard input   the token of an account there; it is kept in /run/secret, which is in memory
#   POSTGRES         major version
#   PGPU             empty for the newest, or a version such as 2.0.0
#   EDB              address of the repository, as one that takes the token as a password; a distribution and a
#                    suite may follow
set -eu
POSTGRES=${POSTGRES:-17} PGPU=${PGPU:-} EDB=${EDB:-https://downloads.enterprisedb.com/basic/enterprise}
# shellcheck source=/dev/null
. /etc/os-release
export DEBIAN_FRONTEND=noninteractive

fail() {
    echo "error: $*" >&2
    exit 1
}

# refused ADDRESS: say why apt could not have it; what it said is in the file `said`.
refused() {
    why=$(sed -nE "s#^[EW]: Failed to fetch [^ ]+ +##p; s#^[EW]: (.*)#\\1#p" said | head -n 1 | tr -s ' ' | sed 's#[: ]*$##')
    case $why in
        401* | 402* | 403* | 404*)
            fail "$1 does not take the token (${why%% \[*}): copy it anew from your account there, or name with" \
                "-e EDB=... a repository that it is for"
            ;;
        *) fail "$1 cannot be read: ${why:-$(tail -n 1 said)}" ;;
    esac
}

read -r token || [ -n "${token:-}" ] || fail "there is no token on the standard input"
cd /run/secret
# shellcheck disable=SC2086
set -- $EDB
address=${1%/}
# Of Debian, EnterpriseDB publishes pgpu for the release before the one that images start from by default. What
# runs there runs here: its package names the libraries that it needs.
case $ID in
    debian) suite=bookworm ;;
    *) suite=$VERSION_CODENAME ;;
esac
distribution=${2:-$ID} suite=${3:-$suite}

umask 077
# The token is a password, which apt sends to this address alone and never prints; in an address it would.
printf 'machine %s login token password %s\n' "$address" "$token" >auth.conf
token=
cat >apt.conf <<END
Dir::Etc::netrc "/run/secret/auth.conf";
Dir::Etc::sourcelist "/run/secret/sources.list";
Dir::Etc::sourceparts "/dev/null";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "2";
END
export APT_CONFIG=/run/secret/apt.conf

echo "the key of $address"
/usr/lib/apt/apt-helper download-file "$address/gpg.key" key.asc >said 2>&1 || refused "$address"
grep -q 'BEGIN PGP PUBLIC KEY' key.asc || fail "$address/gpg.key is no key: is there something between that answers?"
echo "deb [signed-by=/run/secret/key.asc] $address/deb/$distribution $suite main" >sources.list
echo "the packages for $distribution $suite"
apt-get -q update >said 2>&1 || refused "$address/deb/$distribution, suite $suite,"

name=$(apt-cache pkgnames | grep -E "^(edb-pg|postgresql-)$POSTGRES-pgpu" | grep -vE -- '-(dbg|dbgsym|debug|debuginfo)$' | sort | tail -n 1)
if [ -z "$name" ]; then
    others=$(apt-cache pkgnames | grep -E '(^|-)pgpu' | sort | paste -sd ' ' -)
    fail "$address has no pgpu for PostgreSQL $POSTGRES and $distribution $suite; it has: ${others:-none at all}"
fi
versions=$(apt-cache madison "$name" | awk -F ' *[|] *' '{ print $2 }')
version=$(echo "$versions" | awk -v v="$PGPU" 'v == "" || $0 == v || index($0, v "-") == 1 { print; exit }')
[ -n "$version" ] || fail "$address has no $name $PGPU; it has: $(echo "$versions" | paste -sd ' ' -)"

umask 022
mkdir -p /packages
cd /packages
apt-get -q download "$name=$version" >/run/secret/said 2>&1 || { cd /run/secret && refused "$name $version"; }
echo "downloaded: $name $version"
