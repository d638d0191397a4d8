# Shared by the scripts of this folder: sourced, never run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv="$root/.venv"

say() { printf '%s\n' "$*"; }
fail() {
    printf 'script/%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# The folders at the top that are parts of the package, as famulus.NAME words.
parts() {
    local init
    for init in "$root"/*/__init__.py; do
        printf 'famulus.%s\n' "$(basename "$(dirname "$init")")"
    done
}

# check LABEL COMMAND…: run one check, say how it went, remember a failure.
failed=()
check() {
    local label=$1 began=$SECONDS
    shift
    say "== $label"
    if "$@"; then
        say "   $label: ok ($((SECONDS - began)) s)"
    else
        say "   $label: FAILED"
        failed+=("$label")
    fi
}

# The four checks that read the code without running it.
static_checks() {
    cd "$root"
    local packages=() part
    for part in $(parts); do packages+=(-p "$part"); done
    check "ruff format" "$venv/bin/ruff" format --check .
    check "ruff check" "$venv/bin/ruff" check .
    check "mypy" "$venv/bin/mypy" --strict "${packages[@]}"
    check "import rules" "$venv/bin/lint-imports" --no-logo --no-cache
}

# The last line and the exit status.
verdict() {
    if ((${#failed[@]})); then
        local names
        names=$(printf ', %s' "${failed[@]}")
        say "FAILED: ${names:2}"
        exit 1
    fi
    say "OK: $*"
}
