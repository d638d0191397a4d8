# Debian packages and the wheels that are compiled on this machine: sourced by the scripts that install, after _lib.sh.

# Without wheels for small boards on the index, these are built here, once per machine type.
llama=llama-cpp-python==0.3.36
small=(PyAudio==0.2.14 systemd-python==235)

python=${FAMULUS_PYTHON:-/usr/bin/python3}

# debian_packages [NAME…]: install what running famulus needs, and NAMEs, where it is missing.
debian_packages() {
    local wanted=(python3 python3-venv python3-dev gcc g++ cmake ninja-build pkg-config libsystemd-dev portaudio19-dev dbus "$@")
    command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
        fail "this is not a Debian family system; install the likes of ${wanted[*]} with its own package manager, then pip install -e . in a venv"

    local missing=() name
    for name in "${wanted[@]}"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || missing+=("$name")
    done
    ((${#missing[@]})) || return 0

    local as_root=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null || fail "these Debian packages are missing; as root, run: apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    say "Installing Debian packages: ${missing[*]}"
    "${as_root[@]}" apt-get -qq update || fail "apt-get update failed; check the network and the package sources"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 --no-install-recommends install "${missing[@]}" ||
        fail "apt-get could not install ${missing[*]}; its reason stands above"
}

check_python() {
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        fail "$python is missing or older than Python 3.11; name a newer one in FAMULUS_PYTHON"
}

# The wheel of llama.cpp is compiled for exactly this processor, so another one must not find it.
wheel_key() {
    local tag flags
    tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
    # Kernel updates add flags for processor bugs; only those that name instructions count.
    flags=$(grep -m1 -E '^(flags|Features)' /proc/cpuinfo | tr ' \t' '\n\n' |
        grep -E '^(sse|ssse|avx|amx|fma|f16c|bmi|abm|adx|aes|vaes|sha|gfni|vpclmul|pclmul|movbe|popcnt|asimd|neon|fp|sve|sme|i8mm|bf16|crc32|atomics|pmull|dcpop|lrcpc)' |
        sort -u | sha256sum | cut -c1-8 || true) # a processor that names none is a kind of its own
    printf '%s-%s-%s-%s' "${llama#*==}" "$tag" "$(uname -m)" "$flags"
}

# fresh_pip PYTHON: the pip of a new venv as recent as the wheels need.
fresh_pip() {
    local major
    major=$("$1" -c 'import pip; print(pip.__version__.split(".")[0])')
    if ((major < 24)); then
        "$1" -m pip install --quiet --upgrade pip || fail "pip could not be upgraded; check the network"
    fi
}

# build_wheels PYTHON: make the wheels that $wheels does not hold, with the pip of PYTHON.
build_wheels() {
    mkdir -p "$wheels"
    # One build at a time for all checkouts that share the cache; the second finds the wheels there.
    exec 9>"$wheels/.lock"
    if ! flock -n 9; then
        say "Another build is running in $wheels; waiting for it"
        flock -w 7200 9 || fail "another build still holds $wheels/.lock after two hours"
    fi

    local name
    for name in "${small[@]}"; do
        has_wheel "$name" || build "$1" "$name" "Building $name, some seconds"
    done
    if ! has_wheel "$llama"; then
        build "$1" "$llama" "Building $llama for this processor, once: 6 to 8 minutes on two cores, 25 and more on a Raspberry Pi 4" \
            --no-cache-dir -C cmake.define.LLAVA_BUILD=OFF # pip's own cache does not know one processor from another
    fi
    exec 9>&-
}

# The wheel of NAME==VERSION in the cache, however its name is spelt.
wheel_of() {
    local name=${1%%==*} version=${1##*==}
    find "$wheels" -maxdepth 1 -iname "${name//-/_}-$version-*.whl" -print -quit
}
has_wheel() { [[ -n $(wheel_of "$1") ]]; }

# Every wheel of the cache that famulus needs. By path: a version range could prefer a newer source archive of the
# index and build that.
built_wheels() {
    local name
    for name in "$llama" "${small[@]}"; do wheel_of "$name"; done
}

# build PYTHON NAME==VERSION TEXT [PIP OPTION…]
build() {
    local builder=$1 name=$2 text=$3
    shift 3
    rm -rf "$wheels/.new"
    logged "$text" "$wheels/${name%%==*}.log" \
        env CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(build_jobs)}" \
        "$builder" -m pip wheel --verbose --no-deps --wheel-dir "$wheels/.new" "$@" "$name"
    mv "$wheels"/.new/*.whl "$wheels/"
    rmdir "$wheels/.new"
}

# A compiler of llama.cpp's largest files takes most of a gigabyte: a board must not run out of memory.
build_jobs() {
    local cores memory_kb
    cores=$(nproc)
    memory_kb=$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)
    local fit=$((memory_kb / 900000))
    ((fit >= 1)) || fit=1
    echo $((fit < cores ? fit : cores))
}

# logged TEXT LOG COMMAND…: say TEXT, run the command with its output in LOG, say every 30 s that it lives,
# and show the end of LOG if it fails.
logged() {
    local text=$1 log=$2 began=$SECONDS told=$SECONDS pid status=0
    shift 2
    say "$text (log: $log)"
    setsid "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    # It has a session of its own, so that an interrupt can end the compilers too.
    trap "kill -TERM -- -$pid 2>/dev/null || true" EXIT
    trap 'exit 130' INT TERM
    while kill -0 "$pid" 2>/dev/null; do
        sleep 1
        if ((SECONDS - told >= 30)); then
            told=$SECONDS
            say "  still at it after $((SECONDS - began)) s$(grep -aoE '\[[0-9]+/[0-9]+\]' "$log" | tail -n1 | sed 's/^/, step /' || true)"
        fi
    done
    trap - EXIT INT TERM
    wait "$pid" || status=$?
    if ((status)); then
        tail -n 25 "$log" >&2
        fail "that failed with status $status; the end of $log stands above"
    fi
}
