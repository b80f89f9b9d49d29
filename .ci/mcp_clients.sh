#!/usr/bin/env bash
# mcp_clients.sh DIR: puts other people's MCP clients into DIR: the official Python SDK 1.x (DIR/mcp1) and fastmcp
# (DIR/fastmcp), each an environment of its own, the official TypeScript SDK and the inspector (DIR/mcp_node).
# Does nothing when DIR already holds just that. Python is $PYTHON, else python3; node and npm must be there.
set -euo pipefail

dir=${1:?usage: mcp_clients.sh DIR}
python=${PYTHON:-python3}
mcp1=mcp==1.30.0
fastmcp=fastmcp==4.2.3
# A folder of its own: npm removes from node_modules whatever it was not asked for.
packages=(@modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/inspector@1.0.3)
contents="$mcp1 $fastmcp ${packages[*]}"

if [[ -f $dir/clients && $(<"$dir/clients") == "$contents" && -d $dir/mcp_node/node_modules ]] &&
    "$dir/mcp1/bin/python" -c '' 2>/dev/null && "$dir/fastmcp/bin/python" -c '' 2>/dev/null; then
    exit 0
fi

mkdir -p "$dir/mcp_node"
dir=$(cd "$dir" && pwd)
rm -f "$dir/clients"

for pair in "mcp1 $mcp1" "fastmcp $fastmcp"; do
    read -r name package <<<"$pair"
    "$python" -m venv --clear "$dir/$name"
    "$dir/$name/bin/pip" install -qq --no-input --disable-pip-version-check "$package"
done
npm install --prefix "$dir/mcp_node" --silent --no-audit --no-fund --no-save --ignore-scripts "${packages[@]}"

printf '%s\n' "$contents" >"$dir/clients"
