/** Runs the worker in workerd, as Cloudflare does. */

import { build } from "esbuild";
import { Miniflare } from "miniflare";

const options = { bundle: true, format: "esm", write: false };
const { outputFiles } = await build({ entryPoints: ["worker.js"], ...options });
const worker = new Miniflare({
  modules: true,
  script: outputFiles[0].text,
  compatibilityDate: "2026-01-01",
});
try {
  const answer = await worker.dispatchFetch("http://localhost/", {
    method: "POST",
    body: process.argv[2],
  });
  console.log(await answer.text());
} finally {
  await worker.dispose();
}
