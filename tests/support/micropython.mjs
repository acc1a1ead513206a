// Runs FOLDER/SCRIPT in the WebAssembly build of MicroPython, with the files of FOLDER in its
// working directory: node micropython.mjs PACKAGE FOLDER SCRIPT
import { readdirSync, readFileSync, statSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [packageFolder, folder, script] = process.argv.slice(2);
const { loadMicroPython } = await import(pathToFileURL(`${packageFolder}/micropython.mjs`));
const micropython = await loadMicroPython({ heapsize: 1 << 25, stdout: (line) => console.log(line) });
for (const name of readdirSync(folder)) {
  if (statSync(`${folder}/${name}`).isFile()) {
    micropython.FS.writeFile(`/${name}`, readFileSync(`${folder}/${name}`));
  }
}
micropython.FS.chdir("/");
micropython.runPython(`import sys\nsys.path.insert(0, "/")\n${readFileSync(`${folder}/${script}`, "utf8")}`);
