# A use of a product, $1, by bash: in an empty folder with its samples, the program installed; a page in its own folder. $2: a browser
# for pages, empty where there is none; $3: the module that opens pages in it. What it took stands first on standard error.
set -eu
export COLUMNS=100
if [ -f pyproject.toml ]; then
    place=$(mktemp -d) desk=$(mktemp -d)
    python -m pip install --quiet --no-index --no-build-isolation --no-deps --prefix "$place" . >"$place/log" 2>&1 || {
        tail -n 30 "$place/log" >&2; echo "pip install . fails" >&2; exit 97; }
    export PATH="$place/bin:$PATH" PYTHONPATH="$(echo "$place"/lib/python*/site-packages)"
    if [ -d examples ]; then cp -r examples "$desk"; fi
    cd "$desk"
fi
if [ -n "$2" ]; then
    mkdir "$TMPDIR/browse"
    printf %s "$3" >"$TMPDIR/browse/browse.py"
fi
export BROWSE_WITH="$2" PYTHONPATH="${PYTHONPATH:-}:$TMPDIR/browse"
exec python -c '
import resource, shutil, subprocess, sys, tempfile, time
began = time.monotonic()
with tempfile.TemporaryFile() as said:          # told behind the figures, which are first: what is long is cut at its end
    code = subprocess.call(["timeout", "-k", "5", "60", "bash", "-c", sys.argv[1]], stdin=subprocess.DEVNULL, stderr=said)
    took, unit = time.monotonic() - began, 1024 if sys.platform == "linux" else 1024 ** 2
    print(f"measured: {took:.1f} s {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // unit} MB", file=sys.stderr, flush=True)
    said.seek(0)
    shutil.copyfileobj(said, sys.stderr.buffer)
sys.exit(code if code >= 0 else 128 - code)' "$1"
