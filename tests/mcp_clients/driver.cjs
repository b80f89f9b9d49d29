// The same as driver.py for the official TypeScript SDK: node driver.cjs FOLDER_OF_NODE_MODULES URL [TOKEN]
const { createRequire } = require("node:module");
const readline = require("node:readline");
const [folder, url, token] = process.argv.slice(2);
const sdk = createRequire(folder + "/");
const { Client } = sdk("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = sdk("@modelcontextprotocol/sdk/client/streamableHttp.js");

async function main() {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const client = new Client({ name: "driver", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  const call = async (query) => {
    const result = await client.callTool({ name: "search", arguments: { query } });
    return { text: result.content[0].text, structured: result.structuredContent ?? null, error: !!result.isError };
  };
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    const told =
      asked.do === "list"
        ? (await client.listTools()).tools.map((tool) => tool.name)
        : await Promise.all(Array.from({ length: asked.times }, () => call(asked.query)));
    console.log(JSON.stringify(told));
  }
  await client.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
