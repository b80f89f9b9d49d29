#!/bin/sh
# Sets up SerenCorpusCallosum: a virtual environment, the package, a starter configuration and, if wanted, a service.
# May be run again: it upgrades the package and keeps an existing configuration.
set -eu

usage() {
    cat <<'TEXT'
usage: seren-corpus-callosum-setup.sh [options]

  --dir DIR     where the virtual environment and the configuration go
                (default: ~/.local/share/seren-corpus-callosum, as root /opt/seren-corpus-callosum)
  --mcp         with the MCP search tool
  --corp        with the operating system's trust store (corporate networks)
  --keyring     with the operating system's keychain for tokens
  --from PATH   install this wheel or checkout instead of the release on PyPI
  --cert PATH   certificates (PEM) that pip is to trust, behind a TLS-inspecting proxy
  --service     install the service that starts at boot
  --dry-run     print what would be done and change nothing
  --help        print this
TEXT
}

wrong() {
    printf '%s\n\n' "error: $1" >&2
    usage >&2
    exit 2
}

fail() {
    printf '%s\n' "error: $1" >&2
    exit 1
}

run() {
    line=+
    for word in "$@"; do
        case $word in
            '' | *[!A-Za-z0-9_./:=@%,+-]*) line="$line '$word'" ;;
            *) line="$line $word" ;;
        esac
    done
    printf '%s\n' "$line"
    "$dry_run" || "$@"
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for name in python3 python3.15 python3.14 python3.13 python3.12 python3.11 python; do
        if is_new_enough "$name"; then
            command -v "$name"
            return
        fi
    done
    fail "Python 3.11 or newer is needed and was not found on the PATH"
}

absolute() {
    case $1 in
        /*) printf '%s\n' "$1" ;;
        *) printf '%s\n' "$PWD/$1" ;;
    esac
}

dir=''
extras=''
from=''
cert=''
service=false
dry_run=false

while [ $# -gt 0 ]; do
    case $1 in
        --mcp | --corp | --keyring) extras="$extras,${1#--}" ;;
        --service) service=true ;;
        --dry-run) dry_run=true ;;
        --help | -h)
            usage
            exit 0
            ;;
        --dir | --from | --cert)
            [ -n "${2:-}" ] || wrong "$1 needs a value"
            path=$(absolute "$2")
            case $1 in
                --dir) dir=$path ;;
                --from) from=$path ;;
                --cert) cert=$path ;;
            esac
            shift
            ;;
        *) wrong "unknown option: $1" ;;
    esac
    shift
done

[ -z "$from" ] || [ -e "$from" ] || fail "--from: there is no $from"
[ -z "$cert" ] || [ -r "$cert" ] || fail "--cert: $cert cannot be read"
if [ -z "$dir" ]; then
    if [ "$(id -u)" -eq 0 ]; then
        dir=/opt/seren-corpus-callosum
    else
        dir=${XDG_DATA_HOME:-${HOME:?is not set: name a folder with --dir}/.local/share}/seren-corpus-callosum
    fi
fi

venv=$dir/venv
config=$dir/seren-corpus-callosum.yaml
package=${from:-seren-corpus-callosum}${extras:+[${extras#,}]}

if is_new_enough "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    printf '%s\n' "The virtual environment in $venv is kept."
else
    python=$(find_python)
    run mkdir -p "$dir"
    run "$python" -m venv --clear "$venv" ||
        fail "no virtual environment could be made (Debian and Ubuntu: apt install python3-venv)"
fi

set -- "$venv/bin/python" -m pip install --upgrade "$package"
[ -z "$cert" ] || set -- env "PIP_CERT=$cert" "$@"
run "$@"

if [ -e "$config" ]; then
    printf '%s\n' "The configuration in $config is kept."
else
    run "$venv/bin/seren-corpus-callosum" -c "$config" init
fi

if "$service"; then
    run "$venv/bin/seren-corpus-callosum" -c "$config" service install
else
    printf '%s\n' "Start it with: '$venv/bin/seren-corpus-callosum' -c '$config'"
fi
if "$dry_run"; then
    printf '%s\n' "Nothing was changed."
fi
