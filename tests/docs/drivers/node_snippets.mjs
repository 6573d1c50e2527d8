// Runs the TypeScript and JavaScript snippets that it is told of, each as a module of its own.
import { createReadStream, writeFileSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [asks, answers] = process.argv.slice(2).map(Number);
process.setSourceMapsEnabled(true);
const { transform } = createRequire(`${process.cwd()}/`)("esbuild");

const camel = (name) => name.toLowerCase().replace(/_(\w)/g, (_, letter) => letter.toUpperCase());

async function run({ code, file, line, names }, number) {
  for (const [name, value] of Object.entries(names)) {
    process.env[name] = value;
    globalThis[camel(name)] = value;
  }
  const made = await transform("\n".repeat(line - 1) + code, {
    loader: "ts",
    sourcefile: file,
    sourcemap: "inline",
    target: "node20",
  });
  const path = `${process.cwd()}/snippet-${number}.mjs`;
  writeFileSync(path, made.code);
  await import(pathToFileURL(path));
}

let number = 0;
for await (const line of createInterface({ input: createReadStream("", { fd: asks }) })) {
  const status = await run(JSON.parse(line), number++).then(
    () => 0,
    (error) => {
      console.error(error);
      return 1;
    },
  );
  writeSync(answers, `${status}\n`);
}
process.exit();
