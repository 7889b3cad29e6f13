#!/usr/bin/env bash
# Makes .venv with the pinned packages, and installs missing packages of the system.
#   ./setup.sh         packages for `make run`
#   ./setup.sh --dev   and those for tests, checks and benchmarks; DB=postgres: PostgreSQL too;
#                      CLUSTER=1: those of `make test-cluster`
# A second run does only new changes. It never starts, stops or configures a service of the system.
set -euo pipefail
cd "$(dirname "$0")"

requirements=requirements.txt
packages=()
need() { # need PACKAGE COMMAND...: the package is missing when none of the commands is there
    local package=$1 command
    shift
    for command in "$@"; do
        if PATH="$PATH:/usr/sbin:/usr/local/sbin:/sbin" command -v "$command" >/dev/null; then return; fi
    done
    packages+=("$package")
}

# A machine needs what its roles start. Without ROLES it has all of them.
has_role() { [[ -z "${ROLES:-}" || ",${ROLES// /}," == *",$1,"* ]]; }
if has_role front; then need nginx nginx; fi
if { has_role state && [ -z "${REDIS_URL:-}" ]; } || { has_role cache && [ -z "${CACHE_URL:-}" ]; }; then
    need redis-server redis-server
fi
if [ "${1:-}" = --dev ]; then
    requirements=requirements-dev.txt
    need nginx nginx
    need redis-server redis-server
    need chromium chromium chromium-browser google-chrome
    need curl curl
    need wget wget
    need wrk wrk
    need systemd systemd-analyze
    need haproxy haproxy
    need openssl openssl
    if [ "${CLUSTER:-0}" = 1 ]; then
        need iproute2 ip
        need nftables nft
    fi
    if [ "${DB:-sqlite}" = postgres ]; then need postgresql initdb /usr/lib/postgresql/*/bin/initdb; fi
fi

PYTHON=${PYTHON:-python3}
# pip is not there when making .venv was interrupted, or when the system's Python is another one since.
has_venv() { .venv/bin/python -c 'import pip' 2>/dev/null; }
if ! command -v "$PYTHON" >/dev/null; then
    packages+=(python3 python3-venv)
elif ! has_venv && ! "$PYTHON" -c "import ensurepip, venv" 2>/dev/null; then
    packages+=(python3-venv)
fi

as_root=()
may_install() {
    command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" = 0 ]; then return 0; fi
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root=(sudo -n)
        return 0
    fi
    return 1
}

refuse() {
    echo "Missing on this system: ${packages[*]}" >&2
    echo "Install them (Debian, Ubuntu: sudo apt-get install ${packages[*]}) and run this again." >&2
    exit 1
}

# Debian starts a service as soon as it is installed. Tarry brings its own configuration and its own
# processes, so what is installed here stays stopped, unless the system has a policy of its own.
policy=/usr/sbin/policy-rc.d
made_policy=no
remove_policy() {
    if [ "$made_policy" = yes ]; then "${as_root[@]}" rm -f "$policy"; fi
    made_policy=no
}

install_packages() {
    echo "Installing ${packages[*]}"
    trap remove_policy EXIT
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
        "${as_root[@]}" chmod 755 "$policy"
        made_policy=yes
    fi
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q || true
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends "${packages[@]}" || refuse
    remove_policy
    if [ -d /run/systemd/system ]; then # nor at the next boot
        for package in "${packages[@]}"; do
            case $package in nginx | redis-server | postgresql | haproxy | nftables) "${as_root[@]}" systemctl disable "$package" || true ;; esac
        done
    fi
}

if [ ${#packages[@]} -gt 0 ]; then
    may_install || refuse
    install_packages
fi

if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "Python 3.11 or newer is needed; $PYTHON is $("$PYTHON" --version). Name another one: PYTHON=python3.12 $0" >&2
    exit 1
fi

stamp() { echo ".venv/installed-${1%.txt}"; }
wanted() { cksum <"$1"; }
if ! has_venv; then
    echo "Making .venv"
    "$PYTHON" -m venv --clear .venv
fi
if [ "$(cat "$(stamp "$requirements")" 2>/dev/null)" != "$(wanted "$requirements")" ]; then
    echo "Installing $requirements"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$requirements"
    wanted requirements.txt >"$(stamp requirements.txt)" # the other file holds the same pins, and more
    wanted "$requirements" >"$(stamp "$requirements")"
fi
